"""NumPy kernels that arrange the same elements in another shape or order of axes."""

from __future__ import annotations

import numpy as np

from headrace.errors import ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.reshaping import check_broadcast, checked_multiples, permuted_axes, reduction_axes, squeezed_axes
from headrace.ops.shapes import checked_sizes, normalize_axis, reshaped, scalar_of
from headrace.types import Array, Shape, broadcast_shapes


@register_kernel("Reshape", aliases=[0])
def _reshape(op: OpContext, tensor: Array, shape: Array) -> Array:
    tensor, sizes = np.asarray(tensor), np.asarray(shape)
    if sizes.ndim > 1:
        raise ShapeError("a shape must be a vector", expected="shape [rank]", got=str(list(sizes.shape)))
    return tensor.reshape(reshaped(tensor.shape, sizes.reshape(-1).tolist()))


@register_kernel("ExpandDims", aliases=[0])
def _expand_dims(op: OpContext, x: Array, dim: Array) -> Array:
    x = np.asarray(x)
    axis = normalize_axis(scalar_of(dim, "axis"), x.ndim + 1)
    return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@register_kernel("Squeeze", aliases=[0])
def _squeeze(op: OpContext, x: Array) -> Array:
    x = np.asarray(x)
    removed = squeezed_axes(x.shape, op.attr("squeeze_dims"))
    return x.reshape(tuple(size for axis, size in enumerate(x.shape) if axis not in removed))


@register_kernel("Transpose", aliases=[0])
def _transpose(op: OpContext, x: Array, perm: Array) -> Array:
    x = np.asarray(x)
    return x.transpose(permuted_axes(perm, x.ndim))


@register_kernel("BroadcastTo", aliases=[0])
def _broadcast_to(op: OpContext, x: Array, shape: Array) -> Array:
    x, sizes = np.asarray(x), checked_sizes(shape)
    check_broadcast(Shape(x.shape), sizes)
    return np.broadcast_to(x, sizes)


@register_kernel("BroadcastGradientArgs")
def _broadcast_gradient_args(op: OpContext, s0: Array, s1: Array) -> tuple[Array, Array]:
    dtype = op.attr("T").array_type
    first, second = reduction_axes(checked_sizes(s0), checked_sizes(s1))
    return np.array(first, dtype), np.array(second, dtype)


@register_kernel("BroadcastArgs")
def _broadcast_args(op: OpContext, s0: Array, s1: Array) -> Array:
    shape = broadcast_shapes(Shape(checked_sizes(s0)), Shape(checked_sizes(s1)))
    return np.array(shape.as_tuple(), op.attr("T").array_type)


@register_kernel("Tile")
def _tile(op: OpContext, x: Array, multiples: Array) -> Array:
    x = np.asarray(x)
    counts = checked_multiples(multiples, x.ndim)
    checked_sizes([size * count for size, count in zip(x.shape, counts, strict=True)])
    return np.tile(x, counts)
