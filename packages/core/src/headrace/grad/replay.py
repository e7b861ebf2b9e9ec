"""Replay: the gradient of a function's body, built once beside it and then copied to where it runs.

The gradient operations of a body are first built in a graph of their own, `backward`, around which the body stands:
what they read of the body is captured. Then it is known what they read, and each such tensor is classified:

- *free*: it can be had at once where the gradient runs, from the inputs of the forward operation and constants, perhaps
  by a few cheap operations (a counter, a row of a list that does not change);
- *saved*: the forward operation has to give it too, so it gets an extension (see `graph.extensions`).

Of tensors of which only sizes are read, the sizes are saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.grad.backprop import Gradient, gradients
from headrace.graph.apply import apply_op, constant
from headrace.graph.attr import AttrValue, attr_key
from headrace.graph.extensions import needed_operations
from headrace.graph.functions import Body, Captures
from headrace.graph.operation import Tensor
from headrace.graph.scopes import Scope, current_graph, enter
from headrace.graph.shape_value import constant_value
from headrace.ops.indexed_slices import IndexedSlices
from headrace.types import int32, variant

__all__ = ["Differentiated", "differentiate"]

_FILLED = {"ZerosLike": 0, "OnesLike": 1}

_SIZE_ONLY = frozenset({"Shape", "Size", "Rank", "TensorListLength", "TensorListElementShape"})
"""Types whose output follows from the sizes of their input alone."""

_CHEAP = frozenset({
    "Identity", "Cast", "Reshape", "ExpandDims", "Squeeze", "Shape", "Size", "Rank", "Pack", "StridedSlice", "Fill",
    "ConcatV2", "Range", "ReadVariableOp", "TensorListGetItem", "TensorListLength", "TensorListElementShape",
})  # fmt: skip
"""Types that cost no more than it costs to keep their output and get it back."""

_CHEAP_ON_INTEGERS = frozenset({"AddV2", "Sub", "Mul", "Neg", "Maximum", "Minimum", "FloorDiv"})
"""The arithmetic of counters and sizes."""


@dataclass
class Differentiated:
    """The body of a function and its gradient, before it is known where that runs. Mutable, used once.

    Attributes:
      forward: a copy of the body to which may be added what has to be saved.
      backward: the graph of the gradient.
      given: the tensors of `backward` that stand for the gradients of the results.
      gradients: for each argument asked for its gradient in `backward`, or None.
      recompute: compute again whatever is pure.
    """

    forward: Body
    backward: Body
    given: Sequence[Tensor]
    gradients: Sequence[Gradient | None]
    recompute: bool = False
    _free_arguments: Collection[int] = ()
    _free: dict[Tensor, bool] = field(default_factory=dict)
    _sizes: dict[Hashable, Tensor] = field(default_factory=dict)

    def flat_gradients(self) -> list[Tensor]:
        """The tensors that the gradients consist of."""
        flat: list[Tensor] = []
        for gradient in self.gradients:
            flat += [gradient.values, gradient.indices] if isinstance(gradient, IndexedSlices) else []
            flat += [gradient] if isinstance(gradient, Tensor) else []
        return flat

    def saved(self, free_arguments: Collection[int]) -> list[Tensor]:
        """The tensors of `forward` that have to be saved.

        Args:
          free_arguments: the arguments whose value can be had where the gradient runs.
        """
        self._free_arguments = free_arguments
        self._free.clear()
        found: dict[Tensor, None] = {}
        for tensor in self._read().values():
            found.update(dict.fromkeys(self._leaves(tensor)))
        return list(found)

    def replay(self, given: Sequence[Tensor], provided: Callable[[Tensor], Tensor]) -> list[Gradient | None]:
        """Copy the gradient to the graph that is being built.

        Args:
          given: the gradients of the results.
          provided: gives what stands for a tensor of `forward` that was saved, or for a free argument.
        Returns:
          The gradient of each argument, or None.
        """
        tensors = dict(zip(self.given, given, strict=True))
        known: dict[Tensor, Tensor] = {}
        for place, source in self._read().items():
            tensors[place] = self._provided(source, provided, known)
        graph = current_graph()
        operations, _ = needed_operations(self.flat_gradients(), (), tensors)
        for op in operations:
            if all(output in tensors for output in op.outputs):
                continue
            inputs = [tensors[tensor] for tensor in op.inputs]
            copied = graph.create_op(
                op.type, inputs, op.attrs, name=op.name, source=op.source, op_def=op.op_def, like=op
            )
            tensors.update(zip(op.outputs, copied.outputs, strict=True))
        return [_moved(gradient, tensors) for gradient in self.gradients]

    def _read(self) -> dict[Tensor, Tensor]:
        """For each tensor of `backward` that stands for something of `forward` what that is."""
        captured = {
            self.backward.arguments[index]: tensor
            for index, tensor in enumerate(self.backward.captures.tensors, len(self.given))
        }
        sizes: dict[Tensor, Tensor] = {}
        for op in needed_operations(self.flat_gradients(), (), set(self.given))[0]:
            source = captured.get(op.inputs[0]) if op.inputs else None
            if source is not None and op.type in _SIZE_ONLY:
                sizes[op.outputs[0]] = self._size_of(op.type, op.attrs, source)
            elif source is not None and op.type in _FILLED and source.dtype is not variant:
                sizes[op.outputs[0]] = self._filled(source, _FILLED[op.type])
        known = {*self.given, *sizes}
        operations, _ = needed_operations(self.flat_gradients(), (), known)
        read = {tensor for op in operations for tensor in op.inputs} | set(self.flat_gradients())
        used = {tensor for op in operations for tensor in op.outputs} | read
        return {place: source for place, source in {**captured, **sizes}.items() if place in used}

    def _size_of(self, op_type: str, attrs: Mapping[str, AttrValue], source: Tensor) -> Tensor:
        """What a size-only operation gives for a tensor of the body, on the side of the body."""
        key = (op_type, source, attr_key(attrs.get("out_type", attrs.get("shape_type"))))
        if key not in self._sizes:
            with enter(Scope(graph=self.forward)):
                self._sizes[key] = self.forward.create_op(op_type, [source], attrs, source=source.op.source).outputs[0]
        return self._sizes[key]

    def _filled(self, source: Tensor, number: int) -> Tensor:
        """Zeros or ones in the shape of a tensor of the body, on the side of the body."""
        key = ("Fill", source, number)
        if key not in self._sizes:
            dims = self._size_of("Shape", {"T": source.dtype, "out_type": int32}, source)
            with enter(Scope(graph=self.forward)):
                value = constant(np.array(number, source.dtype.array_type))
                self._sizes[key] = apply_op("Fill", dims, value)
        return self._sizes[key]

    def _leaves(self, tensor: Tensor) -> list[Tensor]:
        """What has to be saved to get `tensor`."""
        if self._is_free(tensor):
            return []
        op = tensor.op
        if op.type == "Fill":
            return self._leaves(op.inputs[0])  # the sizes take less than what is filled
        if self.recompute and op.type != "_Arg" and not op.is_stateful:
            return [leaf for item in op.inputs for leaf in self._leaves(item)]
        return [tensor]

    def _is_free(self, tensor: Tensor) -> bool:
        if tensor not in self._free:
            self._free[tensor] = self._follows(tensor)
        return self._free[tensor]

    def _follows(self, tensor: Tensor) -> bool:
        op = tensor.op
        if op.type == "Const":
            return True
        if op.type == "_Arg":
            return op.attrs["index"] in self._free_arguments
        if tensor.dtype.is_integer and constant_value(tensor) is not None:
            return True
        cheap = op.type in _CHEAP or (op.type in _CHEAP_ON_INTEGERS and tensor.dtype.is_integer)
        is_read = op.type == "ReadVariableOp"  # another value may be there by then
        return cheap and not is_read and all(self._is_free(item) for item in op.inputs)

    def _provided(self, tensor: Tensor, provided: Callable[[Tensor], Tensor], known: dict[Tensor, Tensor]) -> Tensor:
        """What stands for a tensor of `forward` in the graph that is being built."""
        if tensor not in known:
            known[tensor] = self._made(tensor, provided, known)
        return known[tensor]

    def _made(self, tensor: Tensor, provided: Callable[[Tensor], Tensor], known: dict[Tensor, Tensor]) -> Tensor:
        op = tensor.op
        leaves = self._leaves(tensor)
        if op.type == "_Arg" or leaves == [tensor]:
            return provided(tensor)
        value = constant_value(tensor) if tensor.dtype.is_integer else None
        if value is not None:
            return constant(value)
        inputs = [self._provided(item, provided, known) for item in op.inputs]
        copied = current_graph().create_op(op.type, inputs, op.attrs, name=op.name, source=op.source, like=op)
        known.update(zip(op.outputs, copied.outputs, strict=True))
        return known[tensor]


def _moved(gradient: Gradient | None, tensors: Mapping[Tensor, Tensor]) -> Gradient | None:
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(tensors[gradient.values], tensors[gradient.indices], gradient.dense_shape)
    return None if gradient is None else tensors[gradient]


def differentiate(body: Body, results: Sequence[int], arguments: Sequence[int], *, recompute: bool) -> Differentiated:
    """Build the gradient of some results of a function by some of its arguments.

    Args:
      body: the function.
      results: the numbers of the results to which gradients come.
      arguments: the numbers of the arguments by which to differentiate.
      recompute: see `Differentiated`.
    """
    forward, _ = body.copy(f"{body.name}_forward", body.results)
    backward = Body(f"{body.name}_backward", outer=forward, captures=Captures(len(results)))
    backward.effect_order = None
    given = [
        backward.add_argument(number, forward.results[index].spec, like=forward.results[index])
        for number, index in enumerate(results)
    ]
    with backward.as_default():
        found = gradients(
            [forward.results[index] for index in results], [forward.arguments[index] for index in arguments], given
        )
        owned = [backward.own(gradient) if isinstance(gradient, Tensor) else gradient for gradient in found]
    return Differentiated(forward, backward, given, owned, recompute)
