"""Partition: from a placed graph to one bounded graph per device, with the transfers between them.

A tensor goes to a device once, whatever the number of its readers there: a `_Send` stands right behind what makes it,
the `_Recv` before its first reader. A control edge that crosses becomes the transfer of an empty tensor, unless an
output of the same operation goes that way already. Arguments, and constants too small to be worth a message, are copied
to where they are read.

A device that receives something inside a loop runs a control loop of its own (see `placement.crossing`).

Each part lists its operations in the order of the whole graph. So even where every part runs them one by one there is
always one that can go on: the earliest operation that has not run yet. Receiving in turn keeps to that order as well: a
receive waits for those of values that the graph makes earlier, never for one of a value that depends on it. It is not
held back until its first reader is near: the rendezvous of a process holds what was sent until then all the same, so no
memory would be saved, and each edge from an operation to a receive cuts a segment in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.graph.frames import MAY_BE_DEAD, PASSES_DEAD, Frame, forward_inputs
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import handle_attrs
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import close_loops, copy_op
from headrace.placement.crossing import find_crossings
from headrace.placement.device import Device
from headrace.types import Shape, float32

__all__ = ["Partition", "partition"]


@dataclass(frozen=True, slots=True)
class Partition:
    """The part of a graph that one device runs.

    Attributes:
      device: the device.
      graph: a bounded graph; its arguments and results are numbered anew from 0.
      arguments: for each of its arguments the number that it has in the whole graph.
      results: the same for its results.
    """

    device: Device
    graph: Graph
    arguments: tuple[int, ...]
    results: tuple[int, ...]


def partition(graph: Graph, devices: Mapping[Operation, Device], *, receive_in_turn: bool = False) -> list[Partition]:
    """Divide a bounded graph.

    Args:
      graph: the graph of one step; it is not changed.
      devices: the device of each operation (see `placer.place`).
      receive_in_turn: let each device receive one tensor after the other, in the order in which the graph makes them,
        so that one thread is enough for it. For devices between which a message takes no time worth hiding.
    Returns:
      One partition for each device that runs something, in the order in which the graph comes to them.
    """
    return _Partitioner(graph, devices, receive_in_turn).run()


@dataclass
class _Part:
    """One partition in progress. Mutable.

    Attributes:
      device: the device.
      graph: its graph so far.
      arguments, results: see `Partition`.
      tensors, operations: what stands here for tensors and operations of the whole graph.
      pivots: for each loop that the device takes part in what is alive in each of its iterations.
      last_received: the receive that the next one waits for, where they take turns.
    """

    device: Device
    graph: Graph
    arguments: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)
    operations: dict[Operation, Operation] = field(default_factory=dict)
    pivots: dict[Frame, Tensor] = field(default_factory=dict)
    last_received: Operation | None = None

    def add(
        self, op_type: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], like: Operation, name: str
    ) -> Operation:
        """Add an operation that serves `like`."""
        return self.graph.create_op(
            op_type, inputs, attrs, name=f"{like.name}/{name}", device=str(self.device), source=like.source
        )


class _Partitioner:
    """One division in progress. Mutable, used once."""

    def __init__(self, graph: Graph, devices: Mapping[Operation, Device], in_turn: bool) -> None:
        self._in_turn = in_turn
        self._graph = graph
        self._devices = devices
        self._parts: dict[Device, _Part] = {}
        self._crossings = find_crossings(graph, devices)

    def run(self) -> list[Partition]:
        for op in self._graph.operations:
            if op in self._crossings.copied:
                continue  # it comes to each device with its first reader there
            part = self._part(self._devices[op])
            self._add(op, part)
            for device, tensor in self._crossings.outgoing(op):
                self._send(op, part, device, tensor)
                if self._in_turn and self._comes_once(op):
                    self._receive_in_turn(op, self._part(device), tensor)
        for part in self._parts.values():
            for frame in list(part.pivots):
                self._close_control_loop(frame, part)
            own = {op: copied for op, copied in part.operations.items() if self._devices[op] == part.device}
            close_loops(own, part.tensors)  # of a head elsewhere the part may have word that it ran
        return [
            Partition(part.device, part.graph, tuple(part.arguments), tuple(part.results))
            for part in self._parts.values()
        ]

    def _part(self, device: Device) -> _Part:
        part = self._parts.get(device)
        if part is None:
            graph = Graph(seed=self._graph.seed, extend=True, functions=self._graph.functions)
            part = self._parts[device] = _Part(device, graph)
        return part

    def _add(self, op: Operation, part: _Part) -> None:
        inputs = [self._tensor(tensor, part) for tensor in forward_inputs(op)]
        controls = [item for source in op.control_inputs for item in self._control(source, part)]
        copied = copy_op(op, inputs, part.graph, controls, _renumbered(op, part))
        copied.device = str(part.device)
        part.operations[op] = copied
        part.tensors.update(zip(op.outputs, copied.outputs, strict=True))

    def _tensor(self, tensor: Tensor, part: _Part) -> Tensor:
        """A tensor of the whole graph, as the part has it."""
        found = part.tensors.get(tensor)
        if found is not None:
            return found
        if tensor.op in self._crossings.copied:
            self._add(tensor.op, part)
            return part.tensors[tensor]
        part.tensors[tensor] = received = self._receive(tensor.op, part, tensor)
        return received

    def _control(self, source: Operation, part: _Part) -> list[Operation]:
        """What an operation of the part must wait for so that it runs after `source`."""
        if source in part.operations:
            return [part.operations[source]]
        if source in self._crossings.copied:
            return []
        arriving = self._crossings.arriving(source, part.device)
        if arriving is not None:
            return [self._tensor(arriving, part).op]
        part.operations[source] = received = self._receive(source, part, None).op
        return [received]

    def _send(self, op: Operation, part: _Part, target: Device, tensor: Tensor | None) -> None:
        if tensor is None:
            word = {"value": np.zeros(0, np.float32), "dtype": float32}
            sent = part.graph.create_op(
                "Const",
                (),
                word,
                name=f"{op.name}/ran",
                control_inputs=[part.operations[op]],
                device=str(part.device),
                source=op.source,
            ).outputs[0]
        else:
            sent = part.tensors[tensor]
        attrs = {**_transfer_attrs(op, tensor, part.device, target), "T": sent.dtype}
        if op in self._crossings.mortal:
            attrs[PASSES_DEAD] = True
        part.add("_Send", [sent], attrs, op, "send")

    def _receive(self, source: Operation, part: _Part, tensor: Tensor | None) -> Tensor:
        dtype, shape = (float32, Shape([0])) if tensor is None else (tensor.dtype, tensor.shape)
        attrs = _transfer_attrs(source, tensor, self._devices[source], part.device)
        attrs |= {"tensor_type": dtype, "_shape": shape, **({} if tensor is None else handle_attrs([tensor]))}
        if source in self._crossings.mortal:
            attrs[MAY_BE_DEAD] = True
        frame = self._crossings.frames.after(source)
        controls = [self._pivot(frame, part).op] if frame.parent is not None else []
        if self._in_turn and part.last_received is not None and self._comes_once(source):
            controls.append(part.last_received)
        return part.graph.create_op(
            "_Recv",
            (),
            attrs,
            name=f"{source.name}/recv",
            control_inputs=controls,
            device=str(part.device),
            source=source.source,
        ).outputs[0]

    def _comes_once(self, source: Operation) -> bool:
        """True if what an operation sends comes exactly once in a step, so that others can wait for it in turn."""
        return source not in self._crossings.mortal and self._crossings.frames.after(source).parent is None

    def _receive_in_turn(self, source: Operation, part: _Part, tensor: Tensor | None) -> None:
        """Receive right where the value is sent, after what was received before."""
        received = self._receive(source, part, tensor)
        if tensor is None:
            part.operations[source] = received.op
        else:
            part.tensors[tensor] = received
        part.last_received = received.op

    def _pivot(self, frame: Frame, part: _Part) -> Tensor:
        """What is alive in every iteration of a loop on a device: the head of a control loop, made on first use."""
        found = part.pivots.get(frame)
        if found is None:
            decision = self._crossings.decisions[frame]
            if frame.parent is None or frame.parent.parent is None:
                word = {"value": np.zeros(0, np.float32), "dtype": float32}
                start = part.add("Const", (), word, decision, "control_loop/start").outputs[0]
            else:
                start = self._pivot(frame.parent, part)
            attrs = {"T": float32, "frame_name": frame.name, "parallel_iterations": frame.parallel_iterations}
            enter = part.add("Enter", [start], attrs, decision, "control_loop/enter").outputs
            merge = part.add("Merge", enter, {"T": float32, "N": 1}, decision, "control_loop/head")
            found = part.pivots[frame] = merge.outputs[0]
        return found

    def _close_control_loop(self, frame: Frame, part: _Part) -> None:
        decision = self._crossings.decisions[frame]
        goes_on = self._tensor(decision.outputs[0], part)
        head = part.pivots[frame]
        switch = part.add("Switch", [head, goes_on], {"T": float32}, decision, "control_loop/switch")
        following = part.add("NextIteration", [switch.outputs[1]], {"T": float32}, decision, "control_loop/next")
        part.graph.close_loop(head.op, following.outputs[0])


def _renumbered(op: Operation, part: _Part) -> Mapping[str, object]:
    """The attributes of an operation in a part, where arguments and results are numbered anew."""
    if op.type not in ("_Arg", "_Retval"):
        return op.attrs
    numbers = part.arguments if op.type == "_Arg" else part.results
    numbers.append(op.attrs["index"])
    return {**op.attrs, "index": len(numbers) - 1}


def _transfer_attrs(op: Operation, tensor: Tensor | None, source: Device, target: Device) -> dict[str, object]:
    return {
        "tensor_name": f"^{op.name}" if tensor is None else tensor.name,
        "send_device": str(source),
        "send_device_incarnation": source.incarnation,
        "recv_device": str(target),
    }
