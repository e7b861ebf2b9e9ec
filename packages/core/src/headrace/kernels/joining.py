"""NumPy kernels that join tensors and split them."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.joining import concatenated, equal_part, part_sizes, unpacked_axis
from headrace.ops.shapes import checked_sizes, normalize_axis, scalar_of
from headrace.types import Array, Shape


@register_kernel("ConcatV2", takes_out=True)
def _concat(op: OpContext, values: list[Array], axis: Array, out: Array | None = None) -> Array:
    arrays: list[Any] = [np.asarray(value) for value in values]
    number = normalize_axis(scalar_of(axis, "axis"), arrays[0].ndim)
    try:
        return np.concatenate(arrays, number, out)
    except ValueError:
        concatenated([Shape(array.shape).with_rank(arrays[0].ndim) for array in arrays], number)
        raise


@register_kernel("ConcatOffset")
def _concat_offset(op: OpContext, concat_dim: Array, shapes: list[Array]) -> list[Array]:
    sizes = [checked_sizes(shape) for shape in shapes]
    axis = normalize_axis(scalar_of(concat_dim, "axis"), len(sizes[0]))
    concatenated([Shape(size).with_rank(len(sizes[0])) for size in sizes], axis)
    dtype = op.attr("shape_type").array_type
    if sum(size[axis] for size in sizes) > np.iinfo(dtype).max:
        raise ShapeError(
            "the concatenation is too long",
            expected=f"offsets that fit {dtype}",
            got=str(sizes),
            hint="join fewer tensors, or pass the shapes in hr.int64",
        )
    offsets, start = [], 0
    for size in sizes:
        offset = np.zeros(len(size), dtype)
        offset[axis] = start
        offsets.append(offset)
        start += size[axis]
    return offsets


@register_kernel("Split", aliases=[1])
def _split(op: OpContext, split_dim: Array, value: Array) -> list[Array]:
    value = np.asarray(value)
    axis = normalize_axis(scalar_of(split_dim, "axis"), value.ndim)
    count = op.attr("num_split")
    part = equal_part(value.shape[axis], count) or 0
    return _parts(value, axis, [part] * count)


@register_kernel("SplitV", aliases=[0])
def _split_v(op: OpContext, value: Array, size_splits: Array, split_dim: Array) -> list[Array]:
    value = np.asarray(value)
    axis = normalize_axis(scalar_of(split_dim, "axis"), value.ndim)
    return _parts(value, axis, [size or 0 for size in part_sizes(size_splits, value.shape[axis], op.attr("num_split"))])


def _parts(value: Array, axis: int, sizes: list[int]) -> list[Array]:
    lead = (slice(None),) * axis
    result, start = [], 0
    for size in sizes:
        result.append(value[(*lead, slice(start, start + size))])
        start += size
    return result


@register_kernel("Pack", takes_out=True)
def _pack(op: OpContext, values: list[Array], out: Array | None = None) -> Array:
    arrays: list[Any] = [np.asarray(value) for value in values]
    return np.stack(arrays, normalize_axis(op.attr("axis"), arrays[0].ndim + 1), out)


@register_kernel("Unpack", aliases=[0])
def _unpack(op: OpContext, value: Array) -> list[Array]:
    value = np.asarray(value)
    moved = np.moveaxis(value, unpacked_axis(value.shape, op.attr("axis"), op.attr("num")), 0)
    return [moved[index, ...] for index in range(op.attr("num"))]
