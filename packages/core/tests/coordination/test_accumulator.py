"""Accumulators as users hold them: R05, two workers that make one update, sparse gradients, late ones."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError, NotFoundError, ShapeError
from headrace.kernels.accumulators import accumulator_behind
from headrace.kernels.gradient_accumulator import DroppedGradient
from headrace.testing.threads import Call, until


def test_R05_a_conditional_accumulator_averages_what_is_not_stale() -> None:
    with hr.Graph().as_default() as graph:
        accumulator = hr.ConditionalAccumulator(hr.float32, [])
        x, step = hr.placeholder(hr.float32, []), hr.placeholder(hr.int64, [])
        add, count = accumulator.apply_grad(x, step), accumulator.num_accumulated()
        take, none = accumulator.take_grad(3), accumulator.take_grad(0)
    session = hr.Session(graph)
    dropped: list[DroppedGradient] = []
    accumulator.on_drop(session, dropped.append)
    for number in (1, 2, 3, 4, 10):
        session.run(add, feeds={x: number, step: 0})
    assert session.run(count) == 5
    assert session.run(take) == 4.0
    assert session.run(count) == 0
    session.run(add, feeds={x: 100, step: 0})
    assert session.run(count) == 0
    assert dropped == [DroppedGradient(accumulator.name, 0, 1)]
    assert accumulator.num_dropped(session) == 1
    session.run(add, feeds={x: 6, step: 1})
    assert session.run(count) == 1
    with pytest.raises(InvalidArgumentError, match="number of gradients to wait for is not positive"):
        session.run(none)


def test_two_workers_make_one_update_and_wait_for_each_other() -> None:
    """Synchronous training: each worker adds its gradient, one step takes the mean and moves the variable."""
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.float32(0), name="w")
        global_step = hr.Variable(np.int64(0), name="step")
        target = hr.placeholder(hr.float32, [])
        (gradient,) = hr.gradients(hr.square(w - target), [w])
        accumulator = hr.ConditionalAccumulator(hr.float32, [])
        add = accumulator.apply_grad(gradient, global_step)
        update = w.assign_sub(0.25 * accumulator.take_grad(2))
        with hr.control_dependencies([update]):
            advance = global_step.assign_add(np.int64(1))
    session = hr.Session(graph)
    state = accumulator_behind(accumulator.handle.op, session.resources)
    for _ in range(20):
        chief = Call(lambda: session.run(advance))
        until(lambda: state.waiting == 1)
        session.run(add, feeds={target: 1.0})
        assert not chief.is_done
        session.run(add, feeds={target: 3.0})
        chief.result()
    np.testing.assert_allclose(session.run(w.read()), 2.0, atol=1e-4)
    assert session.run(global_step.read()) == state.step == 20


@pytest.mark.parametrize("prefix", ["", "Resource"])
def test_the_operations_under_both_names(prefix: str) -> None:
    with hr.Graph().as_default() as graph:
        handle = hr.apply_op(f"{prefix}ConditionalAccumulator", dtype=hr.float64, shape=[2], reduction_type="SUM")
        add = hr.apply_op(f"{prefix}AccumulatorApplyGradient", handle, np.int64(5), np.ones(2))
        step = hr.apply_op(f"{prefix}AccumulatorSetGlobalStep", handle, np.int64(5))
        count = hr.apply_op(f"{prefix}AccumulatorNumAccumulated", handle)
        take = hr.apply_op(f"{prefix}AccumulatorTakeGradient", handle, 1, dtype=hr.float64)
        assert str(take.shape) == "[2]"
    session = hr.Session(graph)
    session.run(step)
    session.run(add)
    session.run(add)
    assert session.run(count) == 2
    assert session.run(take).tolist() == [2, 2]


def test_an_accumulator_may_be_set_to_another_step() -> None:
    with hr.Graph().as_default() as graph:
        accumulator = hr.SparseConditionalAccumulator(hr.float32, [3, 1])
        rows = hr.IndexedSlices([[1.0]], [0], [3, 1])
        add, jump = accumulator.apply_grad(rows, 4), accumulator.set_global_step(5)
        count = accumulator.num_accumulated()
    session = hr.Session(graph)
    session.run(add)
    session.run(jump)
    session.run(add)
    assert session.run(count) == 1
    assert accumulator.num_dropped(session) == 1


def test_means_of_half_precision_are_tensorflows() -> None:
    with hr.Graph().as_default() as graph:
        accumulator = hr.ConditionalAccumulator(hr.float16, [])
        add, mean = accumulator.apply_grad(np.float16(0.1)), accumulator.take_grad(3)
    session = hr.Session(graph)
    for _ in range(3):
        session.run(add)
    assert session.run(mean) == np.float16(0.0999)


def test_sparse_gradients_are_averaged_row_by_row() -> None:
    with hr.Graph().as_default() as graph:
        accumulator = hr.SparseConditionalAccumulator(hr.float32, [None, 2])
        first = accumulator.apply_grad(hr.IndexedSlices([[1.0, 1.0], [2.0, 2.0]], [0, 2], [3, 2]))
        second = accumulator.apply_grad(hr.IndexedSlices([[4.0, 4.0], [5.0, 5.0]], [2, 3], [4, 2]))
        mean = accumulator.take_grad(2)
        assert str(mean.values.shape) == "[?, 2]"
    session = hr.Session(graph)
    session.run(first)
    session.run(second)
    indices, values, shape = session.run([mean.indices, mean.values, mean.dense_shape])
    assert indices.tolist() == [0, 2, 3]
    assert values.tolist() == [[1, 1], [3, 3], [5, 5]]
    assert shape.tolist() == [-1, 2]


def test_a_sparse_gradient_of_a_variable_is_taken_as_it_comes() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.zeros((5, 2), np.float32))
        (gradient,) = hr.gradients(hr.sum(hr.gather(w, [1, 3, 1])), [w])
        accumulator = hr.SparseConditionalAccumulator(hr.float32, [5, 2], reduction="sum")
        add, total = accumulator.apply_grad(gradient), accumulator.take_grad(1)
    session = hr.Session(graph)
    session.run(add)
    indices, values, shape = session.run([total.indices, total.values, total.dense_shape])
    assert indices.tolist() == [1, 3]
    assert values.tolist() == [[2, 2], [1, 1]]
    assert shape.tolist() == [5, 2]


def test_a_sparse_gradient_without_a_shape() -> None:
    with hr.Graph().as_default() as graph:
        handle = hr.apply_op("SparseConditionalAccumulator", dtype=hr.float32, shape=None)
        no_shape = np.zeros(0, np.int64)
        add = hr.apply_op(
            "SparseAccumulatorApplyGradient", handle, np.int64(0), np.array([1]), np.ones((1, 3), np.float32), no_shape,
            has_known_shape=False,
        )  # fmt: skip
        taken = hr.apply_op("SparseAccumulatorTakeGradient", handle, 1, dtype=hr.float32)
    session = hr.Session(graph)
    session.run(add)
    assert [part.tolist() for part in session.run(taken)] == [[1], [[1, 1, 1]], [-1, 3]]


def test_wrong_gradients_are_refused_where_they_are_given() -> None:
    with hr.Graph().as_default():
        accumulator = hr.ConditionalAccumulator(hr.float32, [2])
        with pytest.raises(ShapeError, match="gradient does not fit the accumulator"):
            accumulator.apply_grad([1.0, 2.0, 3.0])
        with pytest.raises(DTypeError, match="wrong dtype"):
            accumulator.apply_grad(np.ones(2))
        with pytest.raises(DTypeError, match="has another dtype"):
            hr.apply_op("ResourceAccumulatorTakeGradient", accumulator.handle, 1, dtype=hr.float64)
        with pytest.raises(ShapeError, match="num_required must be a scalar"):
            accumulator.take_grad([1])
        with pytest.raises(hr.errors.AttrError, match="reduction_type"):
            hr.ConditionalAccumulator(hr.float32, [2], reduction="max")
        with pytest.raises(ShapeError, match="a sparse gradient has rows"):
            hr.SparseConditionalAccumulator(hr.float32, [])
        sparse = hr.SparseConditionalAccumulator(hr.float32, [3, 2])
        with pytest.raises(InvalidArgumentError, match="a sparse accumulator takes rows"):
            sparse.apply_grad(hr.ones([3, 2]))
        with pytest.raises(ShapeError, match="rows of the gradient do not fit"):
            sparse.apply_grad(hr.IndexedSlices([[1.0]], [0], [3, 2]))
        with pytest.raises(ShapeError, match="rows of the gradient do not fit"):
            sparse.apply_grad(hr.IndexedSlices([[1.0, 2.0]], [0, 1], [3, 2]))
    assert "float32[2]" in repr(accumulator)


def test_what_the_graph_cannot_see_is_refused_in_the_step() -> None:
    with hr.Graph().as_default() as graph:
        same = {"dtype": hr.float32, "shape": [2], "shared_name": "a"}
        handle = hr.apply_op("ConditionalAccumulator", **same)
        (hidden,) = hr.apply_op("IdentityN", [handle])
        take = hr.apply_op("AccumulatorTakeGradient", hidden, 1, dtype=hr.float64)
        other = hr.apply_op("AccumulatorNumAccumulated", hr.apply_op("SparseConditionalAccumulator", **same))
        count = hr.apply_op("AccumulatorNumAccumulated", handle)
        integers = hr.ConditionalAccumulator(hr.int32, []).num_accumulated()
    session = hr.Session(graph)
    with pytest.raises(DTypeError, match="accumulator 'a' has another dtype"):
        session.run(take)
    assert session.run(count) == 0
    with pytest.raises(InvalidArgumentError, match=r"'a' exists with other properties(.|\n)*dense(.|\n)*sparse"):
        session.run(other)
    with pytest.raises(NotFoundError, match="ConditionalAccumulator has no kernel"):
        session.run(integers)
