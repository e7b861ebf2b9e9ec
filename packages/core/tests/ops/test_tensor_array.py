"""Arrays of tensors that live in a step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def test_a_gradient_that_a_file_holds_and_one_taken_later_do_not_mix() -> None:
    """The file names no scope, so the second call had the name of the first one, and its array."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2], name="x")
        handle, flow = hr.apply_op("TensorArrayV3", 1, dtype=hr.float32, clear_after_read=False)
        flow = hr.apply_op("TensorArrayWriteV3", handle, 0, x * x, flow)
        hr.identity(hr.apply_op("TensorArrayReadV3", handle, 0, flow, dtype=hr.float32), name="y")
        (first,) = hr.gradients(graph.tensor("y:0"), [x])
    read = hr.import_graph_def(hr.to_graph_def(graph))
    with read.as_default():
        (second,) = hr.gradients(read.tensor("y:0"), [read.tensor("x:0")])
    values = hr.Session(read).run([first.name, second], feeds={"x:0": [1.0, 2.0]})
    np.testing.assert_array_equal(values, [[2, 4], [2, 4]])


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


def test_a_loop_of_tensorflow_1_over_arrays_runs_with_its_gradients() -> None:
    """The graph is TensorFlow's, gradients included: they keep values on stacks and add up in arrays."""
    graph = hr.import_graph_def(Path(__file__).parent / "tensorflow_v1" / "array_loop.pb")
    assert {"TensorArrayGradV3", "StackPushV2", "StackPopV2"} <= {op.type for op in graph.operations}
    numbers = np.random.default_rng(0)
    x, w = numbers.normal(size=(3, 2)), numbers.normal(size=(2, 2))

    def by_hand(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        state, outputs = np.zeros(2), []
        for row in x:
            state = np.tanh(w @ row + state)
            outputs.append(state * state)
        return np.stack(outputs), state

    outputs, state = by_hand(x, w)
    session = hr.Session(graph)
    found = session.run(["outputs:0", "state:0", "dx:0", "dw:0"], feeds={"x:0": x, "w:0": w})
    np.testing.assert_allclose(found[0], outputs, rtol=1e-12)
    np.testing.assert_allclose(found[1], state, rtol=1e-12)
    for array, slope in ((x, found[2]), (w, found[3])):
        for place in np.ndindex(array.shape):
            ends = []
            for step in (1e-6, -1e-6):
                array[place] += step
                ends.append(sum(part.sum() for part in by_hand(x, w)))
                array[place] -= step
            np.testing.assert_allclose(slope[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-7, atol=1e-8)


def test_D16_gradients_through_a_loop_that_captures_arrays() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [3])
        source, ready = hr.apply_op("TensorArrayV3", 3, dtype=hr.float64, clear_after_read=False, element_shape=())
        ready = hr.apply_op("TensorArrayScatterV3", source, [0, 1, 2], x * x, ready)
        target, start = hr.apply_op("TensorArrayV3", 3, dtype=hr.float64, element_shape=())

        def body(i: hr.Tensor, flow: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            value = hr.apply_op("TensorArrayReadV3", source, i, ready, dtype=hr.float64)
            return i + 1, hr.apply_op("TensorArrayWriteV3", target, i, value * value, flow)

        _, flow = hr.while_loop(lambda i, _: i < 3, body, (0, start))
        fourth = hr.apply_op("TensorArrayGatherV3", target, [0, 1, 2], flow, dtype=hr.float64)
        (slope,) = hr.gradients(fourth, [x])
    point = np.array([0.5, -1.0, 2.0])
    values = hr.Session(graph).run([fourth, slope], feeds={x: point})
    np.testing.assert_allclose(values, [point**4, 4 * point**3])
