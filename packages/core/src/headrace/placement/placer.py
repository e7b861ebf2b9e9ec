"""The placer: a device for every operation of a bounded graph.

Each colocation group has a set of feasible devices: those with a kernel for every member that agree with what is asked
for. Among these the group gets the one on which, by the cost model, its first operation is done soonest: a simulated
run in the order of the graph, greedy, without going back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from headrace.errors import HeadraceError, PlacementError
from headrace.graph.device_name import DeviceName, parse_device
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.kernels.registry import explain_kernels, find_kernel, kernels_of
from headrace.passes.cost import tensor_bytes
from headrace.passes.fold import user_name
from headrace.placement.colocation import ColocationGroup, colocation_groups, makes_handle, path_between, takes_handle
from headrace.placement.cost import compute_seconds, is_copied, transfer_seconds
from headrace.placement.device import Device

__all__ = ["Placement", "asked_inside", "place"]

_log = logging.getLogger("headrace.placement")

_NEEDS_NO_KERNEL = frozenset({"Const", "NoOp", "Placeholder", "_Arg", "_Retval"})

_EVERYWHERE = frozenset({"Const", "NoOp", "_Arg"})
"""What costs nothing to have where it is read: it goes where its first reader goes, unless a device is asked for."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where each operation of a graph runs.

    Attributes:
      devices: for each operation its device.
      notes: requests that were not followed, one sentence each.
    """

    devices: Mapping[Operation, Device]
    notes: Sequence[str] = ()


def place(
    graph: Graph,
    devices: Sequence[Device],
    *,
    soft: bool = False,
    elsewhere: Mapping[str, str] | None = None,
    state: MutableMapping[str, str] | None = None,
    log: bool = False,
) -> Placement:
    """Choose a device for every operation.

    Args:
      graph: a bounded graph.
      devices: the devices there are, the preferred one first.
      soft: where no device satisfies a request, ask for less of it instead of failing.
      elsewhere: what is asked for operations that are named in colocations but are not in the graph.
      state: where operations that make handles were placed before, by name; they stay there. New ones are added.
      log: write each choice to the logger `headrace.placement`.
    Raises:
      PlacementError: no device satisfies the requests of a group; the text says why.
    """
    placer = _Placer(graph, devices, soft, elsewhere or {}, {} if state is None else state)
    chosen = placer.run()
    if log:
        for op in graph.operations:
            _log.info("%s %s: %s", op.name, op.type, chosen[op])
        for note in placer.notes:
            _log.info("%s", note)
    return Placement(chosen, tuple(placer.notes))


@dataclass
class _Placer:
    """One placement in progress. Mutable, used once."""

    graph: Graph
    devices: Sequence[Device]
    soft: bool
    elsewhere: Mapping[str, str]
    state: MutableMapping[str, str]
    notes: list[str] = field(default_factory=list)
    chosen: dict[Operation, Device] = field(default_factory=dict)
    done: dict[Operation, float] = field(default_factory=dict)
    free: dict[DeviceName, float] = field(default_factory=dict)

    def run(self) -> dict[Operation, Device]:
        groups = colocation_groups(self.graph)
        of = {op: group for group in groups for op in group.members}
        feasible = {id(group): self._feasible(group) for group in groups}
        later: list[Operation] = []
        for op in self.graph.operations:
            group = of[op]
            candidates = feasible[id(group)]
            if op.type in _EVERYWHERE and len(group.members) == 1 and len(candidates) == len(self.devices):
                later.append(op)
                continue
            if op not in self.chosen:
                device = self._soonest(op, candidates)
                self.chosen.update(dict.fromkeys(group.members, device))
            self._simulate(op)
        self._follow_readers(later)
        for op in self.graph.operations:
            if makes_handle(op):
                self.state[op.name] = str(self.chosen[op])
            self._note_bodies(op)
        return self.chosen

    def _note_bodies(self, op: Operation) -> None:
        """A call runs where it is, with all that its functions do; say so where these ask for something else."""
        device = self.chosen[op]
        for asked in sorted(asked_inside(op)):
            if not parse_device(asked).matches(device.name):
                self.notes.append(f"{op.type} '{op.name}' runs whole on {device}, though '{asked}' is asked for in it")

    def _soonest(self, op: Operation, candidates: Sequence[Device]) -> Device:
        if len(candidates) == 1:
            return candidates[0]
        if op.type == "_Retval" and op.inputs[0].op in self.chosen:
            return self.chosen[op.inputs[0].op]
        return min(candidates, key=lambda device: self._end(op, device))  # the first of equal ones

    def _end(self, op: Operation, device: Device) -> float:
        """When `op` would be done on `device`."""
        arrivals = [self._arrival(tensor, device) for tensor in op.inputs if tensor.op in self.done]
        arrivals += [self.done[item] for item in op.control_inputs if item in self.done]
        start = max([self.free.get(device.name, 0.0), *arrivals])
        return start + compute_seconds(op, device)

    def _arrival(self, tensor: Tensor, device: Device) -> float:
        source = device if is_copied(tensor.op) else self.chosen[tensor.op]
        return self.done[tensor.op] + transfer_seconds(tensor_bytes(tensor), source, device)

    def _simulate(self, op: Operation) -> None:
        device = self.chosen[op]
        self.done[op] = self._end(op, device)
        if compute_seconds(op, device):
            self.free[device.name] = self.done[op]

    def _follow_readers(self, operations: Sequence[Operation]) -> None:
        """Put what may be anywhere where its first reader is, readers before what they read."""
        reader: dict[Operation, Operation] = {}
        for op in self.graph.operations:
            for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
                reader.setdefault(source, op)
        for op in reversed(operations):
            first = reader.get(op)
            self.chosen[op] = self.chosen.get(first, self.devices[0]) if first is not None else self.devices[0]

    def _feasible(self, group: ColocationGroup) -> Sequence[Device]:
        candidates: Sequence[Device] = self._able(group)
        binding, overridable = self._requests(group)
        for index, (name, request) in enumerate(binding):
            matching = _matching(request, candidates)
            if not matching and not self.soft:
                raise self._impossible(group, binding[: index + 1])
            if not matching:
                shown = _shown(group, name)
                self.notes.append(f"'{shown}' asks for '{request}', which cannot be; soft placement drops it")
            candidates = matching or _nearest(request, candidates)
        for name, request in overridable:
            matching = _matching(request, candidates)
            if not matching:
                self.notes.append(f"'{name}' asks for '{request}', but runs where the state is that it takes")
            candidates = matching or candidates
        return candidates

    def _requests(self, group: ColocationGroup) -> tuple[list[tuple[str, DeviceName]], list[tuple[str, DeviceName]]]:
        """What the members ask for, in the order of its weight: state stays where it is, whoever takes it follows."""
        fixed: list[tuple[str, DeviceName]] = []
        binding: list[tuple[str, DeviceName]] = []
        overridable: list[tuple[str, DeviceName]] = []
        for op in group.members:
            if op.name in self.state:
                fixed.append((op.name, parse_device(self.state[op.name])))
            if op.device:
                (overridable if takes_handle(op) else binding).append((op.name, parse_device(op.device)))
        for name in group.absent:
            asked = self.state.get(name) or self.elsewhere.get(name)
            if asked:
                (fixed if name in self.state else binding).append((name, parse_device(asked)))
        return [*fixed, *binding], overridable

    def _able(self, group: ColocationGroup) -> list[Device]:
        """The devices with a kernel for every member."""
        able = list(self.devices)
        for op in group.members:
            with_kernel = self._with_kernel(op)
            remaining = [device for device in able if device in with_kernel]
            if not remaining:
                raise self._no_kernel(op, group, able)
            able = remaining
        return able

    def _with_kernel(self, op: Operation) -> Sequence[Device]:
        """The devices with a kernel for an operation; all for a type without any kernel: compiling says more then."""
        if op.type in _NEEDS_NO_KERNEL or not kernels_of(op.type):
            return self.devices
        return [device for device in self.devices if _has_kernel(op, device)]

    def _no_kernel(self, op: Operation, group: ColocationGroup, able: Sequence[Device]) -> PlacementError:
        others = [member for member in group.members if member is not op and len(able) < len(self.devices)]
        together = f"; colocated with {_names([user_name(item) for item in others])}" if others else ""
        return PlacementError(
            f"{_described(op)} cannot be placed: no device has a kernel for it",
            where=_place_of(op),
            expected=explain_kernels(op.type),
            got=f"devices {_names(able)}{together}",
            hint="register a kernel with hr.register_kernel, or install the package of the device",
        )

    def _impossible(self, group: ColocationGroup, binding: Sequence[tuple[str, DeviceName]]) -> PlacementError:
        name, request = binding[-1]
        by_name = {op.name: op for op in group.members}
        op = by_name.get(name) or group.members[0]
        reasons = [self._reason(group, name, other, wanted) for other, wanted in binding[:-1]]
        matching = _matching(request, self.devices)
        lacking = [
            f"{_described(member)} has a kernel on {_names(self._with_kernel(member))}"
            for member in group.members
            if len(self._with_kernel(member)) < len(self.devices)
        ]
        facts = [
            f"'{request}' matches {_names(matching)} of {_names(self.devices)}",
            *reasons,
            *lacking[:4],
        ]
        return PlacementError(
            f"{_described(op)} cannot be placed",
            where=_place_of(op),
            expected=f"a device that matches '{request}'"
            + "".join(f" and '{wanted}'" for _, wanted in binding[:-1])
            + " and has every kernel that is needed",
            got="; ".join(facts),
            hint="hr.config(soft_placement=True) drops what cannot be; `headrace devices` lists the devices",
        )

    def _reason(self, group: ColocationGroup, name: str, other: str, wanted: DeviceName) -> str:
        steps = [f"'{_shown(group, at)}' {link.reason}" for at, link in path_between(group, name, other)]
        asks = f"{'is placed on' if other in self.state else 'asks for'} '{wanted}'"
        return ", ".join([*steps, f"which {asks}"]) if steps else f"'{_shown(group, other)}' {asks}"


def asked_inside(op: Operation) -> set[str]:
    """The devices that the functions which an operation calls ask for, at any depth."""
    asked: set[str] = set()
    for body in op.bodies:
        for inner in body.operations:
            asked |= {inner.device} if inner.device else set()
            asked |= asked_inside(inner)
    return asked


def _described(op: Operation) -> str:
    """An operation as the user knows it."""
    name = user_name(op)
    if name == op.name:
        return f"{op.type} '{name}'"
    return f"'{name}', which is {'fed' if op.type == '_Arg' else 'folded to a constant'},"


def _place_of(op: Operation) -> str:
    name = user_name(op)
    return op.location if name == op.name else op.location.replace(f"{op.type} '{op.name}'", f"'{name}'")


def _shown(group: ColocationGroup, name: str) -> str:
    """The name that the user knows a member of a group by."""
    return next((user_name(op) for op in group.members if op.name == name), name)


def _has_kernel(op: Operation, device: Device) -> bool:
    try:
        find_kernel(op.type, op.attrs, device.type)
    except HeadraceError:
        return False
    return True


def _matching(request: DeviceName, devices: Sequence[Device]) -> Sequence[Device]:
    return [device for device in devices if request.matches(device.name)]


def _nearest(request: DeviceName, candidates: Sequence[Device]) -> Sequence[Device]:
    """The candidates that satisfy most of a request: its task, else its job, else none of it."""
    for part in (request.task_name, DeviceName(job=request.job)):
        found = _matching(part, candidates)
        if found:
            return found
    return candidates


def _names(names: Iterable[object]) -> str:
    listed = [str(name) for name in names]
    shown = ", ".join(listed[:8]) or "none"
    return shown if len(listed) <= 8 else f"{shown} and {len(listed) - 8} more"
