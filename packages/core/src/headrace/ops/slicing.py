"""Slices of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace import types
from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.ops.shapes import check_per_axis
from headrace.types import Array, Shape

__all__ = ["SliceMasks", "check_slice_gradient", "numpy_index", "slice_vector", "sliced_size"]


@register_op(
    "Slice",
    inputs={"input": "T", "begin": "Index", "size": "Index"},
    outputs={"output": "T"},
    attrs={"Index": attr.type(types.int32, types.int64)},
)
def _slice_shape(op: InferenceContext) -> list[Shape]:
    """size[i] elements from begin[i] on along each axis i; a size of -1 means all that follow."""
    begin, size = op.constant(1), op.constant(2)
    rank = op.inputs[0].shape.rank
    for spec, what in zip(op.inputs[1:], ("begin", "size"), strict=True):
        rank = check_per_axis(spec.shape, rank, what)
    if rank is None:
        return [Shape()]
    dims = op.inputs[0].shape.with_rank(rank)
    if size is None:
        return [op.constant_shape(2).merge(Shape([None] * rank))]
    starts: Sequence[int | None] = [None] * rank if begin is None else slice_vector(begin, rank, "begin")
    return [
        Shape(
            sliced_size(axis, total, start, count)
            for axis, (total, start, count) in enumerate(
                zip(dims, starts, slice_vector(size, rank, "size"), strict=True)
            )
        )
    ]


def slice_vector(values: Array, rank: int, what: str) -> list[int]:
    """`begin` or `size` of a `Slice` as integers, one for each axis."""
    given = np.asarray(values)
    check_per_axis(Shape(given.shape), rank, what)
    return [int(value) for value in given]


def sliced_size(axis: int, total: int | None, start: int | None, count: int) -> int | None:
    """The size of one axis after a `Slice`, or None where it is not known.

    Raises:
      ShapeError: the slice leaves the axis.
    """
    bounds = f"{start if start is not None else '?'} + {count} along axis {axis}"
    if (start is not None and start < 0) or count < -1:
        raise ShapeError(
            "a slice must start within the tensor",
            expected="begin >= 0 and size >= -1",
            got=bounds,
            hint="count begin from 0; x[-n:] counts from the end, and a size of -1 takes all that follows",
        )
    if start is None or total is None:
        return None if count == -1 else count
    size = total - start if count == -1 else count
    if size < 0 or start + size > total:
        raise ShapeError(
            "a slice leaves the tensor",
            expected=f"begin + size <= {total}",
            got=bounds,
            hint="a size of -1 takes what is left; x[begin:end] cuts off what lies beyond",
        )
    return size


@dataclass(frozen=True, slots=True)
class SliceEntry:
    """What a `StridedSlice` does with one axis of its input, or of its output.

    Attributes:
      axis: the input's axis, or None for a new axis of size 1.
      position: which element of begin, end and strides tells how, or None for the whole axis.
      single: one element is taken and the axis disappears.
      from_start: begin is ignored: the slice starts at the end it comes from.
      to_end: end is ignored.
    """

    axis: int | None
    position: int | None = None
    single: bool = False
    from_start: bool = False
    to_end: bool = False


@dataclass(frozen=True, slots=True)
class SliceMasks:
    """The five masks of a `StridedSlice`; bit i speaks of element i of begin, end and strides.

    Where several bits are set the first of ellipsis, new axis and single counts.

    Attributes:
      begin: the element of begin does not count: the slice starts at that end of the axis.
      end: the same of end.
      ellipsis: stands for as many whole axes as are left over; one bit at most.
      new_axis: puts in an axis of size 1.
      shrink_axis: takes the single index begin and drops the axis.
    """

    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int

    @classmethod
    def of(cls, op: HasAttrs) -> SliceMasks:
        """The masks among the attributes of an operation."""
        return cls(*(op.attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")))

    def entries(self, count: int, rank: int) -> list[SliceEntry]:
        """What a slice with `count` elements of begin does to a tensor of `rank` axes.

        Raises:
          ShapeError: it speaks of more axes than there are, or has two ellipses.
        """
        ellipses = [index for index in range(count) if self.ellipsis >> index & 1]
        if len(ellipses) > 1:
            raise ShapeError(
                "a slice may have one ellipsis",
                expected="one bit in ellipsis_mask",
                got=str(len(ellipses)),
                hint="keep one ... and write : for each of the other axes",
            )
        new = [index for index in range(count) if self.new_axis >> index & 1 and index not in ellipses]
        taken = count - len(ellipses) - len(new)
        if taken > rank:
            raise ShapeError(
                "a slice has too many indices",
                expected=f"at most {rank}, one for each axis",
                got=str(taken),
                hint="drop the indices of axes that are not there; hr.expand_dims adds an axis",
            )
        entries: list[SliceEntry] = []
        axis = 0
        for index in range(count):
            if index in ellipses:
                entries += [SliceEntry(axis + offset) for offset in range(rank - taken)]
                axis += rank - taken
            elif index in new:
                entries.append(SliceEntry(None))
            else:
                entries.append(self._entry(axis, index))
                axis += 1
        return entries + [SliceEntry(rest) for rest in range(axis, rank)]

    def _entry(self, axis: int, index: int) -> SliceEntry:
        bits = (mask >> index & 1 == 1 for mask in (self.shrink_axis, self.begin, self.end))
        return SliceEntry(axis, index, *bits)


def entry_index(
    entry: SliceEntry,
    begin: Sequence[int | None],
    end: Sequence[int | None],
    strides: Sequence[int | None],
    size: int | None,
) -> int | slice | None:
    """One part of a NumPy index; None where something that decides it is not known.

    Raises:
      ShapeError: the stride is zero, or a single element is out of range.
    """
    position = entry.position
    if position is None:
        return slice(None)
    first, last, step = begin[position], end[position], strides[position]
    if step == 0:
        raise ShapeError(
            "a stride is zero",
            expected="strides != 0",
            got=f"strides {list(strides)}",
            hint="leave the step out to take every element; hr.repeat repeats one",
        )
    if entry.single:
        if step is not None and step < 0:
            raise ShapeError(
                "a single index needs a positive stride",
                expected="stride 1",
                got=str(step),
                hint="clear the bit in shrink_axis_mask to go backwards from it",
            )
        if first is not None and size is not None and not -size <= first < size:
            raise ShapeError(
                f"an index is out of range along axis {entry.axis}",
                expected=f"{-size} <= index < {size}",
                got=str(first),
                hint="check it against hr.shape(x), or slice with x[i : i + 1], which may be empty",
            )
        return first
    if step is None or (first is None and not entry.from_start) or (last is None and not entry.to_end):
        return None
    return slice(None if entry.from_start else first, None if entry.to_end else last, step)


def numpy_index(masks: SliceMasks, shape: Sequence[int], begin: Array, end: Array, strides: Array) -> tuple[Any, ...]:
    """The NumPy index that takes what a `StridedSlice` takes from a tensor of `shape`.

    Raises:
      ShapeError: as `SliceMasks.entries` and `entry_index`.
    """
    lists = [[int(value) for value in values] for values in (begin, end, strides)]
    entries = masks.entries(len(lists[0]), len(shape))
    index = [
        np.newaxis if entry.axis is None else entry_index(entry, lists[0], lists[1], lists[2], shape[entry.axis])
        for entry in entries
    ]
    return (*index, ...)


def check_bounds(shapes: Sequence[Shape]) -> int | None:
    """The common length of begin, end and strides, or None where it is not known.

    Raises:
      ShapeError: they are not vectors of one length.
    """
    merged = Shape([None])
    for shape in shapes:
        if not merged.is_compatible_with(shape):
            raise ShapeError(
                "begin, end and strides must be vectors of one length",
                expected="shape [n] each",
                got=" and ".join(str(item) for item in shapes),
                hint="fill the short ones up; a bit in begin_mask or end_mask leaves that bound open",
            )
        merged = merged.merge(shape)
    return merged[0]


_MASKS = {
    "begin_mask": attr.int(0),
    "end_mask": attr.int(0),
    "ellipsis_mask": attr.int(0),
    "new_axis_mask": attr.int(0),
    "shrink_axis_mask": attr.int(0),
}


@register_op(
    "StridedSlice",
    inputs={"input": "T", "begin": "Index", "end": "Index", "strides": "Index"},
    outputs={"output": "T"},
    attrs={"Index": attr.type(types.int16, types.int32, types.int64), **_MASKS},
)
def _strided_slice_shape(op: InferenceContext) -> list[Shape]:
    """Every strides[i]-th element from begin[i] to before end[i] along each axis i, as Python's slices take them."""
    return [_sliced_shape(op, op.inputs[0].shape, first=1)]


