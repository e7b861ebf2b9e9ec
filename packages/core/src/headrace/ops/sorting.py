"""Sorting and searching in sorted sequences."""

from __future__ import annotations

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.axes import along_last, moveaxis
from headrace.ops.promotion import promoted
from headrace.types import DTypeLike, Shape, as_dtype

__all__ = ["argsort", "check_bounds", "searchsorted", "sort"]

_BOUND_ATTRS = {"T": attr.type(*types.COMPUTABLE), "out_type": attr.index_type}


def check_bounds(sorted_inputs: Shape, values: Shape) -> Shape:
    """The shape of the places of values `[rows, m]` in sorted rows `[rows, n]`.

    Raises:
      ShapeError: one is not a matrix, or they do not have as many rows.
    """
    rows = Shape([sorted_inputs.with_rank(2)[0]])
    if not rows.is_compatible_with(Shape([values.with_rank(2)[0]])):
        raise ShapeError(
            "there must be one row of values for each sorted row",
            expected=str(rows),
            got=str(values),
            hint="repeat a row with hr.tile; hr.searchsorted looks for all values in one sorted vector",
        )
    return Shape([rows.merge(Shape([values.with_rank(2)[0]]))[0], values.with_rank(2)[1]])


@register_op(
    "LowerBound", inputs={"sorted_inputs": "T", "values": "T"}, outputs={"output": "out_type"}, attrs=_BOUND_ATTRS
)
def _lower_bound_shape(op: InferenceContext) -> list[Shape]:
    """For each value how many elements of the sorted row of the same number are less."""
    return [check_bounds(op.inputs[0].shape, op.inputs[1].shape)]


@register_op(
    "UpperBound", inputs={"sorted_inputs": "T", "values": "T"}, outputs={"output": "out_type"}, attrs=_BOUND_ATTRS
)
def _upper_bound_shape(op: InferenceContext) -> list[Shape]:
    """For each value how many elements of the sorted row of the same number are not greater."""
    return [check_bounds(op.inputs[0].shape, op.inputs[1].shape)]


def sort(
    x: TensorLike, *, axis: int = -1, descending: bool = False, stable: bool = True, name: str | None = None
) -> Tensor:
    """`x` with its elements in order along an axis.

    Args:
      x: floating or integer, rank >= 1. NaN counts as larger than every number.
      axis: the axis; negative ones count from the end. Another than the last needs a known rank.
      descending: put the largest first.
      stable: makes no difference: equal elements always keep their order.
      name: the operation's name.
    Returns:
      The same dtype and shape; each gradient goes where the element came from.
    Raises:
      ShapeError: the axis is out of range, or `x` is a scalar.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sort([5, -(2**31), 7])
      >>> print(hr.Session(graph).run(y))
      [-2147483648           5           7]
    """
    values, _, position = _sorted(x, axis, descending, types.int32, "sort")
    return _moved_back(values, position, name)


def argsort(
    x: TensorLike,
    *,
    axis: int = -1,
    descending: bool = False,
    stable: bool = True,
    dtype: DTypeLike = types.int64,
    name: str | None = None,
) -> Tensor:
    """Where the elements of `x` stand that come first, second, ... in order along an axis; see `sort`.

    Args:
      x: see `sort`.
      axis: see `sort`.
      descending: see `sort`.
      stable: see `sort`.
      dtype: int32 or int64, that of the result.
      name: the operation's name.
    Returns:
      The shape of `x`: `take_along_axis(x, argsort(x))` is `sort(x)`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.argsort([2, 1, 2, 1])
      >>> print(hr.Session(graph).run(y))
      [1 3 0 2]
    """
    _, indices, position = _sorted(x, axis, descending, as_dtype(dtype), "argsort")
    return _moved_back(indices, position, name)


def _sorted(x: TensorLike, axis: int, descending: bool, dtype: types.DType, what: str) -> tuple[Tensor, Tensor, int]:
    """The sorted rows, their indices, and where the axis stood, counted from the end.

    `TopKV2` puts the largest first, of equal ones the first. Ascending order is that of the reversed rows, reversed:
    nothing is negated, which the lowest integer and unsigned ones could not be, and equal elements keep their order.
    """
    rows, position = along_last(convert_to_tensor(x), axis, what)
    size: Tensor = apply_op("Shape", rows)[-1]
    if descending:
        values, indices = apply_op("TopKV2", rows, size, index_type=dtype)
        return values, indices, position
    values, indices = apply_op("TopKV2", apply_op("ReverseV2", rows, [-1]), size, index_type=dtype)
    last = apply_op("Cast", apply_op("Sub", size, 1), DstT=dtype)
    places = apply_op("Sub", last, apply_op("ReverseV2", indices, [-1]))
    return apply_op("ReverseV2", values, [-1]), places, position


def _moved_back(x: Tensor, position: int, name: str | None) -> Tensor:
    if position == -1:
        result: Tensor = apply_op("Identity", x, name=name) if name is not None else x
        return result
    return moveaxis(x, -1, position, name=name)


def searchsorted(
    x1: TensorLike,
    x2: TensorLike,
    *,
    side: str = "left",
    sorter: TensorLike | None = None,
    dtype: DTypeLike = types.int64,
    name: str | None = None,
) -> Tensor:
    """Where the values of `x2` belong in the sorted vector `x1`, so that it stays sorted.

    Args:
      x1: floating or integer `[n]`, sorted from the lowest to the highest.
      x2: any shape; the two are promoted to a common dtype.
      side: `"left"` for the first place that fits, `"right"` for the last.
      sorter: integer `[n]`, the `argsort` of an `x1` that is not sorted.
      dtype: int32 or int64, that of the result.
      name: the operation's name.
    Returns:
      The shape of `x2`, each in `[0, n]`.
    Raises:
      InvalidArgumentError: `side` is something else.
      ShapeError: `x1` is not a vector.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.searchsorted([10, 20, 20, 30], [20, 5, 35], side="right")
      >>> print(hr.Session(graph).run(y))
      [3 0 4]
    """
    bounds = {"left": "LowerBound", "right": "UpperBound"}
    if side not in bounds:
        raise InvalidArgumentError(
            "the side is not known",
            expected="'left' or 'right'",
            got=repr(side),
            hint="'left' is the place before equal elements, 'right' the one after them",
        )
    row, values = promoted(x1, x2)
    row.shape.with_rank(1)
    if sorter is not None:
        row = apply_op("GatherV2", row, sorter, 0)
    places: Tensor = apply_op(
        bounds[side],
        apply_op("ExpandDims", row, 0),
        apply_op("Reshape", values, np.array([1, -1], np.int32)),
        out_type=as_dtype(dtype),
    )
    result: Tensor = apply_op("Reshape", places, apply_op("Shape", values), name=name)
    return result
