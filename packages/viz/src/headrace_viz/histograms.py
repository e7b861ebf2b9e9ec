"""Histograms: rows of left edge, right edge and count, as TensorBoard draws them, and TensorFlow 1's form.

Counting is one pass over blocks that stay in the cache, several times as fast as `np.histogram`.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DTypeError, InvalidArgumentError
from headrace_viz.proto.event_pb2 import HistogramProto

DEFAULT_BUCKETS = 30
_MAX_BUCKETS = 1_000_000
_BLOCK = 48 * 1024
_SMALLEST_SPAN = 1e10  # times the smallest normal number: below it the factor for the place would overflow
_MANY = 8 * _BLOCK
_MAX_TRIPLED, _MAX_PAIRED = 40, 255
"""So that the counts of all codes fit into the cache."""

Floats = NDArray[np.float64]


def histogram_rows(values: Any, buckets: int = DEFAULT_BUCKETS) -> Floats:
    """Count real numbers in buckets of equal width between the smallest and the largest of them.

    An element on an edge belongs to the bucket on its right, the largest one to the last bucket. Places are computed in
    float32 for float16 and float32, else in float64, so an element as near to an edge as their rounding may count on
    either side.

    Args:
      values: real numbers of any shape, all finite.
      buckets: how many, 1 to 1,000,000.
    Returns:
      float64 `[buckets, 3]`: left edge, right edge and count; `[0, 3]` for no values. If all are equal, the last of the
      buckets, of width 1 around them in all, holds them.
    Raises:
      DTypeError: the values are no real numbers.
      InvalidArgumentError: there are NaN or infinities among them, or too few or too many buckets.

    Example:
      >>> histogram_rows([0, 1, 1, 4], buckets=2).tolist()
      [[0.0, 2.0, 3.0], [2.0, 4.0, 1.0]]
    """
    if not 1 <= buckets <= _MAX_BUCKETS:
        raise InvalidArgumentError(
            "a histogram needs buckets", expected=f"1 to {_MAX_BUCKETS:,}", got=str(buckets), hint="30 are usual"
        )
    array = real_array(values).ravel()
    if not array.size:
        return np.zeros([0, 3])
    low, high = float(array.min()), float(array.max())  # NaN where any element is
    if not (np.isfinite(low) and np.isfinite(high)):
        raise not_finite(array)
    edges: Floats
    if low == high:
        edges = low - 0.5 + np.arange(buckets + 1, dtype=np.float64) / buckets
        counts = np.zeros(buckets)
        counts[-1] = array.size
    else:
        share = np.arange(buckets + 1, dtype=np.float64) / buckets
        edges = low * (1 - share) + high * share
        counts = _equal_width_counts(array, low, high, buckets)
    return np.stack([edges[:-1], edges[1:], counts], axis=1)


def counts_between(values: Any, edges: Any) -> Floats:
    """Count real numbers between given edges.

    Args:
      values: real numbers of any shape, all finite.
      edges: rising numbers `[buckets + 1]`.
    Returns:
      float64 `[buckets, 3]` as `histogram_rows`; elements outside of the edges count nowhere.
    Raises:
      HeadraceError: as `histogram_rows`.
      InvalidArgumentError: the edges do not rise, or are fewer than two.
    """
    array, limits = real_array(values).ravel(), np.asarray(edges, np.float64)
    if limits.ndim != 1 or limits.size < 2 or not (np.diff(limits) > 0).all():
        raise InvalidArgumentError(
            "the edges of a histogram cannot be used",
            expected="at least two numbers, each larger than the one before",
            got=f"{edges!r:.60}",
            hint="np.linspace(low, high, buckets + 1)",
        )
    if not np.isfinite(array).all():
        raise not_finite(array)
    counts, _ = np.histogram(array, limits)
    return np.stack([limits[:-1], limits[1:], counts.astype(np.float64)], axis=1)


def rows_of_limits(minimum: float, limits: Any, counts: Any) -> Floats:
    """Return rows for a histogram that was counted elsewhere.

    Args:
      minimum: left edge of the first bucket.
      limits: right edges `[buckets]`.
      counts: `[buckets]`.
    Returns:
      float64 `[buckets, 3]`.
    Raises:
      InvalidArgumentError: limits and counts are not equally many.
    """
    rights, numbers = np.asarray(limits, np.float64).ravel(), np.asarray(counts, np.float64).ravel()
    if rights.size != numbers.size:
        raise InvalidArgumentError(
            "a histogram needs a count for each bucket",
            expected=f"{rights.size} counts, as there are right edges",
            got=f"{numbers.size}",
            hint="bucket_limits holds the right edge of each bucket and no left one",
        )
    if not rights.size:
        return np.zeros([0, 3])
    return np.stack([np.concatenate([[min(minimum, rights[0])], rights[:-1]]), rights, numbers], axis=1)


def histogram_proto(values: Any) -> HistogramProto:
    """Count real numbers in TensorFlow 1's buckets, whose width grows by a tenth from one to the next.

    Args:
      values: real numbers of any shape, all finite.
    Returns:
      Limits are right edges; an element on one belongs to the bucket on its right. Neighbouring empty buckets are
      joined. No values: one empty bucket, and a minimum above the maximum.
    Raises:
      HeadraceError: as `histogram_rows`.
    Source: tensorflow/core/lib/histogram/histogram.cc, default buckets and EncodeToProto.
    """
    array = real_array(values).ravel().astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise not_finite(array)
    limits = _tensorflow_limits()
    found = np.bincount(np.searchsorted(limits, array, side="right"), minlength=limits.size)
    counts = found[: limits.size].astype(np.float64)
    filled = counts > 0
    last_of_run = np.append(filled[:-1] | filled[1:], True)
    largest = sys.float_info.max
    return HistogramProto(
        min=float(array.min()) if array.size else largest,
        max=float(array.max()) if array.size else -largest,
        num=array.size,
        sum=float(array.sum()),
        sum_squares=float(array @ array),
        bucket_limit=limits[last_of_run].tolist(),
        bucket=counts[last_of_run].tolist(),
    )


def real_array(values: Any) -> NDArray[Any]:
    """Return an array of real numbers; Booleans become integers, bfloat16 becomes float32.

    Raises:
      DTypeError: the values are something else.
    """
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return array.astype(np.float32)
    if array.dtype.kind not in "iuf":
        raise DTypeError(
            "a histogram needs real numbers",
            expected="an integer, floating-point or Boolean dtype",
            got=str(array.dtype),
            hint="take the parts of complex numbers apart",
        )
    return array


def not_finite(array: NDArray[Any]) -> InvalidArgumentError:
    """Return the error for values among which there are NaN or infinities."""
    nans, infinities = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    return InvalidArgumentError(
        "a histogram needs finite numbers",
        expected="no NaN and no infinity",
        got=f"{nans} NaN and {infinities} infinities among {array.size} values",
        hint="look for the step where they begin, or pass values[np.isfinite(values)]",
    )


def _equal_width_counts(array: NDArray[Any], low: float, high: float, buckets: int) -> Floats:
    work: type[np.float32 | np.float64] = (
        np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64
    )
    span, limits = high - low, np.finfo(work)
    if not _SMALLEST_SPAN * float(limits.tiny) < span < float(limits.max):  # few arrays need this slower way
        wide = array.astype(np.float64)
        above = wide / 2 - low / 2 if span > 1 else wide - low
        array, low, span, work = above / above.max(), 0.0, 1.0, np.float64
    places = buckets + 1  # the last one is for the largest value, which lies on the edge
    digits = 3 if places <= _MAX_TRIPLED and array.size >= _MANY else 2 if places <= _MAX_PAIRED else 1
    codes = np.zeros(places**digits, np.int64)
    blocks = -(-array.size // (digits * _BLOCK))
    columns = -(-array.size // (digits * blocks))  # all blocks have nearly the same size
    place, code = np.empty(digits * columns, work), np.empty(columns, np.intp)
    for start in range(0, array.size, place.size):
        block = array[start : start + place.size]
        np.subtract(block, work(low), out=place[: block.size], casting="same_kind", dtype=work)
        place[block.size :] = 0.0
        place *= work(buckets / span)
        codes += _coded_counts(place.reshape(digits, columns), code, places)
    table = codes.reshape([places] * digits)
    counts = np.zeros(places, np.int64)
    for digit in range(digits):
        counts += np.moveaxis(table, digit, 0).reshape(places, -1).sum(axis=1)
    counts[0] -= -array.size % place.size  # what filled the last block
    counts[-2] += counts[-1]
    return counts[:-1].astype(np.float64)


def _coded_counts(place: NDArray[Any], code: NDArray[np.intp], places: int) -> NDArray[np.intp]:
    """Count columns by the whole parts of their numbers, which are the digits of their codes.

    Counting takes longer than all that comes before it, so two or three numbers are counted at once; the counts of
    each are added up at the end.

    Args:
      place: numbers `[digits, columns]`, at least 0 and less than `places`; overwritten.
      code: room for `[columns]` codes.
      places: how many values a digit has; all codes are exact in the dtype of `place`.
    Returns:
      how often each code is there, `[places**digits]`.
    """
    np.floor(place, out=place)
    first = place[0]
    for digit in place[1:]:
        first *= places
        first += digit
    np.copyto(code, first, casting="unsafe")
    return np.bincount(code, minlength=places ** len(place))


@functools.cache
def _tensorflow_limits() -> Floats:
    positive = []
    limit = 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(sys.float_info.max)
    return np.array([-limit for limit in reversed(positive)] + [0.0] + positive)