def _sliced_shape(op: InferenceContext, shape: Shape, first: int) -> Shape:
    """The shape of a strided slice of a tensor of `shape`; begin, end and strides are the inputs from `first` on."""
    count = check_bounds([spec.shape for spec in op.inputs[first : first + 3]])
    if count is None or shape.dims is None:
        return Shape()
    begin, end, strides = (_known_bounds(op, first + offset, count) for offset in range(3))
    sizes: list[int | None] = []
    for entry in SliceMasks.of(op).entries(count, len(shape.dims)):
        if entry.axis is None:
            sizes.append(1)
            continue
        size = shape.dims[entry.axis]
        index = entry_index(entry, begin, end, strides, size)
        if entry.position is None:
            sizes.append(size)
        elif not entry.single:
            sizes.append(len(range(*index.indices(size))) if isinstance(index, slice) and size is not None else None)
    return Shape(sizes)


def _known_bounds(op: InferenceContext, index: int, count: int) -> Sequence[int | None]:
    """What is known of a vector of bounds; of one known in part, only the non-negative elements are."""
    values = op.constant(index)
    if values is not None:
        return [int(value) for value in values]
    partial = op.constant_shape(index).dims
    return [None] * count if partial is None else partial


@register_op(
    "StridedSliceGrad",
    inputs={"shape": "Index", "begin": "Index", "end": "Index", "strides": "Index", "dy": "T"},
    outputs={"output": "T"},
    attrs={"Index": attr.type(types.int32, types.int64), **_MASKS},
)
def _strided_slice_grad_shape(op: InferenceContext) -> list[Shape]:
    """Zeros of `shape` with `dy` where `StridedSlice` would have taken its elements."""
    shape = op.constant_shape(0)
    taken = _sliced_shape(op, shape, first=1)
    check_slice_gradient(taken, op.inputs[4].shape)
    return [shape]


def check_slice_gradient(taken: Shape, given: Shape) -> None:
    """Raise ShapeError unless the gradient has the shape of the slice."""
    if not taken.is_compatible_with(given):
        raise ShapeError(
            "dy does not fit the slice",
            expected=str(taken),
            got=str(given),
            hint="give begin, end, strides and masks as they were for the slice whose gradient dy is",
        )
