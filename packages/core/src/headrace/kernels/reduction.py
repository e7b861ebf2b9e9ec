"""NumPy kernels of the reduction family.

Sums of floats are blocked: rounding errors then grow with the logarithm of the number of terms instead of the number
itself. NumPy does this along the last axis only; along others it adds row after row, which in float32 loses digits
after a few thousand rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.interfaces import OpContext
from headrace.kernels.memo import memoized
from headrace.kernels.registry import register_kernel
from headrace.ops.reduction import normalize_axes, normalize_axis
from headrace.types import Array, bfloat16, complex64, complex128, float16, float64, uint64

__all__ = ["blocked_sum", "highest_finite", "lowest", "lowest_finite"]

BLOCK = 64
"""Rows that are added one after the other; then the sums of the blocks are added in the same way."""
SMALL = 1024
"""Elements below which a sum is short enough for row after row."""

NARROW_ROWS = 16
"""Row lengths up to which it is quicker to turn rows into columns first: 0.2 ms instead of 2 for 200,000 rows of 3."""

_INTEGERS = attr.integers.allowed or ()
_NARROW = (float16, bfloat16)


def axes_from(axis: Array, rank: int) -> tuple[int, ...]:
    """The axes that an operation was given, checked and counted from the first."""
    axes: tuple[int, ...] = memoized(normalize_axes, np.asarray(axis).reshape(-1), rank)
    return axes


def _reduced(x: Array, axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes)


def blocked_sum(x: Array, axes: tuple[int, ...], keep: bool, out: Any = None) -> Any:
    """The sum of `x` along axes in x's own dtype, accurate also along axes that are not the last.

    x is taken in C order first: NumPy visits a reversed or transposed view in the order of memory, which would make the
    rounding depend on it.
    """
    x = np.asarray(x, order="C")
    if not axes:
        return np.positive(x, out=out)  # added to nothing, -0.0 stays; NumPy starts from 0.0
    if x.size <= SMALL or x.dtype.kind not in "fc":
        return np.add.reduce(x, axis=axes, dtype=x.dtype, out=out, keepdims=keep)
    result = np.empty(_reduced(x, axes, keep), x.dtype) if out is None else out
    if axes == tuple(range(len(axes))):
        _sum_rows(x.reshape(-1, result.size), result.reshape(-1))
    else:
        kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
        columns = np.ascontiguousarray(x.transpose(kept + axes).reshape(result.size, -1))
        np.add.reduce(columns, axis=1, out=result.reshape(-1))
    return result


def _sum_rows(rows: Array, out: Array) -> None:
    """Write the sum of the rows of `[n, m]` to `out`, `[m]`."""
    if rows.shape[1] <= NARROW_ROWS:
        np.add.reduce(np.ascontiguousarray(rows.T), axis=1, out=out)
        return
    while len(rows) > 2 * BLOCK:
        whole = len(rows) // BLOCK * BLOCK
        sums = np.add.reduce(rows[:whole].reshape(-1, BLOCK, rows.shape[1]), axis=1)
        rest = rows[whole:]
        rows = np.concatenate([sums, np.add.reduce(rest, axis=0, keepdims=True)]) if len(rest) else sums
    np.add.reduce(rows, axis=0, out=out)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


@register_kernel("Sum", takes_out=True)
def _sum(op: OpContext, x: Array, axis: Array, out: Any = None) -> Any:
    return blocked_sum(x, axes_from(axis, np.ndim(x)), op.attr("keep_dims"), out)


@register_kernel("Sum", dtypes={"T": _NARROW})
def _narrow_sum(op: OpContext, x: Array, axis: Array) -> Array:
    """In float32, rounded once at the end: adding 1 to 2048 in float16 changes nothing."""
    total = blocked_sum(x.astype(np.float32), axes_from(axis, np.ndim(x)), op.attr("keep_dims"))
    return np.asarray(total).astype(x.dtype)


@register_kernel("Mean", takes_out=True)
def _mean(op: OpContext, x: Array, axis: Array, out: Any = None) -> Any:
    axes = axes_from(axis, np.ndim(x))
    total = blocked_sum(x, axes, op.attr("keep_dims"), out)
    return np.divide(total, x.dtype.type(_count(x, axes)), out=out) if axes else total


@register_kernel("Mean", dtypes={"T": _NARROW})
def _narrow_mean(op: OpContext, x: Array, axis: Array) -> Array:
    axes = axes_from(axis, np.ndim(x))
    total = blocked_sum(x.astype(np.float32), axes, op.attr("keep_dims"))
    return np.asarray(np.divide(total, np.float32(_count(x, axes)))).astype(x.dtype)


@register_kernel("Mean", dtypes={"T": _INTEGERS})
def _integer_mean(op: OpContext, x: Array, axis: Array) -> Array:
    """Added up in 64 bits, so that narrow integers do not overflow, and rounded towards zero; 0 of no elements."""
    axes = axes_from(axis, np.ndim(x))
    wide = np.uint64 if x.dtype == uint64.array_type else np.int64
    total: Any = np.add.reduce(x, axis=axes, dtype=wide, keepdims=op.attr("keep_dims"))
    count = wide(max(_count(x, axes), 1))
    quotient = np.where(np.less(total, 0), -(-total // count), total // count) if wide is np.int64 else total // count
    return np.asarray(quotient).astype(x.dtype)


@register_kernel("Prod", takes_out=True)
def _prod(op: OpContext, x: Array, axis: Array, out: Any = None) -> Any:
    x = np.asarray(x, order="C")
    axes = axes_from(axis, x.ndim)
    if not axes:
        return np.positive(x, out=out)  # a complex -0.0 would not outlive the multiplication by 1
    return np.multiply.reduce(x, axis=axes, dtype=x.dtype, out=out, keepdims=op.attr("keep_dims"))


@register_kernel("Prod", dtypes={"T": _NARROW})
def _narrow_prod(op: OpContext, x: Array, axis: Array) -> Array:
    wide = np.asarray(x, np.float32, order="C")
    product = np.multiply.reduce(wide, axis=axes_from(axis, wide.ndim), keepdims=op.attr("keep_dims"))
    return np.asarray(product).astype(x.dtype)


def lowest(dtype: np.dtype[Any]) -> Any:
    """What `Max` gives where there is nothing to compare: minus infinity, or the lowest integer."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def highest(dtype: np.dtype[Any]) -> Any:
    """What `Min` gives where there is nothing to compare: infinity, or the highest integer."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)


def lowest_finite(dtype: np.dtype[Any]) -> Any:
    """The lowest finite number: what TensorFlow starts some searches from, in place of minus infinity."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]


