"""What is known of a tensor's value while the graph is built.

Shapes travel through graphs as small integer vectors: `reshape(x, pack([shape(x)[0], -1]))`. A shape function asks here
for the value of such an input. The answer is found by walking back over the few operations that programs build shapes
from, with None for each element that is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from headrace.types import Array, Shape

if TYPE_CHECKING:
    from headrace.graph.operation import Operation, Tensor

__all__ = ["constant_value", "constant_value_as_shape"]

PartialValue = np.ndarray
"""An object array of Python ints and None (not known), of rank 0 or 1."""

_MAX_DEPTH = 24  # long chains of loop counters are not shapes
_MAX_ELEMENTS = 4096

Rule = Callable[["Operation", "_Walk"], "PartialValue | None"]
_rules: dict[str, Rule] = {}


def constant_value(tensor: Tensor) -> Array | None:
    """The full value of `tensor` if it follows from constants and static shapes, else None."""
    return _Walk().constant(tensor)


def constant_value_as_shape(tensor: Tensor) -> Shape:
    """`tensor`, an integer vector of sizes, read as a shape; -1 and unknown elements are unknown sizes."""
    partial = _Walk().partial(tensor)
    if partial is None or partial.ndim != 1:
        length = tensor.shape[0] if tensor.shape.rank == 1 else None
        return Shape() if length is None else Shape([None] * length)
    return Shape(None if size is None or size < 0 else size for size in partial)


class _Walk:
    """The walk back for one answer. It remembers what it found: `n = n + n`, repeated, would else double each time."""

    def __init__(self) -> None:
        self._known: dict[Tensor, PartialValue | None] = {}
        self._depth = 0

    def constant(self, tensor: Tensor) -> Array | None:
        if tensor.op.type == "Const":
            value: Array = tensor.op.attrs["value"]
            return value
        if not tensor.dtype.is_integer:
            return None
        partial = self.partial(tensor)
        if partial is None or any(item is None for item in partial.reshape(-1)):
            return None
        return partial.astype(tensor.dtype.array_type)

    def partial(self, tensor: Tensor) -> PartialValue | None:
        if tensor in self._known:
            return self._known[tensor]
        rule = _rules.get(tensor.op.type)
        if rule is None or self._depth > _MAX_DEPTH:
            return _unknown(tensor)
        self._depth += 1
        found = self._known[tensor] = _within(tensor, rule(tensor.op, self))
        self._depth -= 1
        return found


def _within(tensor: Tensor, value: PartialValue | None) -> PartialValue | None:
    """`value` without the elements that its dtype cannot hold: what a kernel makes of them is not foretold."""
    if value is None or not tensor.dtype.is_integer:
        return value
    bounds = np.iinfo(tensor.dtype.array_type)
    if all(item is None or bounds.min <= item <= bounds.max for item in value.reshape(-1)):
        return value
    kept = [item if item is not None and bounds.min <= item <= bounds.max else None for item in value.reshape(-1)]
    return _objects(kept).reshape(value.shape)


def _unknown(tensor: Tensor) -> PartialValue | None:
    """All elements unknown, if at least their number is known."""
    if tensor.shape.rank is None or tensor.shape.rank > 1 or not tensor.shape.is_fully_defined:
        return None
    sizes = tensor.shape.as_tuple()
    if sizes and sizes[0] > _MAX_ELEMENTS:
        return None
    return np.full(sizes, None, dtype=object)


def _rule(*types: str) -> Callable[[Rule], Rule]:
    def decorate(function: Rule) -> Rule:
        for name in types:
            _rules[name] = function
        return function

    return decorate


def _objects(items: list[int | None]) -> PartialValue:
    result = np.empty(len(items), dtype=object)
    result[:] = items
    return result


@_rule("Const")
def _const(op: Operation, walk: _Walk) -> PartialValue | None:
    value = op.attrs["value"]
    if value.ndim > 1 or value.size > _MAX_ELEMENTS or value.dtype.kind not in "iu":
        return None
    return value.astype(object) if value.ndim else np.array(int(value), dtype=object)


@_rule("Shape")
def _shape(op: Operation, walk: _Walk) -> PartialValue | None:
    dims = op.inputs[0].shape.dims
    return None if dims is None else _objects(list(dims))


@_rule("ShapeN")
def _shape_n(op: Operation, walk: _Walk) -> PartialValue | None:
    return None  # several outputs: which one is asked for is not known here


@_rule("Size")
def _size(op: Operation, walk: _Walk) -> PartialValue | None:
    return np.array(op.inputs[0].shape.num_elements, dtype=object)


@_rule("Rank")
def _rank(op: Operation, walk: _Walk) -> PartialValue | None:
    return np.array(op.inputs[0].shape.rank, dtype=object)


@_rule("Identity", "StopGradient")
def _identity(op: Operation, walk: _Walk) -> PartialValue | None:
    return walk.partial(op.inputs[0])


@_rule("Cast")
def _cast(op: Operation, walk: _Walk) -> PartialValue | None:
    return walk.partial(op.inputs[0]) if op.inputs[0].dtype.is_integer else None


@_rule("Pack")
def _pack(op: Operation, walk: _Walk) -> PartialValue | None:
    parts = [walk.partial(item) for item in op.inputs]
    if any(part is None or part.ndim != 0 for part in parts):
        return None
    return _objects([None if part is None else part.item() for part in parts])


@_rule("ConcatV2")
def _concat(op: Operation, walk: _Walk) -> PartialValue | None:
    parts = [walk.partial(item) for item in op.inputs[:-1]]
    known = [part for part in parts if part is not None and part.ndim == 1]
    return np.concatenate(known) if len(known) == len(parts) else None


@_rule("ExpandDims")
def _expand_dims(op: Operation, walk: _Walk) -> PartialValue | None:
    value = walk.partial(op.inputs[0])
    return value.reshape(1) if value is not None and value.ndim == 0 else None


@_rule("Squeeze")
def _squeeze(op: Operation, walk: _Walk) -> PartialValue | None:
    value = walk.partial(op.inputs[0])
    return value.reshape(()) if value is not None and value.shape == (1,) else None


@_rule("Reshape")
def _reshape(op: Operation, walk: _Walk) -> PartialValue | None:
    value, sizes = walk.partial(op.inputs[0]), walk.partial(op.inputs[1])
    if value is None or sizes is None or sizes.shape not in ((0,), (1,)):
        return None
    if sizes.shape == (1,):
        return value.reshape(-1) if sizes[0] in (-1, value.size) else None
    return value.reshape(()) if value.size == 1 else None


@_rule("StridedSlice")
def _strided_slice(op: Operation, walk: _Walk) -> PartialValue | None:
    value = walk.partial(op.inputs[0])
    bounds = [walk.constant(item) for item in op.inputs[1:]]
    masks = [op.attrs[name] for name in ("begin_mask", "end_mask", "shrink_axis_mask")]
    if value is None or value.ndim != 1 or op.attrs["ellipsis_mask"] or op.attrs["new_axis_mask"]:
        return None
    if any(bound is None or bound.shape != (1,) for bound in bounds):
        return None
    begin, end, step = (int(bound[0]) for bound in bounds if bound is not None)
    if masks[2] & 1:
        return np.array(value[begin], dtype=object) if -len(value) <= begin < len(value) else None
    return value[slice(None if masks[0] & 1 else begin, None if masks[1] & 1 else end, step)] if step else None


@_rule("GatherV2")
def _gather(op: Operation, walk: _Walk) -> PartialValue | None:
    value, indices = walk.partial(op.inputs[0]), walk.constant(op.inputs[1])
    if value is None or value.ndim != 1 or indices is None or indices.ndim > 1:
        return None
    if indices.size and not (indices.min() >= 0 and indices.max() < len(value)):
        return None
    return np.array(value[indices], dtype=object)


@_rule("Fill")
def _fill(op: Operation, walk: _Walk) -> PartialValue | None:
    sizes, value = walk.constant(op.inputs[0]), walk.partial(op.inputs[1])
    if sizes is None or value is None or value.ndim or len(sizes) > 1 or (sizes.size and sizes[0] > _MAX_ELEMENTS):
        return None
    return np.full(tuple(sizes), value.item(), dtype=object)


@_rule("Range")
def _range(op: Operation, walk: _Walk) -> PartialValue | None:
    bounds = [walk.constant(item) for item in op.inputs]
    numbers = [int(bound) for bound in bounds if bound is not None and bound.ndim == 0]
    if len(numbers) != 3 or not numbers[2]:
        return None
    span = range(*numbers)
    return _objects(list(span)) if len(span) <= _MAX_ELEMENTS else None


def _elementwise(combine: Callable[[int, int], int]) -> Rule:
    def rule(op: Operation, walk: _Walk) -> PartialValue | None:
        left, right = walk.partial(op.inputs[0]), walk.partial(op.inputs[1])
        if (
            left is None
            or right is None
            or (left.ndim and right.ndim and len(left) != len(right) and 1 not in (len(left), len(right)))
        ):
            return None
        pairs = np.broadcast(left, right)
        items = [None if a is None or b is None else combine(a, b) for a, b in pairs]
        return _objects(items) if pairs.ndim else np.array(items[0], dtype=object)

    return rule


_rules["AddV2"] = _rules["Add"] = _elementwise(lambda a, b: a + b)
_rules["Sub"] = _elementwise(lambda a, b: a - b)
_rules["Mul"] = _elementwise(lambda a, b: a * b)
_rules["Maximum"] = _elementwise(max)
_rules["Minimum"] = _elementwise(min)


@_rule("FloorDiv")
def _floor_div(op: Operation, walk: _Walk) -> PartialValue | None:
    divisor = walk.partial(op.inputs[1])
    if divisor is None or any(item == 0 for item in divisor.reshape(-1)):
        return None
    return _elementwise(lambda a, b: a // b)(op, walk)


@_rule("Prod")
def _prod(op: Operation, walk: _Walk) -> PartialValue | None:
    value = walk.partial(op.inputs[0])
    if value is None or value.ndim != 1 or op.attrs["keep_dims"] or any(item is None for item in value):
        return None
    total = 1
    for item in value:
        total *= item
    return np.array(total, dtype=object)
