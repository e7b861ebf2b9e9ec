"""NumPy kernels that choose elements by a condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.memo import memoized
from headrace.kernels.registry import register_kernel
from headrace.ops.selection import check_select
from headrace.types import Array, Shape, broadcast_shapes


@register_kernel("SelectV2", takes_out=True)
def _select_v2(op: OpContext, condition: Array, t: Array, e: Array, out: Array | None = None) -> Array:
    condition, t, e = np.asarray(condition), np.asarray(t), np.asarray(e)
    if out is None:
        out = np.empty(memoized(_common_shape, condition.shape, t.shape, e.shape), t.dtype)
    out[...] = e
    np.copyto(out, t, where=condition)
    return out


def _common_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    return broadcast_shapes(*map(Shape, shapes)).as_tuple()


@register_kernel("Select", takes_out=True)
def _select(op: OpContext, condition: Array, t: Array, e: Array, out: Array | None = None) -> Array:
    condition, t, e = np.asarray(condition), np.asarray(t), np.asarray(e)
    check_select(Shape(condition.shape), Shape(t.shape), Shape(e.shape))
    if condition.ndim == 1:
        condition = condition.reshape(condition.shape + (1,) * (t.ndim - 1))
    if out is None:
        out = np.empty(t.shape, t.dtype)
    out[...] = e
    np.copyto(out, t, where=condition)
    return out


@register_kernel("Where")
def _where(op: OpContext, x: Array) -> Array:
    x = np.asarray(x)
    if not x.ndim:
        return np.zeros((int(bool(x)), 0), np.int64)
    return np.argwhere(x != 0).astype(np.int64, copy=False)
