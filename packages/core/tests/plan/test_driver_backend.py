"""A device that is written here, with public names only: it allocates, moves buffers and issues kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.plan import plan as plans
from headrace.testing import check_device


class TraceBuffer:
    """Memory of the toy device: nobody but its driver may look inside."""

    def __init__(self, shape: tuple[int, ...], dtype: hr.DType) -> None:
        self.content = np.full(shape, 7, dtype.array_type)


class TraceDriver:
    """The toy device: it computes with NumPy, and writes down what is asked of it."""

    name = "TRACE:0"

    def __init__(self) -> None:
        self.log: list[str] = []

    def allocate(self, shape: tuple[int, ...], dtype: hr.DType) -> TraceBuffer:
        self.log.append(f"allocate {dtype}{list(shape)}")
        return TraceBuffer(shape, dtype)

    def move(self, source: Any, destination: Any) -> None:
        if isinstance(destination, TraceBuffer):
            self.log.append("move in")
            destination.content[...] = source
        else:
            self.log.append("move out")
            destination[...] = source.content

    def issue(
        self, kernel: Callable[..., Any], op: hr.interfaces.OpContext, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        self.log.append(f"issue {op.type}")
        kernel(op, *(buffer.content for buffer in inputs), *(buffer.content for buffer in outputs))


DRIVER = TraceDriver()


@pytest.fixture(autouse=True, scope="module")
def _trace_device() -> Iterator[None]:
    hr.register_device(DRIVER)
    yield
    del plans.backends()["trace"]


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    DRIVER.log.clear()


@hr.register_kernel("MatMul", device="TRACE", dtypes={"T": [hr.float32, hr.float64]})
def _matmul(op: hr.interfaces.OpContext, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    a = a.T if op.attr("transpose_a") else a
    np.matmul(a, b.T if op.attr("transpose_b") else b, out=out)


@hr.register_kernel("Neg", device="TRACE", dtypes={"T": [hr.float32, hr.float64]})
def _neg(op: hr.interfaces.OpContext, x: np.ndarray, out: np.ndarray) -> None:
    np.negative(x, out=out)


@hr.register_op("TestTraceFail", inputs={"x": "float32"}, outputs={"y": "float32"})
def _fail_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """Fails on TRACE."""
    return [op.inputs[0].shape]


@hr.register_kernel("TestTraceFail", device="TRACE")
def _fail(op: hr.interfaces.OpContext, x: np.ndarray, out: np.ndarray) -> None:
    raise hr.errors.InvalidArgumentError("broken on purpose") if x[0] else ValueError("plain")


def test_A06_a_toy_device_of_three_methods_passes_the_device_suite() -> None:
    assert check_device(DRIVER) > 2
    issued = {line for line in DRIVER.log if line.startswith("issue")}
    assert issued == {"issue MatMul", "issue Neg"}


def test_A06_values_cross_to_the_device_and_back_and_stay_there_between_its_kernels() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2, 2])
        with hr.device("TRACE:0"):
            y = hr.negative(hr.matmul(x, x))
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        np.testing.assert_array_equal(session.run(y, feeds={x: [[1, 2], [3, 4]]}), [[-7, -10], [-15, -22]])
    assert DRIVER.log == [
        "allocate float32[2, 2]", "allocate float32[2, 2]", "move in", "issue MatMul", "allocate float32[2, 2]",
        "issue Neg", "move out",
    ]  # fmt: skip


def test_A06_the_whole_session_can_run_on_the_device() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.ones((2, 2), np.float32), name="v")
        y = hr.matmul(v.value, v.value)
        add = v.assign_add(y)
    with hr.Session(graph, config=hr.config(backend="trace")) as session:
        np.testing.assert_array_equal(session.run(y), [[2, 2], [2, 2]])
        session.run(add)
        np.testing.assert_array_equal(session.run(v), [[3, 3], [3, 3]])
    assert "issue MatMul" in DRIVER.log


def test_A07_the_kernel_is_chosen_by_device_and_dtype_and_nothing_else_changes() -> None:
    with hr.Graph().as_default() as graph:
        narrow, wide = hr.placeholder(hr.float32, [2, 2]), hr.placeholder(hr.int32, [2, 2])
        with hr.device("TRACE:0"):
            on_device, without_kernel = hr.matmul(narrow, narrow), hr.matmul(wide, wide)
        with hr.device("CPU:0"):
            on_host = hr.matmul(narrow, narrow)
    feeds = {narrow: np.eye(2), wide: np.eye(2, dtype=np.int32)}
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        for fetch, issued in ((on_host, False), (without_kernel, False), (on_device, True)):
            DRIVER.log.clear()
            np.testing.assert_array_equal(session.run(fetch, feeds=feeds), np.eye(2))
            assert ("issue MatMul" in DRIVER.log) is issued
        values = session.run([on_device, without_kernel, on_host], feeds=feeds)
    for value in values:
        np.testing.assert_array_equal(value, np.eye(2))


def test_an_operation_with_a_kernel_on_the_device_only_is_placed_there() -> None:
    with hr.Graph().as_default() as graph:
        y = hr.apply_op("TestTraceFail", hr.constant(np.zeros(2, np.float32)), name="fails")
        with hr.device("CPU:0"):
            z = hr.apply_op("TestTraceFail", hr.constant(np.zeros(2, np.float32)))
    config = hr.config(virtual_devices={"CPU": 2}, backend="numpy")
    with hr.Session(graph, config=config) as session:
        (device,) = session.partitions(y)
        assert device.endswith("TRACE:0")
        with pytest.raises(hr.errors.PlacementError, match="has a kernel on .*TRACE:0"):
            session.run(z)


@pytest.mark.parametrize(("first", "kind"), [(1, hr.errors.InvalidArgumentError), (0, ValueError)])
def test_an_error_on_the_device_names_the_operation(first: int, kind: type[Exception]) -> None:
    with hr.Graph().as_default() as graph, hr.device("TRACE:0"):
        x = hr.placeholder(hr.float32, [2])
        y = hr.apply_op("TestTraceFail", x, name="fails")
    with hr.Session(graph, config=hr.config(backend="numpy")) as session, pytest.raises(kind) as caught:
        session.run(y, feeds={x: [first, 0]})
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert "TestTraceFail 'fails' created at test_driver_backend.py" in told


def test_an_operation_without_any_kernel_is_refused_by_name() -> None:
    hr.register_op("TestTraceNothing", outputs={"y": "float32"})(lambda op: [hr.Shape([])])
    with hr.Graph().as_default() as graph, hr.device("TRACE:0"):
        y = hr.apply_op("TestTraceNothing", name="nothing")
    with hr.Session(graph) as session, pytest.raises(hr.errors.NotFoundError, match="has no kernel(.|\n)*'nothing'"):
        session.run(y)


def test_a_second_device_of_the_type_is_refused_and_so_are_mixed_ones() -> None:
    with pytest.raises(hr.errors.AlreadyExistsError, match="there is a backend 'trace' already"):
        hr.register_device(TraceDriver())
    other = TraceDriver()
    other.name = "OTHER:0"
    with pytest.raises(hr.errors.InvalidArgumentError, match="devices of one type(.|\n)*TRACE:0, OTHER:0"):
        hr.register_device(DRIVER, other)
    with pytest.raises(hr.errors.InvalidArgumentError, match="devices of one type(.|\n)*none"):
        hr.register_device()


class _Leaky(TraceDriver):
    """Forgets what it is given."""

    def move(self, source: Any, destination: Any) -> None:
        if not isinstance(destination, TraceBuffer):
            super().move(source, destination)


def test_the_suite_finds_a_device_that_loses_values() -> None:
    with pytest.raises(AssertionError, match="did not keep its value"):
        check_device(_Leaky())
