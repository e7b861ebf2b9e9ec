"""Crossings: which tensors of a placed graph go to which other devices, and which loops a device takes part in.

A loop that spans devices needs a loop on each of them, so that whatever arrives there in an iteration is received once
in that iteration. Such a *control loop* has no variables; its only purpose is to start the next iteration when the one
device that decides (`LoopCond`) says so. So that decision goes to every device that receives something in the loop.

Source: the paper, section 3.3; Yu et al., Dynamic control flow in large-scale machine learning (2018), section 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.errors import GraphError
from headrace.graph.frames import TOKEN_TYPES, Frame, Frames, forward_inputs, has_tokens, is_anywhere
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.placement.cost import is_copied
from headrace.placement.device import Device

__all__ = ["Crossings", "find_crossings"]

Readers = dict[Tensor | None, dict[Device, None]]


@dataclass(slots=True)
class Crossings:
    """What crosses between devices. Built by `find_crossings`, constant from then on.

    Attributes:
      frames: the loops of the graph.
      copied: the operations that are repeated on every device that reads them.
      mortal: the operations whose outputs may be dead.
      readers: for operations that other devices read, which devices read which output; None stands for control edges.
      decisions: for each loop the operation that decides whether it goes on, as far as devices need to be told.
    """

    frames: Frames
    copied: set[Operation] = field(default_factory=set)
    mortal: set[Operation] = field(default_factory=set)
    readers: dict[Operation, Readers] = field(default_factory=dict)
    decisions: dict[Frame, Operation] = field(default_factory=dict)

    def outgoing(self, op: Operation) -> Iterator[tuple[Device, Tensor | None]]:
        """What goes from an operation to other devices: tensors, and word that it has run."""
        readers = self.readers.get(op, {})
        yield from ((device, output) for output in op.outputs for device in readers.get(output, ()))
        yield from ((device, None) for device in readers.get(None, ()) if self.arriving(op, device) is None)

    def arriving(self, source: Operation, device: Device) -> Tensor | None:
        """An output of `source` that goes to a device and tells that it has run; None if only word of that does.

        An output of a Switch tells nothing: it may be dead though the operation has run.
        """
        readers = self.readers[source]
        outputs = () if source.type == "Switch" else source.outputs
        return next((output for output in outputs if device in readers.get(output, ())), None)


def find_crossings(graph: Graph, devices: Mapping[Operation, Device]) -> Crossings:
    """Find what crosses between devices.

    Args:
      graph: a bounded graph.
      devices: the device of each of its operations.
    Raises:
      GraphError: a loop that spans devices has no `LoopCond`, or is not well formed.
    """
    found = Crossings(Frames(graph))
    in_loops = {tensor.op for op in graph.operations for tensor in op.inputs if found.frames[op].parent is not None}
    for op in graph.operations:
        if is_copied(op) or _is_invariant(op) or (is_anywhere(op) and op.type == "Const" and op in in_loops):
            found.copied.add(op)
    if has_tokens(graph):
        _find_mortal(graph, found)
    places: dict[Operation, dict[Device, None]] = {}
    for op in reversed(graph.operations):
        if op in found.copied:
            here = places.setdefault(op, {})
        else:
            here = places[op] = {devices[op]: None}
        for source, output in _edges(op):
            if source in found.copied:
                places.setdefault(source, {}).update(here)
                continue
            for device in here:
                if device != devices[source]:
                    _add_reader(found, source, output, device)
    for op in list(found.readers):
        for device in {device for targets in found.readers[op].values() for device in targets}:
            _join_loop(graph, found, devices, found.frames.after(op), device)
    return found


def _edges(op: Operation) -> Iterator[tuple[Operation, Tensor | None]]:
    yield from ((tensor.op, tensor) for tensor in op.inputs)
    yield from ((source, None) for source in op.control_inputs)


def _add_reader(found: Crossings, source: Operation, output: Tensor | None, device: Device) -> None:
    found.readers.setdefault(source, {}).setdefault(output, {})[device] = None


def _is_invariant(op: Operation) -> bool:
    """True for what brings a value into every iteration of a loop: each device brings it in by itself."""
    return op.type == "Enter" and bool(op.attrs["is_constant"])


def _find_mortal(graph: Graph, found: Crossings) -> None:
    """Mark what may be dead: tokens, and whatever depends on one."""
    for op in graph.operations:
        sources = [*(tensor.op for tensor in forward_inputs(op)), *op.control_inputs]
        if op.type in TOKEN_TYPES or any(source in found.mortal for source in sources):
            found.mortal.add(op)


def _join_loop(
    graph: Graph, found: Crossings, devices: Mapping[Operation, Device], frame: Frame, device: Device
) -> None:
    """Let a device that receives something in a loop take part in it, and in those around it."""
    while frame.parent is not None:
        decision = found.decisions.get(frame) or _decision(graph, found.frames, frame)
        found.decisions[frame] = decision
        if devices[decision] != device:
            _add_reader(found, decision, decision.outputs[0], device)
        frame = frame.parent


def _decision(graph: Graph, frames: Frames, frame: Frame) -> Operation:
    for op in graph.operations:
        if op.type == "LoopCond" and frames[op] is frame:
            return op
    raise GraphError(
        f"{frame.label} spans devices but has no LoopCond",
        where=frame.enters[0].location,
        expected="one operation whose value decides in each iteration, on all devices, whether the loop goes on",
        got="none",
        hint="hr.apply_op('LoopCond', condition) between the condition and the Switch operations",
    )
