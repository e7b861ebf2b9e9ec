"""Batch slices: some images of a batch go through several layers before the next ones do, while caches hold them.

A network for images computes layer by layer what is larger than the caches: each layer reads from memory what the one
before has written. What does not mix the images of a batch can as well be computed for a few of them at a time, down
through the layers (the depth-first order of "fused-layer" accelerators, Alwani et al., MICRO 2016, but along the batch,
where nothing is computed twice). Weights then are read once for each slice; so it ends where they are larger than what
is saved. Results are the same; of their bits, only libraries may decide otherwise for fewer images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.cost import arithmetic, tensor_bytes
from headrace.passes.rewrite import copy_op, is_pure
from headrace.types import int32

__all__ = ["batch_slices"]

_CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2dNative"})
_WINDOWS = _CONVOLUTIONS | {"AvgPool", "MaxPool"}
"""Operations on images whose first input alone is a batch."""
_ELEMENTWISE = frozenset(
    {
        "Add", "AddV2", "BiasAdd", "ClipByValue", "Elu", "LeakyRelu", "Maximum", "Minimum", "Mul", "Relu", "Relu6",
        "Selu", "Sigmoid", "Softplus", "Softsign", "Sub", "Tanh",
    }
)  # fmt: skip
_SLICE_BYTES = 10 << 20
"""What a convolution reads and writes for one slice: the caches hold it and what the next one writes."""
_MOST = 16
"""Slices that a batch is cut into."""
_REREAD = 0.5
"""Weights that are read again, as a share of what a convolution reads and writes for the whole batch."""
_LEAST = 2e7
"""Operations of a convolution for one slice: 50 us, beside which some 5 us to start it do not count."""
_LEAVING = 0.25
"""What leaves the slices, as a share of all that they compute: it goes to memory anyway."""


def batch_slices(graph: Graph, multiple: int = 1) -> Graph:
    """Compute convolutions of large batches, and what stands between them, slice by slice.

    Args:
      graph: a bounded graph, optimised; it is not changed.
      multiple: each slice has so many images, or a multiple of it: one for each thread that computes them.
    Returns:
      `graph` itself where that does not pay, or where something has effects or waits.

    Example:
      >>> import headrace as hr
      >>> from headrace.passes import batch_slices, prune
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [8, 112, 112, 32])
      ...     y = hr.nn.max_pool2d(hr.nn.relu(hr.nn.conv2d(x, hr.ones([3, 3, 32, 64]))), 4, 4)
      >>> sliced = batch_slices(prune(graph, [y], [], [x], [x.shape]), multiple=2)
      >>> sum(op.type == "Conv2D" for op in sliced.operations)
      4
    """
    if has_tokens(graph) or any(op.has_effect or op.blocks or "_target" in op.attrs for op in graph.operations):
        return graph
    for batch in _batches(graph):
        for size in _sizes(batch, multiple):
            found = _Sliced(batch, size)
            found.spread(graph)
            if found.pays(graph):
                return _rewritten(graph, found)
    return graph


def _batches(graph: Graph) -> list[int]:
    """The numbers of images of convolutions that are larger than the caches."""
    large = (op for op in graph.operations if op.type in _CONVOLUTIONS and _moved(op) > _SLICE_BYTES)
    return sorted({_batch(op) for op in large} - {0})


def _batch(op: Operation) -> int:
    """The number of images that an operation makes; 0 where it is not known."""
    shape = op.outputs[0].shape if op.outputs else None
    return shape.as_tuple()[0] if shape is not None and shape.is_fully_defined and shape.rank else 0


def _sizes(batch: int, multiple: int) -> Iterator[int]:
    """Images of a slice, most first."""
    for count in range(2, _MOST + 1):
        if batch % count == 0 and batch // count % multiple == 0:
            yield batch // count


@dataclass(slots=True)
class _Sliced:
    """What is computed in slices. Mutable while it is found.

    Attributes:
      batch: the number of images.
      size: how many of them are a slice.
      operations: what is sliced, in order.
      later: what needs these as a whole, or waits for something that does, in order.
    """

    batch: int
    size: int
    operations: dict[Operation, None] = field(default_factory=dict)
    later: dict[Operation, None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many slices there are."""
        return self.batch // self.size

    def spread(self, graph: Graph) -> None:
        """Follow the images from the first convolutions on, as far as it pays."""
        awaited = {item for op in graph.operations for item in op.control_inputs}
        self._divide(graph, lambda op: op not in awaited and self._takes(op))
        self._leave_functions()
        taken = set(self.operations)
        self._divide(graph, taken.__contains__)

    def _leave_functions(self) -> None:
        """Compute functions of one value that no slice reads as a whole, where their operands are joined anyway.

        What is added to the result of a convolution stays with it: libraries do that while they write.
        """
        reads = Counter(tensor for op in self.operations for tensor in op.inputs)
        for op in reversed(list(self.operations)):
            if op.type in _ELEMENTWISE and len(op.inputs) == 1 and not reads[op.outputs[0]]:
                del self.operations[op]
                reads.subtract(op.inputs)

    def _divide(self, graph: Graph, takes: Callable[[Operation], bool]) -> None:
        """Find what is sliced, and what comes later."""
        self.operations, self.later = {}, {}
        for op in graph.operations:
            before = {*(tensor.op for tensor in op.inputs), *op.control_inputs}
            if before.isdisjoint(self.later) and takes(op):
                self.operations[op] = None
            elif not (before.isdisjoint(self.operations) and before.isdisjoint(self.later)):
                self.later[op] = None

    def _takes(self, op: Operation) -> bool:
        fits = op.type in _WINDOWS | _ELEMENTWISE and is_pure(op) and len(op.outputs) == 1
        if not fits or _batch(op) != self.batch or not all(tensor.shape.is_fully_defined for tensor in op.inputs):
            return False
        data = self.data(op)
        shared = [tensor for tensor in op.inputs if tensor not in data]
        if not data or any(tensor.op in self.operations for tensor in shared):
            return False
        if op.type in _CONVOLUTIONS:
            return self._is_worth(op)
        return any(tensor.op in self.operations for tensor in data)

    def data(self, op: Operation) -> list[Tensor]:
        """The inputs of which a slice needs a slice only; the others are the same for each image."""
        if op.type in _WINDOWS:
            return list(op.inputs[:1])
        rank = op.outputs[0].shape.rank
        return [
            tensor for tensor in op.inputs if tensor.shape.rank == rank and tensor.shape.as_tuple()[0] == self.batch
        ]

    def _is_worth(self, op: Operation) -> bool:
        weights = tensor_bytes(op.inputs[1]) * (self.count - 1)
        return weights <= _REREAD * _moved(op) and arithmetic(op) / self.count >= _LEAST

    def pays(self, graph: Graph) -> bool:
        """True if whole layers are larger than the caches, slices of them are not, and little of it is needed later."""
        moved = [_moved(op) for op in self.operations if op.type in _CONVOLUTIONS]
        if not moved or not _SLICE_BYTES < max(moved) <= _SLICE_BYTES * self.count:
            return False
        leaving = sum(map(tensor_bytes, self.leaving(graph)))
        return leaving <= _LEAVING * sum(tensor_bytes(op.outputs[0]) for op in self.operations)

    def leaving(self, graph: Graph) -> list[Tensor]:
        """What is needed as a whole."""
        needed = {tensor for op in graph.operations if op not in self.operations for tensor in op.inputs}
        return [op.outputs[0] for op in self.operations if op.outputs[0] in needed]


