"""NumPy kernels that create tensors and tell about them."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
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
