"""NumPy kernels that arrange the same elements in another shape or order of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.memo import memoized
from headrace.kernels.registry import register_kernel
from headrace.ops.reshaping import check_broadcast, checked_multiples, permuted_axes, reduction_axes, squeezed_axes
from headrace.ops.shapes import checked_sizes, normalize_axis, reshaped, scalar_of
from headrace.types import Array, Shape, broadcast_shapes


@register_kernel("Reshape", aliases=[0], packs=[0])
def _reshape(op: OpContext, tensor: Array, shape: Array) -> Array:
    tensor = np.asarray(tensor)
    return tensor.reshape(memoized(_new_shape, tensor.shape, shape))


def _new_shape(old: Sequence[int], shape: Array) -> tuple[int, ...]:
    sizes = np.asarray(shape)
    if sizes.ndim > 1:
        raise ShapeError(
            "a shape must be a vector",
            expected="shape [rank]",
            got=str(list(sizes.shape)),
            hint="hr.reshape the shape itself to [-1]",
        )
    return reshaped(old, [int(size) for size in sizes.reshape(-1)])


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
    return x.transpose(memoized(permuted_axes, perm, x.ndim))


@register_kernel("ConjugateTranspose", aliases=[0])
def _conjugate_transpose(op: OpContext, x: Array, perm: Array) -> Array:
    turned = _transpose(op, x, perm)
    return np.conjugate(turned) if turned.dtype.kind == "c" else turned


@register_kernel("BroadcastTo", aliases=[0])
def _broadcast_to(op: OpContext, x: Array, shape: Array) -> Array:
    x = np.asarray(x)
    return np.broadcast_to(x, memoized(_target, x.shape, shape))


def _target(given: Sequence[int], shape: Array) -> tuple[int, ...]:
    sizes = checked_sizes(shape)
    check_broadcast(Shape(given), sizes)
    return sizes


@register_kernel("BroadcastGradientArgs")
def _broadcast_gradient_args(op: OpContext, s0: Array, s1: Array) -> tuple[Array, Array]:
    dtype = op.attr("T").array_type
    first, second = memoized(_axes_to_sum, s0, s1)
    return np.array(first, dtype), np.array(second, dtype)


def _axes_to_sum(s0: Array, s1: Array) -> tuple[list[int], list[int]]:
    return reduction_axes(checked_sizes(s0), checked_sizes(s1))


@register_kernel("BroadcastArgs")
def _broadcast_args(op: OpContext, s0: Array, s1: Array) -> Array:
    shape = broadcast_shapes(Shape(checked_sizes(s0)), Shape(checked_sizes(s1)))
    return np.array(shape.as_tuple(), op.attr("T").array_type)


@register_kernel("Tile")
def _tile(op: OpContext, x: Array, multiples: Array) -> Array:
    x = np.asarray(x)
    return np.tile(x, memoized(_copies, x.shape, multiples))


def _copies(shape: Sequence[int], multiples: Array) -> tuple[int, ...]:
    counts = checked_multiples(multiples, len(shape))
    checked_sizes([size * count for size, count in zip(shape, counts, strict=True)])
    return counts