def _moved(op: Operation) -> int:
    """Bytes that a convolution reads and writes besides its weights."""
    return tensor_bytes(op.inputs[0]) + tensor_bytes(op.outputs[0])


def _rewritten(graph: Graph, found: _Sliced) -> Graph:
    """First what does not need the slices, then these, then the rest."""
    word = "slice"
    while any(f"/{word}" in op.name for op in graph.operations):
        word += "_"  # what the user has named keeps its name
    writer = _Writer(found, word, Graph(seed=graph.seed, extend=True, functions=graph.functions))
    for op in graph.operations:
        if op not in found.operations and op not in found.later:
            writer.copy(op)
    for number in range(found.count):
        writer.write_slice(number)
    for tensor in found.leaving(graph):
        writer.join(tensor)
    for op in found.later:
        writer.copy(op)
    return writer.result


@dataclass(slots=True)
class _Writer:
    """Writes the graph. Mutable.

    Attributes:
      found: what is sliced.
      word: what the names of slices are made of.
      result: the graph.
      tensors, operations: what stands for those of the old graph.
      parts: for each tensor that is made in slices these.
    """

    found: _Sliced
    word: str
    result: Graph
    tensors: dict[Tensor, Tensor] = field(default_factory=dict)
    operations: dict[Operation, Operation] = field(default_factory=dict)
    parts: dict[Tensor, list[Tensor]] = field(default_factory=dict)

    def copy(self, op: Operation) -> None:
        """What is computed as a whole."""
        inputs = [self.tensors[tensor] for tensor in op.inputs]
        copied = copy_op(op, inputs, self.result, [self.operations[item] for item in op.control_inputs])
        self.operations[op] = copied
        self.tensors.update(zip(op.outputs, copied.outputs, strict=True))

    def write_slice(self, number: int) -> None:
        """All that is sliced, for one slice."""
        own: dict[Tensor, Tensor] = {}
        for op in self.found.operations:
            data = self.found.data(op)
            for tensor in data:
                if tensor not in own:
                    own[tensor] = self._cut(tensor, number)
            inputs = [own[tensor] if tensor in data else self.tensors[tensor] for tensor in op.inputs]
            (made,) = copy_op(op, inputs, self.result, suffix=f"/{self.word}{number}", trusted=False).outputs
            own[op.outputs[0]] = made
            self.parts.setdefault(op.outputs[0], []).append(made)

    def _cut(self, tensor: Tensor, number: int) -> Tensor:
        shape = tensor.shape.as_tuple()
        begin = self._constant(
            tensor, f"{self.word}{number}/begin", [number * self.found.size, *[0] * (len(shape) - 1)]
        )
        size = self._constant(tensor, f"{self.word}{number}/size", [self.found.size, *shape[1:]])
        inputs = [self.tensors[tensor], begin, size]
        return self._create(tensor, "Slice", inputs, {"T": tensor.dtype, "Index": int32}, f"{self.word}{number}")

    def join(self, tensor: Tensor) -> None:
        """What is needed as a whole."""
        parts = self.parts[tensor]
        inputs = [*parts, self._constant(tensor, f"{self.word}s/axis", 0)]
        attrs = {"T": tensor.dtype, "N": len(parts), "Tidx": int32}
        self.tensors[tensor] = self._create(tensor, "ConcatV2", inputs, attrs, f"{self.word}s")

    def _constant(self, tensor: Tensor, name: str, value: Sequence[int] | int) -> Tensor:
        return self._create(tensor, "Const", (), {"value": np.asarray(value, np.int32), "dtype": int32}, name)

    def _create(
        self, tensor: Tensor, op_type: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], name: str
    ) -> Tensor:
        """An operation that stands for nothing in the old graph, beside what makes a tensor there."""
        op = tensor.op
        made = self.result.create_op(
            op_type, inputs, attrs, name=f"{op.name}/{name}/", device=op.device, source=op.source
        )
        return made.outputs[0]
