"""Loop rules of what takes tensors apart and puts them together: no pass over memory where a neighbour can do it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import HeadraceError
from headrace.loops import functions as loops
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.value import Value
from headrace.ops.slicing import SliceMasks, numpy_index

__all__: list[str] = []


def _plain(*values: Value) -> bool:
    return all(value.dtype.kind in ("float", "int", "uint", "bool") and 0 not in value.shape for value in values)


def _axis(given: Sequence[int] | None, rank: int) -> int | None:
    if given is None or len(given) != 1 or not -rank <= given[0] < rank:
        return None
    return given[0] % rank


def _parts(value: Value, axis: int, sizes: Sequence[int]) -> tuple[Value, ...] | None:
    if sum(sizes) != value.shape[axis] or min(sizes) < 1:
        return None
    parts, start = [], 0
    for size in sizes:
        shape = [size if number == axis else whole for number, whole in enumerate(value.shape)]
        starts = [start if number == axis else 0 for number in range(value.rank)]
        parts.append(loops.strided(value, starts, shape, [1] * value.rank))
        start += size
    return tuple(parts)


@register_loops("Split")
def _split(op: LoopContext, split_dim: Value, value: Value) -> tuple[Value, ...] | None:
    axis, count = _axis(op.integers(0), value.rank), op.attr("num_split")
    if axis is None or not _plain(value) or value.shape[axis] % count:
        return None
    return _parts(value, axis, [value.shape[axis] // count] * count)


@register_loops("SplitV")
def _split_v(op: LoopContext, value: Value, size_splits: Value, split_dim: Value) -> tuple[Value, ...] | None:
    axis, sizes = _axis(op.integers(2), value.rank), op.integers(1)
    if axis is None or sizes is None or not _plain(value) or min(sizes, default=0) < 1:
        return None
    return _parts(value, axis, sizes)


@register_loops("Unpack")
def _unpack(op: LoopContext, value: Value) -> tuple[Value, ...] | None:
    axis = _axis([op.attr("axis")], value.rank)
    if axis is None or not _plain(value) or value.shape[axis] != op.attr("num"):
        return None
    parts = _parts(value, axis, [1] * value.shape[axis])
    return None if parts is None else tuple(loops.squeeze(part, [axis]) for part in parts)


@register_loops("ConcatV2")
def _concat(op: LoopContext, *inputs: Value) -> Value | None:
    values = [value for value in inputs[:-1] if 0 not in value.shape]
    axis = _axis(op.integers(len(inputs) - 1), inputs[0].rank)
    if axis is None or not values or not _plain(*values):
        return None
    return _joined(op.shape(), values, axis)


@register_loops("Pack")
def _pack(op: LoopContext, *values: Value) -> Value | None:
    shape = op.shape()
    axis = _axis([op.attr("axis")], len(shape))
    if axis is None or not _plain(*values):
        return None
    return _joined(shape, [loops.expand_dims(value, axis) for value in values], axis)


def _joined(shape: Sequence[int], values: Sequence[Value], axis: int) -> Value:
    pieces, start = [], 0
    for value in values:
        pieces.append((value, [start if number == axis else 0 for number in range(len(shape))], [1] * len(shape)))
        start += value.shape[axis]
    return loops.assemble(shape, pieces, None)


@register_loops("Pad")
def _pad(op: LoopContext, x: Value, paddings: Value) -> Value | None:
    return _padded(op, x, 0)


@register_loops("PadV2")
def _pad_v2(op: LoopContext, x: Value, paddings: Value, constant_values: Value) -> Value | None:
    filling = op.constants[2]
    return None if filling is None else _padded(op, x, np.asarray(filling).reshape(-1)[0].item())


def _padded(op: LoopContext, x: Value, filling: float | int | bool) -> Value | None:
    amounts = op.integers(1)
    if amounts is None or not _plain(x) or not x.rank or min(amounts) < 0 or len(amounts) != 2 * x.rank:
        return None
    return loops.assemble(op.shape(), [(x, amounts[::2], [1] * x.rank)], filling)


def _slices(op: LoopContext, shape: Sequence[int], first: int) -> tuple[list[int], list[int], list[int]] | None:
    """First position, size and step along each axis that a strided slice takes, or None where not all are known.

    What the kernel refuses has none either.
    """
    begin, end, strides = op.constants[first : first + 3]
    if begin is None or end is None or strides is None:
        return None
    try:
        index = numpy_index(SliceMasks.of(op), tuple(shape), begin, end, strides)
    except HeadraceError:
        return None
    starts, sizes, steps = [], [], []
    axes = iter(shape)
    for entry in index:
        if entry is None or entry is Ellipsis:  # the dots come last, for the axes that are taken whole
            continue
        size = next(axes)
        if isinstance(entry, slice):
            start, stop, step = entry.indices(size)
            count = len(range(start, stop, step))
        else:
            start, count, step = int(entry) % size, 1, 1
        starts.append(start)
        sizes.append(count)
        steps.append(step)
    for size in axes:
        starts.append(0)
        sizes.append(size)
        steps.append(1)
    return starts, sizes, steps


def _as_taken(value: Value, shape: Sequence[int]) -> Value | None:
    """A part of all axes in the shape of the slice: axes of one position left out, new ones put in."""
    kept = [size for size in shape if size != 1]
    if [size for size in value.shape if size != 1] != kept:
        return None
    bare = loops.squeeze(value, [axis for axis, size in enumerate(value.shape) if size == 1])
    return loops.expand_dims(bare, [axis for axis, size in enumerate(shape) if size == 1])


@register_loops("StridedSlice")
def _strided_slice(op: LoopContext, x: Value, begin: Value, end: Value, strides: Value) -> Value | None:
    taken = _slices(op, x.shape, 1)
    if taken is None or not _plain(x) or 0 in taken[1]:
        return None
    return _as_taken(loops.strided(x, *taken), op.shape())


@register_loops("StridedSliceGrad")
def _strided_slice_grad(
    op: LoopContext, shape: Value, begin: Value, end: Value, strides: Value, dy: Value
) -> Value | None:
    whole = op.shape()
    taken = _slices(op, whole, 1)
    if taken is None or not _plain(dy) or 0 in taken[1] or 0 in whole:
        return None
    starts, sizes, steps = taken
    piece = _as_taken(dy, sizes)
    return None if piece is None else loops.assemble(whole, [(piece, starts, steps)], 0)
