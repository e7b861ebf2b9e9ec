"""compile: from a graph and what a step feeds and fetches to a plan."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

from headrace.config import Config
from headrace.errors import AlreadyExistsError, FeedError, NotFoundError, UnavailableError, known_names
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.interfaces import INTERFACE_VERSION, Backend, Compiled, DeviceDriver, Resources
from headrace.passes.pipeline import optimize
from headrace.passes.prune import prune
from headrace.placement.partition import Partition
from headrace.plan.devices import DeviceTable, asks_for_devices, device_table, divide
from headrace.plan.driver_backend import DriverBackend
from headrace.plan.limit import check_limit, needed_memory, within_limit
from headrace.plan.numpy_backend import NumpyBackend
from headrace.plan.program import is_handle
from headrace.plan.step_plan import Execute, compile_step, may_wait
from headrace.types import Shape

__all__ = [
    "CompiledPart",
    "Plan",
    "backends",
    "compile_plan",
    "find_backend",
    "load_backend",
    "register_backend",
    "register_device",
]

ENTRY_POINT_GROUP = "headrace.backends"


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """What one device does in a step.

    Attributes:
      partition: the device and its part of the graph.
      backend: the name of the backend that compiled it.
      compiled: the callable.
    """

    partition: Partition
    backend: str
    compiled: Compiled


ExecuteParts = Callable[[Sequence[CompiledPart], int], Compiled]
"""Makes a callable of the parts of a step and of the number of its results: what the stage after this one knows."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs when a step runs.

    Attributes:
      graph: the optimised bounded graph it was compiled from.
      backend: the name of the backend that compiled it.
      compiled: the callable: arguments in, results out.
      blocks: an operation of it may wait for another step, so it runs only where that can be ended.
      parts: what each device does, where there are several.
    """

    graph: Graph
    backend: str
    compiled: Compiled
    blocks: bool
    parts: tuple[CompiledPart, ...] = ()


def compile_plan(
    graph: Graph,
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    feeds: Sequence[Tensor],
    feed_shapes: Sequence[Shape],
    resources: Resources,
    config: Config,
    execute: Execute,
    execute_parts: ExecuteParts,
) -> Plan:
    """Prune, optimise and compile the part of a graph that one step needs, for concrete feed shapes.

    Args:
      graph: the user's graph; it is not changed.
      fetches: the tensors to return.
      targets: the operations to run for their effect.
      feeds: the tensors that get a value from outside.
      feed_shapes: their concrete shapes.
      resources: the container in which stateful operations find their state.
      config: which passes and which backend.
      execute: makes a callable of a step graph: where operations may wait for each other, or values may be dead.
      execute_parts: makes a callable of what several devices do.
    Raises:
      FeedError: a placeholder is needed and not fed, or a fetch is no value, such as a handle.
      NotFoundError: an operation has no kernel, or a pass or backend of that name does not exist.
      PlacementError: no device satisfies what is asked for.
      ResourceExhaustedError: a step would need more than `config.memory_limit`.
    """
    for fetch in fetches:
        _check_has_value(fetch)
    bounded = prune(graph, fetches, targets, feeds, feed_shapes)
    optimized = optimize(bounded, config)
    backend = find_backend(config.backend)
    if asks_for_devices(optimized, config):
        table = device_table(backend, _by_preference(), config)
        optimized, divided = divide(graph, optimized, table, resources, config)
        if len(divided) > 1:
            parts = tuple(_compiled_part(part, table, resources, config, execute) for part in divided)
            names = "+".join(dict.fromkeys(part.backend for part in parts))
            together = execute_parts(parts, len(fetches))
            check_limit(needed_memory(together), config)
            return Plan(optimized, names, together, True, parts)
        backend = table.backend(divided[0].device) if divided else backend

    def compiled_graph(step: Graph) -> Compiled:
        return compile_step(step, backend, resources, config, execute)

    optimized, compiled = within_limit(optimized, config, compiled_graph)
    return Plan(optimized, backend.name, compiled, may_wait(optimized))


def _check_has_value(tensor: Tensor) -> None:
    if is_handle(tensor.dtype):
        raise FeedError(
            f"'{tensor.name}' cannot be fetched",
            where=tensor.op.location,
            expected="a tensor of numbers or strings",
            got=str(tensor.spec),
            hint="fetch what is read from the handle",
        )


def _compiled_part(
    part: Partition, table: DeviceTable, resources: Resources, config: Config, execute: Execute
) -> CompiledPart:
    backend = table.backend(part.device)
    return CompiledPart(part, backend.name, compile_step(part.graph, backend, resources, config, execute))


_loaded: dict[str, Backend] = {}
_lock = threading.Lock()


def backends() -> dict[str, Backend]:
    """The installed backends by name; `numpy` is always among them."""
    with _lock:  # a second thread must not see half of them
        if not _loaded:
            entries = metadata.entry_points(group=ENTRY_POINT_GROUP)
            found = {entry.name: _checked(entry.name, entry.load()()) for entry in entries}
            _loaded.update(numpy=NumpyBackend(), **found)
    return _loaded


def register_backend(backend: Backend) -> None:
    """Add a backend, and with it the devices that it offers, to those that installed packages bring.

    Args:
      backend: an object that satisfies `headrace.interfaces.Backend`.
    Raises:
      AlreadyExistsError: a backend of its name is there.
      UnavailableError: it was written for another version of the interface.
    """
    installed = backends()
    if backend.name in installed:
        raise AlreadyExistsError(
            f"there is a backend '{backend.name}' already",
            expected="a name that no backend has",
            got=repr(installed[backend.name]),
            hint="give the backend another name",
        )
    _loaded[backend.name] = _checked(backend.name, backend)


def register_device(*drivers: DeviceDriver) -> None:
    """Add a device that brings only a driver: memory, moves and a way to issue kernels.

    Operations placed on it (`hr.device("TRACE:0")`) run there if a kernel is registered for its type
    (`hr.register_kernel("MatMul", device="TRACE")`), and on the host otherwise.

    Args:
      *drivers: objects that satisfy `headrace.interfaces.DeviceDriver`; several for several devices of one type.
    Raises:
      InvalidArgumentError: they are for devices of different types.
      AlreadyExistsError: devices of the type are there.
    """
    register_backend(DriverBackend(drivers))


def _checked(name: str, backend: Backend) -> Backend:
    if backend.interface_version != INTERFACE_VERSION:
        raise UnavailableError(
            f"backend '{name}' does not fit this version of headrace",
            expected=f"interface version {INTERFACE_VERSION}",
            got=str(backend.interface_version),
            hint="pip install --upgrade headrace and the package of the backend",
        )
    return backend


_PREFERENCE = ("cpu", "numpy")


def _by_preference() -> list[Backend]:
    """The installed backends, the preferred ones for host memory first."""
    installed = backends()
    names = [*(name for name in _PREFERENCE if name in installed), *installed]
    return [installed[name] for name in dict.fromkeys(names)]


def load_backend(name: str) -> None:
    """Let a backend load what it compiles with, if it has a method for that: then the first step does not wait for it.

    A name that is not known is left to the first step, which says so.
    """
    with contextlib.suppress(NotFoundError):
        load = getattr(find_backend(name), "load", None)
        if load is not None:
            load()


def find_backend(name: str) -> Backend:
    """The backend of a name; "auto" is the best one for host memory that is installed.

    Raises:
      NotFoundError: it is not installed; the text names the package.
    """
    installed = backends()
    if name == "auto":
        return next(installed[item] for item in _PREFERENCE if item in installed and installed[item].devices())
    if name not in installed:
        packages = {"cpu": "headrace-kernels-cpu", "gpu": "headrace-kernels-gpu"}
        raise NotFoundError(
            f"backend '{name}' is not installed",
            expected=known_names(name, installed),
            got=str(name),
            hint=f"pip install {packages[name]}" if name in packages else "hr.config(backend='numpy')",
        )
    return installed[name]
