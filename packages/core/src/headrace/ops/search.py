"""Operations that find elements: the largest, the different, how many of each."""

from __future__ import annotations

import math

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import checked_sizes, scalar_of
from headrace.types import Array, DTypeLike, Shape, as_dtype

__all__ = ["histogram_fixed_width", "setdiff1d", "topk", "unique", "unique_with_counts"]


@register_op("Unique", inputs={"x": "T"}, outputs={"y": "T", "idx": "out_idx"}, attrs={"out_idx": attr.index_type})
def _unique_shape(op: InferenceContext) -> list[Shape]:
    """The different elements in the order in which they first appear, and for each element which of them it is."""
    return [Shape([None]), op.inputs[0].shape.with_rank(1)]


@register_op(
    "UniqueWithCounts",
    inputs={"x": "T"},
    outputs={"y": "T", "idx": "out_idx", "count": "out_idx"},
    attrs={"out_idx": attr.index_type},
)
def _unique_with_counts_shape(op: InferenceContext) -> list[Shape]:
    """As `Unique`, and how often each different element appears."""
    return [Shape([None]), op.inputs[0].shape.with_rank(1), Shape([None])]


@register_op(
    "TopKV2",
    inputs={"input": "T", "k": "Tk"},
    outputs={"values": "T", "indices": "index_type"},
    attrs={
        "sorted": attr.bool(True),
        "T": attr.ordered,
        "Tk": attr.type(types.int16, types.int32, types.int64, default=types.int32),
        "index_type": attr.type(types.int16, types.int32, types.int64, default=types.int32),
    },
)
def _top_k_shape(op: InferenceContext) -> list[Shape]:
    """The k largest elements of each row (the last axis) and where they stand, largest first; ties: the first wins."""
    shape = op.inputs[0].shape
    if shape.rank == 0:
        raise ShapeError("the input must have rows", expected="rank >= 1", got="shape []")
    wanted = op.constant(1)
    size = None if shape.dims is None else shape.dims[-1]
    count = None if wanted is None else top_k_count(wanted, size)
    result = Shape() if shape.dims is None else Shape((*shape.dims[:-1], count))
    return [result, result]


def top_k_count(k: Array, size: int | None) -> int:
    """The number of elements to take of each row.

    Raises:
      InvalidArgumentError: it is negative, or more than a row has.
    """
    count = scalar_of(k, "k")
    if count < 0 or (size is not None and count > size):
        limit = "" if size is None else f" <= {size}, the size of a row"
        raise InvalidArgumentError("k is out of range", expected=f"0 <= k{limit}", got=str(count))
    return count


@register_op(
    "InTopK",
    inputs={"predictions": "float32", "targets": "T"},
    outputs={"precision": "bool"},
    attrs={"k": attr.int(), "T": attr.index_type},
)
def _in_top_k_shape(op: InferenceContext) -> list[Shape]:
    """For each row, whether the prediction of the target class is among the k largest; false where it is not finite."""
    return [check_in_top_k(op.inputs[0].shape, op.inputs[1].shape)]


def check_in_top_k(predictions: Shape, targets: Shape) -> Shape:
    """The shape of the answers: one for each row.

    Raises:
      ShapeError: the predictions are no matrix, or there is not one target for each row.
    """
    rows = Shape(predictions.with_rank(2).dims[:1])  # type: ignore[index]  # with_rank gives a known rank
    if not rows.is_compatible_with(targets):
        raise ShapeError("there must be one target for each row", expected=str(rows), got=str(targets))
    return rows.merge(targets)


@register_op(
    "ListDiff",
    inputs={"x": "T", "y": "T"},
    outputs={"out": "T", "idx": "out_idx"},
    attrs={"out_idx": attr.index_type},
)
def _list_diff_shape(op: InferenceContext) -> list[Shape]:
    """The elements of x that are not in y, in their order and with repetitions, and where they stand in x."""
    for spec in op.inputs:
        spec.shape.with_rank(1)
    return [Shape([None]), Shape([None])]


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
        raise ShapeError("value_range must have two elements", expected="shape [2]", got=str(op.inputs[1].shape))
    if bounds is not None:
        histogram_range(bounds)
    return [Shape([None if count is None else histogram_bins(count)])]