def highest_finite(dtype: np.dtype[Any]) -> Any:
    """The highest finite number."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else ml_dtypes.finfo(dtype).max  # type: ignore[no-untyped-call]


def _register_extreme(op_type: str, ufunc: np.ufunc, empty: Callable[[np.dtype[Any]], Any]) -> None:
    def kernel(op: OpContext, x: Array, axis: Array, out: Any = None) -> Any:
        axes = axes_from(axis, np.ndim(x))
        if _count(x, axes):
            return ufunc.reduce(x, axis=axes, out=out, keepdims=op.attr("keep_dims"))
        return ufunc.reduce(x, axis=axes, out=out, keepdims=op.attr("keep_dims"), initial=empty(x.dtype))

    register_kernel(op_type, takes_out=True)(kernel)


_register_extreme("Max", np.maximum, lowest)
_register_extreme("Min", np.minimum, highest)


def _register_logical(op_type: str, ufunc: np.ufunc) -> None:
    def kernel(op: OpContext, x: Array, axis: Array, out: Any = None) -> Any:
        return ufunc.reduce(x, axis=axes_from(axis, np.ndim(x)), out=out, keepdims=op.attr("keep_dims"))

    register_kernel(op_type, takes_out=True)(kernel)


_register_logical("Any", np.logical_or)
_register_logical("All", np.logical_and)


@register_kernel("EuclideanNorm")
def _euclidean_norm(op: OpContext, x: Array, axis: Array) -> Array:
    """In float64, where the squares of narrower numbers neither overflow nor vanish."""
    axes = axes_from(axis, np.ndim(x))
    wide = np.asarray(x, np.float64)
    total = blocked_sum(np.square(wide), axes, op.attr("keep_dims"))
    return np.asarray(np.sqrt(total)).astype(x.dtype)


@register_kernel("EuclideanNorm", dtypes={"T": [float64, complex64, complex128]})
def _scaled_norm(op: OpContext, x: Array, axis: Array) -> Array:
    """The largest element is taken out first, so that the squares neither overflow nor vanish."""
    axes = axes_from(axis, np.ndim(x))
    size: Any = np.abs(x).astype(np.float64)
    scale = np.maximum.reduce(size, axis=axes, keepdims=True, initial=0.0)
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)
    total = blocked_sum(np.square(size / scale), axes, True)
    norm = np.sqrt(total) * scale
    return np.asarray(norm if op.attr("keep_dims") else np.squeeze(norm, axes)).astype(x.dtype)


def _register_position(op_type: str, find: Callable[..., Any], ignored: Callable[[np.dtype[Any]], Any]) -> None:
    """NaN is replaced by the value that is never chosen, so the answer does not depend on where it stands."""

    def kernel(op: OpContext, x: Array, dimension: Array) -> Array:
        axis = normalize_axis(int(dimension), np.ndim(x))
        if np.shape(x)[axis] == 0:
            raise InvalidArgumentError(
                f"{op.type} along an empty axis has no answer",
                expected=f"a size >= 1 of axis {axis}",
                got=f"{list(x.shape)}",
                hint="hr.concat a value to the axis first, or skip an empty batch",
            )
        values = np.where(np.isnan(x), ignored(x.dtype), x) if op.inputs[0].dtype.is_floating else x
        return np.asarray(find(values, axis=axis)).astype(op.attr("output_type").array_type)

    register_kernel(op_type)(kernel)


_register_position("ArgMax", np.argmax, lowest)
_register_position("ArgMin", np.argmin, highest)
