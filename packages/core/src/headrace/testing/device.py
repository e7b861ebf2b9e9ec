"""What every device must do that is reached by a driver: keep values, move them, and compute as the host does."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from headrace.config import Config
from headrace.graph.apply import apply_op
from headrace.graph.graph import Graph
from headrace.graph.op_def import op_defs
from headrace.graph.operation import Tensor
from headrace.graph.scopes import device as device_scope
from headrace.interfaces import DeviceDriver
from headrace.kernels.registry import kernels_of
from headrace.plan.plan import find_backend
from headrace.session import Session
from headrace.testing.conformance import check_case
from headrace.testing.op_case import all_cases
from headrace.types import COMPUTABLE, Array, Shape, as_dtype, float32

__all__ = ["check_device"]


def check_device(driver: DeviceDriver) -> int:
    """Check a device that was registered by `hr.register_device` and raise AssertionError where it is not right.

    Its memory keeps values of every dtype and shape bit by bit; every case of the operations that it has kernels for
    gives what it must, as does a graph that goes to and fro between the host and the device, in several steps at once.

    Args:
      driver: the driver of the registered device.
    Returns:
      The number of operation cases that ran on it.
    """
    device_type = driver.name.partition(":")[0].upper()
    _check_memory(driver)
    _check_crossing(driver.name)
    types = {
        op_def.name for op_def in op_defs() if any(kernel.device == device_type for kernel in kernels_of(op_def.name))
    }
    backend = find_backend(device_type.lower()).name
    cases = [case for case in all_cases() if case.op in types]
    for case in cases:
        check_case(case, backend=backend)
    return len(cases)


def _check_memory(driver: DeviceDriver) -> None:
    shapes: Sequence[tuple[int, ...]] = [(), (3,), (2, 3), (0, 4), (1, 1, 5)]
    generator = np.random.default_rng(0)
    for dtype in COMPUTABLE:
        for shape in shapes:
            size = int(np.prod(shape)) * dtype.size
            given = np.frombuffer(generator.bytes(size), np.uint8) % 2  # whatever the dtype, a value of it
            array = np.ndarray(shape, dtype.array_type, given.tobytes()).copy()
            _check_kept(driver, array)


def _check_kept(driver: DeviceDriver, array: Array) -> None:
    dtype = as_dtype(array.dtype)
    first, second = driver.allocate(array.shape, dtype), driver.allocate(array.shape, dtype)
    source = array.copy()
    driver.move(source, first)
    driver.move(np.zeros_like(array), second)
    source.fill(0)
    out = np.empty_like(array)
    driver.move(first, out)
    if out.tobytes() != array.tobytes():
        raise AssertionError(f"{driver.name}: a buffer of {dtype}{list(array.shape)} did not keep its value")


def _check_crossing(name: str) -> None:
    """A graph that crosses between host and device gives the same as on the host alone, in four steps at once."""
    graph = Graph()
    with graph.as_default():
        x = apply_op("Placeholder", dtype=float32, shape=Shape([4, 4]))
        results = []
        for place in ("CPU:0", name):
            y: Tensor = x
            for turn in range(3):
                with device_scope(place if turn % 2 else "CPU:0"):
                    y = apply_op("Relu", apply_op("AddV2", apply_op("MatMul", y, x), apply_op("Neg", y)))
            results.append(apply_op("Identity", y))
    session = Session(graph, config=Config(backend="numpy"))
    failures: list[str] = []

    def work(seed: int) -> None:
        given = np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)
        on_host, on_device = session.run(results, feeds={x: given})
        if not np.allclose(on_host, on_device, rtol=1e-5, atol=1e-5):
            failures.append(f"{name}: {on_device} differs from {on_host}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError(failures[0])
