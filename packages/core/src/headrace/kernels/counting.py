"""NumPy kernels that count."""

from __future__ import annotations

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.ragged import check_splits
from headrace.kernels.registry import register_kernel
from headrace.kernels.state import check_indices
from headrace.ops.counting import bincount_size, check_dense_rank, check_weights, histogram_bins, histogram_range
from headrace.types import Array, Shape


@register_kernel("HistogramFixedWidth")
def _histogram(op: OpContext, values: Array, value_range: Array, nbins: Array) -> Array:
    low, high = histogram_range(value_range)
    count = histogram_bins(nbins)
    numbers = np.asarray(values).astype(np.float64).reshape(-1)
    if np.isnan(numbers).any():
        raise InvalidArgumentError(
            "a value of the histogram is NaN",
            expected="numbers",
            got=f"{int(np.isnan(numbers).sum())} NaN",
            hint="hr.boolean_mask(values, hr.isfinite(values)) drops them",
        )
    scale = 1.0 if np.isfinite(high - low) else 0.5  # the difference of two float64 bounds may overflow
    width = (high * scale - low * scale) / count
    places = np.floor((np.clip(numbers, low, high) * scale - low * scale) / width)
    counts = np.bincount(np.clip(places, 0, count - 1).astype(np.int64), minlength=count)
    return counts.astype(op.attr("dtype").array_type)


@register_kernel("Bincount")
def _bincount(op: OpContext, arr: Array, size: Array, weights: Array) -> Array:
    numbers, count, weights = np.asarray(arr), bincount_size(size), np.asarray(weights)
    check_weights(Shape(numbers.shape), Shape(weights.shape))
    _check_not_negative(numbers)
    counted = numbers < count
    bins = np.zeros(count, op.attr("T").array_type)
    np.add.at(bins, numbers[counted], weights[counted] if weights.size else 1)
    return bins


@register_kernel("DenseBincount")
def _dense_bincount(op: OpContext, numbers: Array, size: Array, weights: Array) -> Array:
    count = bincount_size(size)
    check_dense_rank(Shape(numbers.shape))
    check_weights(Shape(numbers.shape), Shape(weights.shape))
    _check_not_negative(numbers)
    counted = np.nonzero(numbers < count)
    places = (*counted[:-1], numbers[counted])
    return _counts(op, (*numbers.shape[:-1], count), places, weights[counted] if weights.size else 1)


@register_kernel("RaggedBincount")
def _ragged_bincount(op: OpContext, splits: Array, numbers: Array, size: Array, weights: Array) -> Array:
    count = bincount_size(size)
    check_splits(splits, len(numbers))
    check_weights(Shape(numbers.shape), Shape(weights.shape))
    _check_not_negative(numbers)
    counted = np.flatnonzero(numbers < count)
    rows = np.repeat(np.arange(splits.size - 1), np.diff(splits))
    places = (rows[counted], numbers[counted])
    return _counts(op, (splits.size - 1, count), places, weights[counted] if weights.size else 1)


@register_kernel("SparseBincount")
def _sparse_bincount(
    op: OpContext, indices: Array, numbers: Array, dense_shape: Array, size: Array, weights: Array
) -> Array:
    count, shape = bincount_size(size), Shape([int(item) for item in dense_shape])
    check_dense_rank(shape)
    check_weights(Shape(numbers.shape), Shape(weights.shape))
    _check_not_negative(numbers)
    lead = tuple(int(item) for item in dense_shape[:-1])
    rows = [indices[:, axis] for axis in range(len(lead))]
    for row, bound in zip(rows, lead, strict=True):
        check_indices(row, bound)
    counted = np.flatnonzero(numbers < count)
    places = (*(row[counted] for row in rows), numbers[counted])
    return _counts(op, (*lead, count), places, weights[counted] if weights.size else 1)


def _counts(op: OpContext, shape: tuple[int, ...], places: tuple[Array, ...], weights: Array | int) -> Array:
    bins = np.zeros(shape, op.attr("T").array_type)
    if op.attr("binary_output"):
        bins[places] = 1
    else:
        np.add.at(bins, places, weights)
    return bins


def _check_not_negative(numbers: Array) -> None:
    if numbers.size and numbers.min() < 0:
        raise InvalidArgumentError(
            "a number to be counted is negative",
            expected="numbers >= 0",
            got=str(numbers.min()),
            hint="subtract hr.min(x) first; hr.unique_counts counts any numbers",
        )


@register_kernel("Bucketize")
def _bucketize(op: OpContext, x: Array) -> Array:
    boundaries = np.array(op.attr("boundaries"), np.float64)
    return np.searchsorted(boundaries, np.asarray(x).astype(np.float64), side="right").astype(np.int32)
