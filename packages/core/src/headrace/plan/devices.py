"""The devices of this process with their backends, and how the graph of a step is divided among them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.config import Config
from headrace.graph.device_name import parse_device
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation
from headrace.graph.verifier import verify_bounded
from headrace.interfaces import Backend, Resources
from headrace.passes.lower import lower
from headrace.placement.device import Device, local_devices
from headrace.placement.partition import Partition, partition
from headrace.placement.placer import asked_inside, place

__all__ = ["DeviceTable", "asks_for_devices", "device_names", "device_table", "divide"]


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The devices of this process.

    Attributes:
      devices: the devices, those of the preferred backend first.
      backends: for each device type the backend that compiles for it.
    """

    devices: Sequence[Device]
    backends: dict[str, Backend]

    def backend(self, device: Device) -> Backend:
        """The backend that compiles for a device."""
        return self.backends[device.type]


def device_table(preferred: Backend, installed: Sequence[Backend], config: Config) -> DeviceTable:
    """List the devices that the backends offer, with the virtual ones that `config` asks for.

    Args:
      preferred: the backend for operations that may run anywhere; its devices come first.
      installed: all backends; of several for one device type the first one counts.
      config: `virtual_devices` divides the first device of a type.
    Raises:
      InvalidArgumentError: a virtual device is asked of a type that there is not.
    """
    backends: dict[str, Backend] = {}
    names: list[str] = []
    for backend in (preferred, *installed):
        for name in backend.devices():
            device_type = parse_device(name).type or ""
            if backends.setdefault(device_type, backend) is backend:
                names.append(name)
    return DeviceTable(local_devices(names, config.virtual_devices), backends)


def device_names(backend: Backend, config: Config) -> list[str]:
    """The short names of the devices that a backend offers, with the virtual ones that `config` makes of them."""
    names = backend.devices()
    types = {parse_device(name).type for name in names}
    virtual = {key: count for key, count in config.virtual_devices.items() if key in types}
    return [device.name.short for device in local_devices(names, virtual)]


def asks_for_devices(graph: Graph, config: Config) -> bool:
    """True if it matters where the operations of a step run; if not, nothing is placed."""
    return bool(config.virtual_devices) or any(op.device or asked_inside(op) for op in graph.operations)


def divide(
    user_graph: Graph, graph: Graph, table: DeviceTable, resources: Resources, config: Config
) -> tuple[Graph, list[Partition]]:
    """Place the graph of a step and divide it.

    Branches and loops whose operations ask for several devices become primitives first.

    Args:
      user_graph: the graph that it was pruned from; it says what is asked for operations that the step does not need.
      graph: the optimised bounded graph.
      table: the devices there are.
      resources: the container of the session, which remembers where state was placed.
      config: `soft_placement`, `log_placement` and `verify`.
    Returns:
      The placed graph, and its parts.
    Raises:
      PlacementError: no device satisfies what is asked for.
    """
    for op in graph.operations:
        asked = asked_inside(op)
        if len(asked) == 1 and not op.device:
            (op.device,) = asked
    graph = lower(graph, _spans_devices)
    placed: _PlacedState = resources.lookup_or_create(_PlacedState, _PlacedState)
    with placed.lock:
        placement = place(
            graph,
            table.devices,
            soft=config.soft_placement,
            elsewhere=_asked_elsewhere(user_graph, graph),
            state=placed.devices,
            log=config.log_placement,
        )
    for op, device in placement.devices.items():
        op.device = str(device)
    parts = partition(graph, placement.devices, receive_in_turn=True)
    if config.verify:
        for part in parts:
            verify_bounded(part.graph, stage=f"partition for {part.device}")
    return graph, parts


def _spans_devices(op: Operation) -> bool:
    return len(asked_inside(op) | {op.device}) > 1


@dataclass(slots=True)
class _PlacedState:
    """Where a session placed the operations that make handles, by name. Mutable; guarded by its lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    devices: dict[str, str] = field(default_factory=dict)


def _asked_elsewhere(user_graph: Graph, graph: Graph) -> dict[str, str]:
    """What is asked for operations that others are colocated with, but that the step does not need."""
    present = {op.name for op in graph.operations}
    named = {name for op in graph.operations for name in op.colocation if name not in present}
    if not named:
        return {}
    return {op.name: op.device for op in user_graph.operations if op.name in named and op.device}
