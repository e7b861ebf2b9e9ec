"""Operations that find elements: the largest, the n-th, the different ones."""

from __future__ import annotations

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import check_scalar, scalar_of
from headrace.types import Array, DTypeLike, Shape, as_dtype

__all__ = ["check_in_top_k", "nth_element", "nth_place", "setdiff1d", "top_k_count", "topk"]


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


def _check_rows(given: Shape) -> None:
    if given.rank == 0:
        raise ShapeError(
            "the input must have rows", expected="rank >= 1", got="shape []", hint="hr.expand_dims(x, 0) makes it a row"
        )


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
    _check_rows(shape)
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
        raise InvalidArgumentError(
            "k is out of range",
            expected=f"0 <= k{limit}",
            got=str(count),
            hint="cap it with hr.minimum(k, hr.shape(x)[-1])",
        )
    return count


@register_op(
    "NthElement",
    inputs={"input": "T", "n": "int32"},
    outputs={"values": "T"},
    attrs={"reverse": attr.bool(False), "T": attr.ordered},
)
def _nth_element_shape(op: InferenceContext) -> list[Shape]:
    """The element at place n of each sorted row (the last axis), counted from the largest if `reverse`."""
    shape = op.inputs[0].shape
    check_scalar(op.inputs[1].shape, "n")
    _check_rows(shape)
    n = op.constant(1)
    if shape.dims is None:
        return [Shape()]
    if n is not None:
        nth_place(n, shape.dims[-1])
    return [Shape(shape.dims[:-1])]


def nth_place(n: Array, size: int | None) -> int:
    """The place of the n-th element of a sorted row.

    Raises:
      InvalidArgumentError: it is negative, or a row is not so long.
    """
    place = scalar_of(n, "n")
    if place < 0 or (size is not None and place >= size):
        limit = "" if size is None else f" < {size}, the size of a row"
        raise InvalidArgumentError(
            "n is out of range",
            expected=f"0 <= n{limit}",
            got=str(place),
            hint="count from 0; reverse=True counts from the largest",
        )
    return place


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
        raise ShapeError(
            "there must be one target for each row",
            expected=str(rows),
            got=str(targets),
            hint="hr.argmax(targets, axis=1) turns one-hot rows into class numbers",
        )
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


def nth_element(x: TensorLike, n: TensorLike, *, reverse: bool = False, name: str | None = None) -> Tensor:
    """The n-th smallest element of each row, counted from 0.

    Args:
      x: floating or integer `[rows..., size]`.
      n: an int32 scalar in `[0, size)`.
      reverse: count from the largest.
      name: the operation's name.
    Returns:
      `[rows...]`.
    Raises:
      InvalidArgumentError: a row is not so long.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.nth_element([[3, 1, 2], [5, 5, 4]], 1)
      >>> print(hr.Session(graph).run(x))
      [2 5]
    """
    result: Tensor = apply_op("NthElement", x, n, reverse=reverse, name=name)
    return result
