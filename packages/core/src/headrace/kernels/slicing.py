"""NumPy kernels that take slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.memo import memoized
from headrace.kernels.registry import register_kernel
from headrace.ops.shapes import checked_sizes
from headrace.ops.slicing import SliceMasks, check_slice_gradient, numpy_index, slice_vector, sliced_size
from headrace.types import Array, Shape, string


@register_kernel("Slice", aliases=[0])
def _slice(op: OpContext, x: Array, begin: Array, size: Array) -> Array:
    x = np.asarray(x)
    index = memoized(_slice_index, x.shape, begin, size)
    return np.asarray(x[index])


def _slice_index(shape: Sequence[int], begin: Array, size: Array) -> Any:
    starts, counts = slice_vector(begin, len(shape), "begin"), slice_vector(size, len(shape), "size")
    index: list[Any] = []
    for axis, (start, count) in enumerate(zip(starts, counts, strict=True)):
        taken = sliced_size(axis, shape[axis], start, count)
        index.append(slice(start, start + (taken or 0)))
    return (*index, ...)


@register_kernel("StridedSlice", aliases=[0])
def _strided_slice(op: OpContext, x: Array, begin: Array, end: Array, strides: Array) -> Array:
    x = np.asarray(x)
    index = memoized(numpy_index, SliceMasks.of(op), x.shape, begin, end, strides)
    return np.asarray(x[index])


@register_kernel("StridedSliceGrad", takes_out=True)
def _strided_slice_grad(
    op: OpContext, shape: Array, begin: Array, end: Array, strides: Array, dy: Array, out: Array | None = None
) -> Array:
    sizes = checked_sizes(shape)
    dy = np.asarray(dy)
    if out is None:
        out = np.full(sizes, b"" if op.attr("T") is string else 0, dy.dtype)
    else:
        out.fill(0)
    target = out[memoized(numpy_index, SliceMasks.of(op), sizes, begin, end, strides)]
    check_slice_gradient(Shape(target.shape), Shape(dy.shape))
    target[...] = dy
    return out
