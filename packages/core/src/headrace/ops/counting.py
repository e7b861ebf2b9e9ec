"""Operations that count how many elements fall where."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import check_scalar, checked_sizes, scalar_of
from headrace.types import Array, DTypeLike, Shape, as_dtype

__all__ = [
    "bincount",
    "bincount_size",
    "bucketize",
    "check_dense_rank",
    "check_weights",
    "histogram_bins",
    "histogram_fixed_width",
    "histogram_range",
]


_NUMBERS = (types.int32, types.int64, types.float32, types.float64)


@register_op(
    "HistogramFixedWidth",
    inputs={"values": "T", "value_range": "T", "nbins": "int32"},
    outputs={"out": "dtype"},
    attrs={
        "T": attr.type(types.int32, types.int64, types.float32, types.float64),
        "dtype": attr.index_type,
    },
)
def _histogram_shape(op: InferenceContext) -> list[Shape]:
    """How many values fall into each of nbins equal parts of a range; those outside count in the first or last part."""
    bounds, count = op.constant(1), op.constant(2)
    if not op.inputs[1].shape.is_compatible_with(Shape([2])):
        raise ShapeError(
            "value_range must have two elements",
            expected="shape [2]",
            got=str(op.inputs[1].shape),
            hint="pass [low, high], or hr.stack([hr.min(x), hr.max(x)])",
        )
    if bounds is not None:
        histogram_range(bounds)
    return [Shape([None if count is None else histogram_bins(count)])]


def histogram_bins(nbins: Array) -> int:
    """The number of parts of a histogram, at least 1."""
    count = scalar_of(nbins, "nbins")
    if count < 1:
        raise InvalidArgumentError(
            "a histogram needs parts",
            expected="nbins >= 1",
            got=str(count),
            hint="leave bins out for 100 parts, or compute it with max(1, ...)",
        )
    return checked_sizes([count])[0]


def histogram_range(value_range: Array) -> tuple[float, float]:
    """The bounds of a histogram, in float64: the difference of two float32 bounds may overflow float32.

    Raises:
      InvalidArgumentError: they are not finite, or not in order.
    """
    given = np.asarray(value_range)
    low, high = float(given[0]), float(given[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidArgumentError(
            "value_range is not a range",
            expected="two finite numbers, the lower one first",
            got=str(given.tolist()),
            hint="swap the numbers, or widen the range where all values are equal",
        )
    return low, high


@register_op(
    "Bincount",
    inputs={"arr": "int32", "size": "int32", "weights": "T"},
    outputs={"bins": "T"},
    attrs={"T": attr.type(*_NUMBERS)},
)
def _bincount_shape(op: InferenceContext) -> list[Shape]:
    """How often each of the numbers 0 to size - 1 appears, or the sum of its weights if there are any."""
    check_scalar(op.inputs[1].shape, "size")
    check_weights(op.inputs[0].shape, op.inputs[2].shape)
    size = op.constant(1)
    return [Shape([None if size is None else bincount_size(size)])]


@register_op(
    "DenseBincount",
    inputs={"input": "Tidx", "size": "Tidx", "weights": "T"},
    outputs={"output": "T"},
    attrs={"Tidx": attr.index_type, "T": attr.type(*_NUMBERS), "binary_output": attr.bool(False)},
)
def _dense_bincount_shape(op: InferenceContext) -> list[Shape]:
    """`Bincount`, of each row where the numbers are a matrix; with `binary_output` 1 for each number that appears."""
    numbers = op.inputs[0].shape
    check_dense_rank(numbers)
    check_scalar(op.inputs[1].shape, "size")
    check_weights(numbers, op.inputs[2].shape)
    size = op.constant(1)
    bins = None if size is None else bincount_size(size)
    return [Shape() if numbers.dims is None else Shape([*numbers.dims[:-1], bins])]


@register_op(
    "RaggedBincount",
    inputs={"splits": "int64", "values": "Tidx", "size": "Tidx", "weights": "T"},
    outputs={"output": "T"},
    attrs={"Tidx": attr.index_type, "T": attr.type(*_NUMBERS), "binary_output": attr.bool(False)},
)
def _ragged_bincount_shape(op: InferenceContext) -> list[Shape]:
    """`DenseBincount` of each row of a ragged vector, which `splits` divide."""
    (ends,) = op.inputs[0].shape.with_rank(1)
    check_scalar(op.inputs[2].shape, "size")
    check_weights(op.inputs[1].shape.with_rank(1), op.inputs[3].shape)
    size = op.constant(2)
    bins = None if size is None else bincount_size(size)
    return [Shape([None if ends is None else max(ends - 1, 0), bins])]


@register_op(
    "SparseBincount",
    inputs={"indices": "int64", "values": "Tidx", "dense_shape": "int64", "size": "Tidx", "weights": "T"},
    outputs={"output": "T"},
    attrs={"Tidx": attr.index_type, "T": attr.type(*_NUMBERS), "binary_output": attr.bool(False)},
)
def _sparse_bincount_shape(op: InferenceContext) -> list[Shape]:
    """`DenseBincount` of the numbers that a sparse vector or matrix holds."""
    count, _ = op.inputs[0].shape.with_rank(2)
    numbers = op.inputs[1].shape.with_rank(1)
    if not numbers.is_compatible_with(Shape([count])):
        raise ShapeError(
            "a sparse tensor has a place for each value",
            expected=f"{numbers[0]} rows of indices",
            got=str(op.inputs[0].shape),
            hint="indices [n, rank], values [n], dense_shape [rank]",
        )
    check_scalar(op.inputs[3].shape, "size")
    check_weights(numbers, op.inputs[4].shape)
    shape, size = op.constant_shape(2), op.constant(3)
    if shape.dims is None:
        return [Shape()]
    check_dense_rank(shape)
    return [Shape([*shape.dims[:-1], None if size is None else bincount_size(size)])]


def check_dense_rank(numbers: Shape) -> None:
    """Raise ShapeError unless the numbers are a vector or a matrix."""
    if numbers.rank not in (None, 1, 2):
        raise ShapeError(
            "the rank of the numbers is wrong",
            expected="rank 1 or 2",
            got=str(numbers),
            hint="hr.reshape(x, [-1]) counts all numbers together",
        )


def check_weights(numbers: Shape, weights: Shape) -> None:
    """Raise ShapeError unless there is one weight for each number, or none at all."""
    if weights.num_elements not in (None, 0) and not weights.is_compatible_with(numbers):
        raise ShapeError(
            "the weights do not fit the numbers",
            expected=f"{numbers} or no elements",
            got=str(weights),
            hint="hr.broadcast_to(weights, hr.shape(x)), or leave weights out",
        )


def bincount_size(size: Array) -> int:
    """How many numbers are counted."""
    return checked_sizes([scalar_of(size, "size")])[0]


@register_op(
    "Bucketize",
    inputs={"input": "T"},
    outputs={"output": "int32"},
    attrs={"T": attr.type(*_NUMBERS), "boundaries": attr.list_of(attr.float())},
)
def _bucketize_shape(op: InferenceContext) -> list[Shape]:
    """For each element how many of the boundaries are less than or equal to it."""
    boundaries = op.attr("boundaries")
    if any(not low <= high for low, high in pairwise(boundaries)):
        raise InvalidArgumentError(
            "the boundaries are not sorted",
            expected="ascending numbers",
            got=str(list(boundaries)),
            hint="pass sorted(boundaries)",
        )
    return [op.inputs[0].shape]


def histogram_fixed_width(
    values: TensorLike,
    value_range: TensorLike,
    bins: TensorLike = 100,
    *,
    dtype: DTypeLike = types.int32,
    name: str | None = None,
) -> Tensor:
    """How many values fall into each of several equal parts of a range.

    Args:
      values: int32, int64, float32 or float64, any shape; those outside the range count in its first or last part.
      value_range: the lower and the upper bound, the dtype of the values, `[2]`.
      bins: the number of parts, an int32 scalar.
      dtype: int32 or int64, that of the result.
      name: the operation's name.
    Returns:
      The counts `[bins]`.
    Raises:
      InvalidArgumentError: when it runs and a value is NaN, or the range is empty.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     counts = hr.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0], [0.0, 5.0], 5)
      >>> print(hr.Session(graph).run(counts))
      [2 1 1 0 1]
    """
    result: Tensor = apply_op("HistogramFixedWidth", values, value_range, bins, dtype=as_dtype(dtype), name=name)
    return result


def bincount(
    x: TensorLike,
    size: TensorLike,
    *,
    weights: TensorLike | None = None,
    dtype: DTypeLike = types.int32,
    name: str | None = None,
) -> Tensor:
    """How often each of the numbers 0 to size - 1 appears, or the sum of its weights.

    Args:
      x: int32, any shape, no negative numbers; those from `size` on are left out.
      size: an int32 scalar.
      weights: int32, int64, float32 or float64, the shape of `x`.
      dtype: that of the counts where there are no weights.
      name: the operation's name.
    Returns:
      `[size]`.
    Raises:
      InvalidArgumentError: when it runs and a number is negative.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     counts = hr.bincount([1, 3, 1, 9], 4)
      >>> print(hr.Session(graph).run(counts))
      [0 2 0 1]
    """
    given = convert_to_tensor(np.zeros(0, as_dtype(dtype).array_type)) if weights is None else weights
    result: Tensor = apply_op("Bincount", x, size, given, name=name)
    return result


def bucketize(x: TensorLike, boundaries: list[float], *, name: str | None = None) -> Tensor:
    """For each element the number of its bucket: how many of the boundaries are less than or equal to it.

    Args:
      x: int32, int64, float32 or float64, any shape; NaN falls into the last bucket.
      boundaries: ascending numbers.
      name: the operation's name.
    Returns:
      int32, the same shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.bucketize([-5, 0, 10, 150], [0.0, 10.0, 100.0])
      >>> print(hr.Session(graph).run(x))
      [0 1 2 3]
    """
    result: Tensor = apply_op("Bucketize", x, boundaries=boundaries, name=name)
    return result
