"""Partition: from a placed graph to one bounded graph per device, with the transfers between them.

A tensor goes to a device once, whatever the number of its readers there: a `_Send` stands right behind what makes it,
the `_Recv` before its first reader. A control edge that crosses becomes the transfer of an empty tensor, unless an
output of the same operation goes that way already. Arguments, and constants too small to be worth a message, are copied
to where they are read.

Each part lists its operations in the order of the whole graph. So even where every part runs them one by one there is
always one that can go on: the earliest operation that has not run yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import copy_op
from headrace.placement.cost import is_copied
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


def partition(graph: Graph, devices: Mapping[Operation, Device]) -> list[Partition]:
    """Divide a bounded graph.

    Args:
      graph: the graph of one step; it is not changed.
      devices: the device of each operation (see `placer.place`).
    Returns:
      One partition for each device that runs something, in the order in which the graph comes to them.
    """
    return _Partitioner(graph, devices).run()


@dataclass
class _Part:
    """One partition in progress. Mutable."""

    device: Device
    graph: Graph
    arguments: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)
    operations: dict[Operation, Operation] = field(default_factory=dict)


class _Partitioner:
    """One division in progress. Mutable, used once."""

    def __init__(self, graph: Graph, devices: Mapping[Operation, Device]) -> None:
        self._graph = graph
        self._devices = devices
        self._parts: dict[Device, _Part] = {}
        self._readers = _remote_readers(graph, devices)

    def run(self) -> list[Partition]:
        for op in self._graph.operations:
            if is_copied(op):
                continue  # it comes to each device with its first reader there
            part = self._part(self._devices[op])
            self._add(op, part)
            for name, target, tensor in self._outgoing(op):
                self._send(op, part, name, target, tensor)
        return [
            Partition(part.device, part.graph, tuple(part.arguments), tuple(part.results))
            for part in self._parts.values()
        ]

    def _part(self, device: Device) -> _Part:
        part = self._parts.get(device)
        if part is None:
            graph = Graph(seed=self._graph.seed, extend=True, functions=self._graph.functions)
            graph.functions = self._graph.functions
            part = self._parts[device] = _Part(device, graph)
        return part

    def _add(self, op: Operation, part: _Part) -> None:
        inputs = [self._tensor(tensor, part) for tensor in op.inputs]
        controls = [item for source in op.control_inputs for item in self._control(source, part)]
        attrs = self._renumbered(op, part)
        copied = copy_op(op, inputs, part.graph, controls, attrs)
        copied.device = str(part.device)
        part.operations[op] = copied
        part.tensors.update(zip(op.outputs, copied.outputs, strict=True))

    def _renumbered(self, op: Operation, part: _Part) -> Mapping[str, object]:
        if op.type not in ("_Arg", "_Retval"):
            return op.attrs
        numbers = part.arguments if op.type == "_Arg" else part.results
        numbers.append(op.attrs["index"])
        return {**op.attrs, "index": len(numbers) - 1}

    def _tensor(self, tensor: Tensor, part: _Part) -> Tensor:
        """A tensor of the whole graph, as the part has it."""
        found = part.tensors.get(tensor)
        if found is not None:
            return found
        if is_copied(tensor.op):
            self._add(tensor.op, part)
            return part.tensors[tensor]
        return self._receive(tensor.op, part, tensor.name, tensor)

    def _control(self, source: Operation, part: _Part) -> list[Operation]:
        """What an operation of the part must wait for so that it runs after `source`."""
        if source in part.operations:
            return [part.operations[source]]
        if is_copied(source):
            return []
        arriving = [output for output in source.outputs if part.device in self._readers.get(source, {}).get(output, ())]
        if arriving:
            return [self._tensor(arriving[0], part).op]
        part.operations[source] = self._receive(source, part, f"^{source.name}", None).op
        return [part.operations[source]]

    def _outgoing(self, op: Operation) -> Iterator[tuple[str, Device, Tensor | None]]:
        """What goes from an operation to other devices: tensors, and word that it has run."""
        readers = self._readers.get(op, {})
        for output in op.outputs:
            yield from ((output.name, device, output) for device in readers.get(output, ()))
        told = {device for output in op.outputs for device in readers.get(output, ())}
        yield from ((f"^{op.name}", device, None) for device in readers.get(None, ()) if device not in told)

    def _send(self, op: Operation, part: _Part, name: str, target: Device, tensor: Tensor | None) -> None:
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
        part.graph.create_op(
            "_Send",
            [sent],
            {**_transfer_attrs(name, part.device, target), "T": sent.dtype},
            name=f"{op.name}/send",
            device=str(part.device),
            source=op.source,
        )

    def _receive(self, source: Operation, part: _Part, name: str, tensor: Tensor | None) -> Tensor:
        sender = self._devices[source]
        spec = (float32, Shape([0])) if tensor is None else (tensor.dtype, tensor.shape)
        attrs = {**_transfer_attrs(name, sender, part.device), "tensor_type": spec[0], "_shape": spec[1]}
        received = part.graph.create_op(
            "_Recv", (), attrs, name=f"{source.name}/recv", device=str(part.device), source=source.source
        ).outputs[0]
        if tensor is not None:
            part.tensors[tensor] = received
        return received


def _transfer_attrs(name: str, source: Device, target: Device) -> dict[str, object]:
    return {
        "tensor_name": name,
        "send_device": str(source),
        "send_device_incarnation": source.incarnation,
        "recv_device": str(target),
    }


Readers = dict[Tensor | None, dict[Device, None]]


def _remote_readers(graph: Graph, devices: Mapping[Operation, Device]) -> dict[Operation, Readers]:
    """For each operation that other devices read, which devices read which output; None stands for control edges."""
    readers: dict[Operation, Readers] = {}
    for op in graph.operations:
        edges: Sequence[tuple[Operation, Tensor | None]] = [
            *((tensor.op, tensor) for tensor in op.inputs),
            *((source, None) for source in op.control_inputs),
        ]
        for source, output in edges:
            if devices[source] != devices[op]:
                readers.setdefault(source, {}).setdefault(output, {})[devices[op]] = None
    return readers
