"""NumPy kernels of the segment family: rows are sorted by segment, then each run of equal ids is reduced at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, OutOfRangeError
from headrace.interfaces import OpContext
from headrace.kernels.reduction import highest_finite, lowest_finite
from headrace.kernels.registry import register_kernel
from headrace.types import Array, bfloat16, float16

_NARROW = (float16.array_type, bfloat16.array_type)
_MOST_SEGMENTS = 1 << 40
"""Rows of a result; a greater id is a damaged one."""
Filler = Callable[[np.dtype[Any]], Any]


def reduce_segments(ufunc: np.ufunc, data: Array, ids: Array, count: int, empty: Any) -> Array:
    """Reduce the rows of `[n, ...]` that carry the same id; rows with a negative id are left out.

    Args:
      ufunc: the reduction.
      data: the rows; narrow floats are reduced in float32.
      ids: `[n]`, below `count`.
      count: the number of segments.
      empty: what a segment without rows gets.
    Returns:
      `[count, ...]` of data's dtype. Rows of one segment are taken in their order, so the rounding is always the same.
    """
    result = np.full((count, *data.shape[1:]), empty, data.dtype)
    order = np.argsort(ids, kind="stable")
    order = order[np.searchsorted(ids[order], 0) :]
    if not order.size or not result.size:
        return result
    sorted_ids = ids[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_ids[1:] != sorted_ids[:-1]]))
    wide = np.dtype(np.float32) if data.dtype in _NARROW else data.dtype
    lengths = np.diff(starts, append=len(order))
    alone = lengths == 1
    result[sorted_ids[starts[alone]]] = data[order[starts[alone]]]  # reduceat takes as long for one row as for many
    if not alone.all():
        several, lengths = np.repeat(~alone, lengths), lengths[~alone]
        reduced = ufunc.reduceat(data[order[several]], np.cumsum(lengths) - lengths, axis=0, dtype=wide)
        result[sorted_ids[starts[~alone]]] = reduced
    return result


def _zero(dtype: np.dtype[Any]) -> Any:
    return 0


def _one(dtype: np.dtype[Any]) -> Any:
    return 1


def _check_sorted(ids: Array) -> int:
    """The number of segments; raises unless the ids ascend from 0 on."""
    if not ids.size:
        return 0
    if int(ids[0]) < 0:
        raise InvalidArgumentError(
            "a segment id is negative",
            expected="ids >= 0",
            got=str(int(ids[0])),
            hint="leave the row out with hr.boolean_mask; hr.unsorted_segment_sum skips rows of negative ids",
        )
    if np.any(np.less(ids[1:], ids[:-1])):
        raise InvalidArgumentError(
            "the segment ids are not in order",
            expected="ids that do not descend",
            got=f"{ids[:8].tolist()}",
            hint="hr.unsorted_segment_sum takes them in any order",
        )
    if int(ids[-1]) >= _MOST_SEGMENTS:
        raise InvalidArgumentError(
            "a segment id is too large",
            expected=f"ids below {_MOST_SEGMENTS}",
            got=str(int(ids[-1])),
            hint="every id up to the last has a row in the result; number the segments from 0",
        )
    return int(ids[-1]) + 1


def _register_segment(op_type: str, ufunc: np.ufunc, empty: Filler) -> None:
    def kernel(op: OpContext, data: Array, segment_ids: Array) -> Array:
        count = _check_sorted(segment_ids)
        return reduce_segments(ufunc, data, segment_ids, count, empty(data.dtype))

    register_kernel(op_type, copies=[0])(kernel)


_register_segment("SegmentSum", np.add, _zero)
_register_segment("SegmentProd", np.multiply, _one)
_register_segment("SegmentMax", np.maximum, _zero)
_register_segment("SegmentMin", np.minimum, _zero)


def _segment_means(data: Array, ids: Array, count: int, *, root: bool = False) -> Array:
    """0 for segments without rows; integers are rounded towards zero. `root` divides by the root of the number."""
    wide = data.astype(np.float32) if data.dtype in _NARROW else data
    totals: Any = reduce_segments(np.add, wide, ids, count, 0)
    counts = np.maximum(np.bincount(ids, minlength=count), 1).astype(wide.dtype)
    counts = np.sqrt(counts) if root else counts
    divisors = counts.reshape(-1, *[1] * (data.ndim - 1))
    if data.dtype.kind in "iu":
        means = np.where(totals < 0, -(-totals // divisors), totals // divisors)
    else:
        means = totals / divisors
    return np.asarray(means).astype(data.dtype)


@register_kernel("SegmentMean")
def _segment_mean(op: OpContext, data: Array, segment_ids: Array) -> Array:
    return _segment_means(data, segment_ids, _check_sorted(segment_ids))


def _register_unsorted(op_type: str, ufunc: np.ufunc, empty: Filler) -> None:
    def kernel(op: OpContext, data: Array, segment_ids: Array, num_segments: Array) -> Array:
        data, ids, count = np.asarray(data), np.asarray(segment_ids), int(num_segments)
        if count < 0:
            raise InvalidArgumentError(
                "num_segments is negative",
                expected=">= 0",
                got=str(count),
                hint="hr.max(segment_ids) + 1 is the least that holds all of them",
            )
        if ids.size and int(ids.max()) >= count:
            raise OutOfRangeError(
                "a segment id is out of range",
                expected=f"id < {count}",
                got=str(int(ids.max())),
                hint="raise num_segments to hr.max(segment_ids) + 1; rows of id -1 are left out",
            )
        rows = data.reshape(ids.size, *data.shape[ids.ndim :])
        return reduce_segments(ufunc, rows, ids.reshape(-1), count, empty(data.dtype))

    register_kernel(op_type, copies=[0])(kernel)


_register_unsorted("UnsortedSegmentSum", np.add, _zero)
_register_unsorted("UnsortedSegmentProd", np.multiply, _one)
_register_unsorted("UnsortedSegmentMax", np.maximum, lowest_finite)
_register_unsorted("UnsortedSegmentMin", np.minimum, highest_finite)


def _rows_at(data: Array, indices: Array) -> Array:
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= len(data)):
        wrong = indices[np.less(indices, 0) | np.greater_equal(indices, len(data))]
        raise OutOfRangeError(
            "an index is out of range",
            expected=f"0 <= index < {len(data)}",
            got=str(int(wrong[0])),
            hint="count the rows of data from 0; -1 is not the last row",
        )
    return data[indices]


@register_kernel("SparseSegmentSum")
def _sparse_segment_sum(op: OpContext, data: Array, indices: Array, segment_ids: Array) -> Array:
    count = _check_sorted(segment_ids)
    return reduce_segments(np.add, _rows_at(data, indices), segment_ids, count, 0)


@register_kernel("SparseSegmentMean")
def _sparse_segment_mean(op: OpContext, data: Array, indices: Array, segment_ids: Array) -> Array:
    count = _check_sorted(segment_ids)
    return _segment_means(_rows_at(data, indices), segment_ids, count)


@register_kernel("SparseSegmentSqrtN")
def _sparse_segment_sqrt_n(op: OpContext, data: Array, indices: Array, segment_ids: Array) -> Array:
    count = _check_sorted(segment_ids)
    return _segment_means(_rows_at(data, indices), segment_ids, count, root=True)
