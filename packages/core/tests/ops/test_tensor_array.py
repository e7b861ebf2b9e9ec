"""Arrays of tensors that live in a step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import headrace as hr


def test_each_step_has_an_array_of_its_own() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [100])
        handle, flow = hr.apply_op("TensorArrayV3", 100, dtype=hr.float32)
        flow = hr.apply_op("TensorArrayScatterV3", handle, np.arange(100, dtype=np.int32), x, flow)
        parts = [hr.apply_op("TensorArrayReadV3", handle, index, flow, dtype=hr.float32) for index in range(100)]
        total = hr.stack(parts)
    session = hr.Session(graph)
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda n: session.run(total, feeds={x: np.full(100, n, np.float32)}), range(64)))
    for number, value in enumerate(values):
        np.testing.assert_array_equal(value, np.full(100, number, np.float32))


def test_a_closed_array_is_not_used() -> None:
    with hr.Graph().as_default() as graph:
        handle, flow = hr.apply_op("TensorArrayV3", 1, dtype=hr.float32)
        closed = hr.apply_op("TensorArrayCloseV3", handle)
        with hr.control_dependencies([closed]):
            size = hr.apply_op("TensorArraySizeV3", handle, flow)
    session = hr.Session(graph)
    session.run(closed)
    with pytest.raises(hr.errors.FailedPreconditionError, match="the array is closed"):
        session.run(size)


def test_two_gradients_of_one_array_do_not_mix() -> None:
    """Each call of `gradients` has arrays of its own, also where both run in one step."""
    with hr.Graph().as_default() as graph:
        x = hr.constant([1.0, 2.0])
        handle, flow = hr.apply_op("TensorArrayV3", 1, dtype=hr.float32, clear_after_read=False)
        flow = hr.apply_op("TensorArrayWriteV3", handle, 0, x * x, flow)
        y = hr.apply_op("TensorArrayReadV3", handle, 0, flow, dtype=hr.float32)
        (once,) = hr.gradients(y, [x])
        (twice,) = hr.gradients([y, y], [x])
        (third,) = hr.gradients(once, [x])
    values = hr.Session(graph).run([once, twice, third])
    np.testing.assert_array_equal(values, [[2, 4], [4, 8], [2, 2]])


def test_what_an_array_declares_is_known_of_what_is_read() -> None:
    with hr.Graph().as_default():
        handle, flow = hr.apply_op("TensorArrayV3", 1, dtype=hr.float32, element_shape=(None, 3))
        gradients, flow = hr.apply_op("TensorArrayGradV3", handle, flow, source="g")
        element = hr.apply_op("TensorArrayReadV3", gradients, 0, flow, dtype=hr.float32)
        joined, _ = hr.apply_op("TensorArrayConcatV3", handle, flow, dtype=hr.float32)
        with pytest.raises(hr.errors.DTypeError, match="elements of another dtype"):
            hr.apply_op("TensorArrayReadV3", gradients, 0, flow, dtype=hr.int32)
    assert element.shape == [None, 3]
    assert joined.shape == [None, 3]
