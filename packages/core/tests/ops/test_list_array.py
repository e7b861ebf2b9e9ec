"""TensorArray: what programs hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient


def test_writing_gives_another_array() -> None:
    with hr.Graph().as_default() as graph:
        empty = hr.TensorArray(3, element_shape=[2])
        one = empty.write(1, [1.0, 2.0])
        two = one.write(hr.constant(1, hr.int64), [3.0, 4.0])
        values = [array.stack() for array in (empty, one, two)]
        assert values[0].shape == [3, 2]
        found = [*values, two.read(1), two.read(2), two.size()]
    results = hr.Session(graph).run(found)
    np.testing.assert_array_equal(results[0], np.zeros((3, 2)))
    np.testing.assert_array_equal(results[1], [[0, 0], [1, 2], [0, 0]])
    np.testing.assert_array_equal(results[2], [[0, 0], [3, 4], [0, 0]])
    np.testing.assert_array_equal(results[3], [3, 4])
    np.testing.assert_array_equal(results[4], [0, 0])
    assert results[5] == 3


def test_rows_in_and_out() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 2])
        array = hr.TensorArray().unstack(x)
        scattered = array.scatter([0, 3], [[9.0, 9.0], [8.0, 8.0]])
        parts = hr.TensorArray(infer_shape=False).split(x, [1, 0, 2])
        fetched = [array.gather([2, 0]), scattered.stack(), parts.concat(), parts.read(2), parts.size()]
        assert array.read(0).shape == [2]
        assert parts.read(0).shape == [None, 2] or parts.read(0).shape.rank is None
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    gathered, stacked, joined, last, size = hr.Session(graph).run(fetched, feeds={x: rows})
    np.testing.assert_array_equal(gathered, rows[[2, 0]])
    np.testing.assert_array_equal(stacked, [[9, 9], *rows[1:], [8, 8]])
    np.testing.assert_array_equal(joined, rows)
    np.testing.assert_array_equal(last, rows[1:])
    assert size == 3


def test_only_a_dynamic_array_grows_when_it_is_written() -> None:
    with hr.Graph().as_default() as graph:
        growing = hr.TensorArray(0, hr.int32, dynamic_size=True).write(2, 7).stack()
        fixed = hr.TensorArray(2, hr.int32).write(2, 7).stack()
    session = hr.Session(graph)
    assert session.run(growing).tolist() == [0, 0, 7]
    with pytest.raises(hr.errors.OutOfRangeError, match="an index is beyond the list"):
        session.run(fixed)


def test_what_does_not_fit_is_refused_where_it_is_written() -> None:
    with hr.Graph().as_default():
        array = hr.TensorArray(2).write(0, [1.0, 2.0])
        with pytest.raises(hr.errors.ShapeError, match="the value does not fit the array"):
            array.write(1, [1.0, 2.0, 3.0])
        with pytest.raises(hr.errors.DTypeError, match="does not fit the dtype"):
            hr.TensorArray(2, hr.int32).write(0, 1.5)
        with pytest.raises(hr.errors.ShapeError, match="the values have no rows"):
            array.scatter([0], 1.0)
        with pytest.raises(hr.errors.InvalidArgumentError, match="an index or size of an array must be an integer"):
            array.read(1.0)
        with pytest.raises(hr.errors.InvalidArgumentError, match="an array is made of a list"):
            array.__headrace_flatten__()[1]([hr.constant(1.0)])
        mixed = hr.TensorArray(2, infer_shape=False).write(0, [1.0, 2.0]).write(1, [1.0])
        assert mixed.element_shape.rank is None
        assert repr(array) == "<hr.TensorArray of float32[2]; array.stack() gives its elements as a tensor>"


def test_D16_gradients_of_every_method_to_second_order() -> None:
    def build(inputs: Sequence[hr.Tensor]) -> list[hr.Tensor]:
        x, y = inputs
        array = hr.TensorArray(3, hr.float64).write(0, x * y).write(2, y * y * x)
        array = array.scatter([1], hr.stack([x * x]))
        rows = array.gather([0, 2, 0])
        parts = hr.TensorArray(2, hr.float64, infer_shape=False).split(rows * array.stack(), [2, 1])
        again = hr.TensorArray(0, hr.float64).unstack(parts.concat())
        return [parts.read(0) * array.read(1), again.stack() * again.read(0)]

    check_gradient(build, [[0.5, -1.2], [1.5, 0.3]])


def test_D16_gradients_of_a_loop_that_reads_and_writes_arrays_to_second_order() -> None:
    def build(inputs: Sequence[hr.Tensor]) -> list[hr.Tensor]:
        x, w = inputs
        rows = hr.TensorArray(dtype=hr.float64).unstack(x)

        def body(i: hr.Tensor, state: hr.Tensor, done: hr.TensorArray) -> tuple[hr.Tensor, hr.Tensor, hr.TensorArray]:
            after = hr.tanh(rows.read(i) * w + state)
            return i + 1, after, done.write(i, after * rows.read(2 - i))

        start = (0, hr.zeros([2], hr.float64), hr.TensorArray(3, hr.float64, element_shape=[2]))
        _, state, done = hr.while_loop(lambda i, *_: i < 3, body, start)
        return [state, done.stack(), done.read(1) * rows.read(0)]

    check_gradient(build, [np.linspace(-1, 1, 6).reshape(3, 2), [0.5, -0.7]])


def test_an_array_knows_after_a_loop_what_was_written_in_it() -> None:
    with hr.Graph().as_default() as graph:
        start = (0, hr.TensorArray(3))
        _, done = hr.while_loop(lambda i, _: i < 3, lambda i, done: (i + 1, done.write(i, hr.ones([2]))), start)
        values = done.stack()
    assert values.shape == [3, 2]
    np.testing.assert_array_equal(hr.Session(graph).run(values), np.ones((3, 2)))


def test_an_array_may_come_out_of_a_branch() -> None:
    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        x = hr.constant([1.0, 2.0])
        array = hr.TensorArray().unstack(x)
        chosen = hr.cond(n > 0, lambda: array.write(0, 5.0), lambda: array)
        assert isinstance(chosen, hr.TensorArray)
        values = chosen.stack()
        (slope,) = hr.gradients(values * values, [x])
    session = hr.Session(graph)
    for number, expected in ((1, [[5, 2], [0, 4]]), (0, [[1, 2], [2, 4]])):
        np.testing.assert_array_equal(session.run([values, slope], feeds={n: number}), expected)


def test_gradient_by_an_array_is_an_array() -> None:
    with hr.Graph().as_default() as graph:
        array = hr.TensorArray(3).write(0, 1.0).write(1, 2.0).write(2, 3.0)
        (slope,) = hr.gradients(array.read(1) * array.read(2), [array])
        assert isinstance(slope, hr.TensorArray)
        values = slope.stack()
    assert hr.Session(graph).run(values).tolist() == [0.0, 3.0, 2.0]


def test_G19_a_given_gradient_may_come_from_any_scope() -> None:
    """TensorFlow told the calls of `gradients` apart by the name of the gradient that came in."""
    with hr.Graph().as_default() as graph:
        with hr.name_scope("gradients"):
            arriving = hr.constant([[2.42]])
        x = hr.constant([[1.0]])
        handle, flow = hr.apply_op("TensorArrayV3", 1, dtype=hr.float32)
        flow = hr.apply_op("TensorArrayScatterV3", handle, [0], x, flow)
        old = hr.apply_op("TensorArrayGatherV3", handle, [0], flow, dtype=hr.float32)
        new = hr.TensorArray(1).unstack(x).stack()
        slopes = [hr.gradients(y, [x], grad_ys=[arriving])[0] for y in (old, new)]
    for value in hr.Session(graph).run(slopes):
        np.testing.assert_array_equal(value, np.array([[2.42]], np.float32))


def test_the_gradient_of_many_reads_is_one_list() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant(np.arange(50, dtype=np.float32))
        array = hr.TensorArray().unstack(x)
        (slope,) = hr.gradients(hr.add_n([array.read(index) * index for index in range(50)]), [x])
    np.testing.assert_array_equal(hr.Session(graph).run(slope), np.arange(50, dtype=np.float32))