def histogram_bins(nbins: Array) -> int:
    """The number of parts of a histogram, at least 1."""
    count = scalar_of(nbins, "nbins")
    if count < 1:
        raise InvalidArgumentError("a histogram needs parts", expected="nbins >= 1", got=str(count))
    return checked_sizes([count])[0]


def histogram_range(value_range: Array) -> tuple[float, float]:
    """The bounds of a histogram, in float64: the difference of two float32 bounds may overflow float32.

    Raises:
      ShapeError: there are not two.
      InvalidArgumentError: they are not finite, or not in order.
    """
    given = np.asarray(value_range)
    if given.shape != (2,):
        raise ShapeError("value_range must have two elements", expected="shape [2]", got=str(list(given.shape)))
    low, high = float(given[0]), float(given[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidArgumentError(
            "value_range is not a range", expected="two finite numbers, the lower one first", got=str(given.tolist())
        )
    return low, high


def unique(x: TensorLike, *, dtype: DTypeLike = types.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The different elements of a vector in the order in which they first appear.

    Args:
      x: any dtype `[n]`; each NaN is different from every other.
      dtype: int32 or int64, that of the indices.
      name: the operation's name.
    Returns:
      The different elements `[m]`, and for each element of `x` which of them it is, `[n]`: `x == y[idx]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y, idx = hr.unique([5, 3, 5, 1])
      >>> print(*hr.Session(graph).run([y, idx]))
      [5 3 1] [0 1 0 2]
    """
    result: tuple[Tensor, Tensor] = apply_op("Unique", x, out_idx=as_dtype(dtype), name=name)
    return result


def unique_with_counts(
    x: TensorLike, *, dtype: DTypeLike = types.int32, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """As `unique`, and how often each different element appears, `[m]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y, idx, count = hr.unique_with_counts([5, 3, 5, 1])
      >>> print(hr.Session(graph).run(count))
      [2 1 1]
    """
    result: tuple[Tensor, Tensor, Tensor] = apply_op("UniqueWithCounts", x, out_idx=as_dtype(dtype), name=name)
    return result


def topk(x: TensorLike, k: TensorLike, *, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The k largest elements of each row, largest first.

    Args:
      x: floating or integer `[rows..., n]`; NaN counts as larger than every number, and of equal elements the first
        wins.
      k: an integer scalar in `[0, n]`.
      name: the operation's name.
    Returns:
      The elements `[rows..., k]`, and where in its row each one stands, int32 `[rows..., k]`.
    Raises:
      InvalidArgumentError: a row has fewer than k elements.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     values, indices = hr.topk([1, 3, 3, 2, 3], 2)
      >>> print(*hr.Session(graph).run([values, indices]))
      [3 3] [1 2]
    """
    result: tuple[Tensor, Tensor] = apply_op("TopKV2", x, k, name=name)
    return result


def setdiff1d(
    x: TensorLike, y: TensorLike, *, dtype: DTypeLike = types.int32, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The elements of `x` that are not in `y`, in their order and with repetitions.

    Args:
      x: any dtype `[n]`.
      y: the same dtype `[m]`.
      dtype: int32 or int64, that of the indices.
      name: the operation's name.
    Returns:
      The elements, and where they stand in `x`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     rest, indices = hr.setdiff1d([1, 2, 3, 4, 2], [4, 1])
      >>> print(*hr.Session(graph).run([rest, indices]))
      [2 3 2] [1 2 4]
    """
    result: tuple[Tensor, Tensor] = apply_op("ListDiff", x, y, out_idx=as_dtype(dtype), name=name)
    return result


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
