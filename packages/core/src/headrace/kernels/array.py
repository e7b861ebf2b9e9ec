"""NumPy kernels that create tensors and tell about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.array import lin_space_length, one_hot_axis, one_hot_depth, range_length
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, string


@register_kernel("PlaceholderWithDefault", aliases=[0])
def _placeholder_with_default(op: OpContext, default: Array) -> Array:
    return default


@register_kernel("Shape")
def _shape(op: OpContext, x: Array) -> Array:
    return np.array(np.shape(x), op.attr("out_type").array_type)


@register_kernel("ShapeN")
def _shape_n(op: OpContext, inputs: list[Array]) -> list[Array]:
    return [np.array(np.shape(x), op.attr("out_type").array_type) for x in inputs]


@register_kernel("Size")
def _size(op: OpContext, x: Array) -> Array:
    return np.array(np.asarray(x).size, op.attr("out_type").array_type)


@register_kernel("Rank")
def _rank(op: OpContext, x: Array) -> Array:
    return np.array(np.asarray(x).ndim, np.int32)


@register_kernel("Fill", takes_out=True)
def _fill(op: OpContext, dims: Array, value: Array, out: Array | None = None) -> Array:
    sizes = checked_sizes(dims)
    if out is None:
        out = np.empty(sizes, np.asarray(value).dtype)
    out[...] = value
    return out


@register_kernel("ZerosLike", takes_out=True)
def _zeros_like(op: OpContext, x: Array, out: Array | None = None) -> Array:
    if out is None:
        empty = b"" if op.attr("T") is string else 0
        return np.full(np.shape(x), empty, np.asarray(x).dtype)
    out.fill(0)
    return out


@register_kernel("OnesLike", takes_out=True)
def _ones_like(op: OpContext, x: Array, out: Array | None = None) -> Array:
    if out is None:
        return np.ones(np.shape(x), np.asarray(x).dtype)
    out.fill(1)
    return out


@register_kernel("Range")
def _range(op: OpContext, start: Array, limit: Array, delta: Array) -> Array:
    """Integers are exact. Floats are start + i * delta, each rounded once: adding delta again and again would drift."""
    dtype = op.attr("Tidx")
    count = range_length(start, limit, delta)
    checked_sizes([count])
    if dtype.is_integer:
        return _integer_range(int(np.asarray(start).item()), int(np.asarray(delta).item()), count).astype(
            dtype.array_type
        )
    first, step = (np.asarray(value).astype(np.float64).reshape(()) for value in (start, delta))
    return (first + step * np.arange(count)).astype(dtype.array_type)


def _integer_range(first: int, step: int, count: int) -> Any:
    """In Python integers where some number on the way does not fit int64."""
    last = first + step * max(count - 1, 0)
    fits = all(-(2**63) <= number < 2**63 for number in (first, step, last, last - first))
    return first + step * np.arange(count, dtype=np.int64 if fits else object)


@register_kernel("LinSpace")
def _lin_space(op: OpContext, start: Array, stop: Array, num: Array) -> Array:
    count = lin_space_length(num)
    first, last = (np.asarray(value).astype(np.float64).reshape(()) for value in (start, stop))
    return np.linspace(first, last, count).astype(op.attr("T").array_type)


@register_kernel("OneHot", takes_out=True)
def _one_hot(
    op: OpContext, indices: Array, depth: Array, on_value: Array, off_value: Array, out: Array | None = None
) -> Array:
    indices = np.asarray(indices)
    count = one_hot_depth(depth)
    axis = one_hot_axis(op.attr("axis"), indices.ndim)
    shape = checked_sizes((*indices.shape[:axis], count, *indices.shape[axis:]))
    classes = np.arange(count).reshape((count,) + (1,) * (indices.ndim - axis))
    if out is None:
        out = np.empty(shape, np.asarray(on_value).dtype)
    out[...] = off_value
    np.copyto(out, on_value, where=np.expand_dims(indices, axis) == classes)
    return out
