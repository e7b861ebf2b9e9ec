"""NumPy kernels of the reduction family.

Sums of floats are blocked: rounding errors then grow with the logarithm of the number of terms instead of the number
itself. NumPy does this along the last axis only; along others it adds row after row, which loses digits in float32 after a
few thousand rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.reduction import normalize_axes, normalize_axis
from headrace.types import Array, bfloat16, float16

BLOCK = 64
"""Rows that are added one after the other; then the sums of the blocks are added in the same way."""
SMALL = 1024
"""Elements below which a sum is short enough for row after row."""

_INTEGERS = {"T": attr.integers.allowed or ()}
_NARROW = (float16.array_type, bfloat16.array_type)


def axes_from(axis: Array, rank: int) -> tuple[int, ...]:
    """The axes that an operation was given, checked and counted from the first."""
    return normalize_axes(np.asarray(axis).reshape(-1).tolist(), rank)


def _in_order(x: Array) -> Array:
    """x in C order: NumPy visits a reversed or transposed view in the order of memory, which would change the rounding."""
    return np.asarray(x, order="C")


def _reduced(x: Array, axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes)


def blocked_sum(x: Array, axes: tuple[int, ...], keep: bool, out: Array | None = None) -> Array:
    """The sum of `x` along axes in x's own dtype, accurate also along axes that are not the last."""
    x = _in_order(x)
    if x.size <= SMALL or x.dtype.kind not in "fc":
        return np.add.reduce(x, axis=axes, dtype=x.dtype, out=out, keepdims=keep)
    result = np.empty(_reduced(x, axes, keep), x.dtype) if out is None else out
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    if axes == tuple(range(len(axes))):
        _sum_rows(x.reshape(-1, result.size), result.reshape(-1))
    else:
        columns = x.transpose(kept + axes).reshape(result.size, -1)
        np.add.reduce(columns, axis=1, out=result.reshape(-1))
    return result


def _sum_rows(rows: Array, out: Array) -> None:
    """Write the sum of the rows of `[n, m]` to `out`, `[m]`."""
    while len(rows) > 2 * BLOCK:
        whole = len(rows) // BLOCK * BLOCK
        sums = np.add.reduce(rows[:whole].reshape(-1, BLOCK, rows.shape[1]), axis=1)
        rest = rows[whole:]
        rows = np.concatenate([sums, np.add.reduce(rest, axis=0, keepdims=True)]) if len(rest) else sums
    np.add.reduce(rows, axis=0, out=out)


@register_kernel("Sum", takes_out=True)
def _sum(op: OpContext, x: Array, axis: Array, out: Array | None = None) -> Array:
    x = np.asarray(x)
    return blocked_sum(x, axes_from(axis, x.ndim), op.attr("keep_dims"), out)


@register_kernel("Sum", dtypes={"T": [float16, bfloat16]})
def _narrow_sum(op: OpContext, x: Array, axis: Array) -> Array:
    x = np.asarray(x)
    total = blocked_sum(x.astype(np.float32), axes_from(axis, x.ndim), op.attr("keep_dims"))
    return np.asarray(total).astype(x.dtype)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return count


@register_kernel("Mean", takes_out=True)
def _mean(op: OpContext, x: Array, axis: Array, out: Array | None = None) -> Array:
    x = np.asarray(x)
    axes = axes_from(axis, x.ndim)
    total = blocked_sum(x, axes, op.attr("keep_dims"), out)
    return np.divide(total, x.dtype.type(_count(x, axes)), out=out)


@register_kernel("Mean", dtypes={"T": [float16, bfloat16]})
def _narrow_mean(op: OpContext, x: Array, axis: Array) -> Array:
    x = np.asarray(x)
    axes = axes_from(axis, x.ndim)
    total = blocked_sum(x.astype(np.float32), axes, op.attr("keep_dims"))
    return np.asarray(total / np.float32(_count(x, axes))).astype(x.dtype)
