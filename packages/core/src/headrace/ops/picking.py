"""Elements and slices picked by their position along one axis, which may be counted from the end."""

from __future__ import annotations

from headrace import types
from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.ops.axes import along_last, known_rank, moveaxis, without_last
from headrace.types import broadcast_shapes

__all__ = ["take", "take_along_axis"]


def take(x: TensorLike, indices: TensorLike, *, axis: int | None = None, name: str | None = None) -> Tensor:
    """The slices of `x` along an axis that the indices name, in their order.

    Args:
      x: any dtype, `[outer..., size, inner...]`.
      indices: integers in `[-size, size)`, any shape; negative ones count from the end.
      axis: the axis; needed unless `x` is a vector.
      name: the operation's name.
    Returns:
      `[outer..., indices.shape..., inner...]`. `hr.gather` is the same without negative indices, for less work.
    Raises:
      InvalidArgumentError: `axis` is needed and not given.
      OutOfRangeError: when it runs and an index is out of range.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.take([[1, 2], [3, 4]], [1, -1, 0], axis=1)
      >>> print(hr.Session(graph).run(y))
      [[2 2 1]
       [4 4 3]]
    """
    tensor = convert_to_tensor(x)
    if axis is None:
        if tensor.shape.rank != 1:
            raise InvalidArgumentError(
                "take must know the axis",
                where=tensor.op.location,
                expected="axis=...",
                got=str(tensor.spec),
                hint="axis=0 takes rows; hr.reshape(x, [-1]) lines all elements up",
            )
        axis = 0
    picks = _from_start(indices, apply_op("Shape", tensor, out_type=types.int64)[axis])
    result: Tensor = apply_op("GatherV2", tensor, picks, axis, name=name)
    return result


def take_along_axis(x: TensorLike, indices: TensorLike, *, axis: int = -1, name: str | None = None) -> Tensor:
    """Elements of `x` picked by one list of positions for each of its rows along an axis.

    Args:
      x: any dtype, of known rank >= 1.
      indices: integers of the same rank, which may be negative to count from the end; along the other axes the two
        broadcast.
      axis: the axis along which to pick.
      name: the operation's name.
    Returns:
      The broadcast shape, with the size of `indices` along the axis.
    Raises:
      ShapeError: the ranks differ, the shapes do not broadcast, or the axis is out of range.
      OutOfRangeError: when it runs and an index is out of range.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.take_along_axis([[1, 2, 3], [4, 5, 6]], [[2, -3], [1, 1]])
      >>> print(hr.Session(graph).run(y))
      [[3 1]
       [5 5]]
    """
    tensor, chosen = convert_to_tensor(x), convert_to_tensor(indices)
    rank = known_rank(tensor, "take_along_axis", least=1)
    if known_rank(chosen, "take_along_axis") != rank:
        raise ShapeError(
            "the indices must have as many axes as the tensor",
            expected=f"rank {rank}",
            got=str(chosen.spec),
            hint="hr.expand_dims(indices, ...) adds an axis; hr.take picks the same along each row",
        )
    rows, position = along_last(tensor, axis, "take_along_axis")
    picks, _ = along_last(chosen, axis, "take_along_axis")
    picks = _from_start(picks, apply_op("Shape", rows, out_type=types.int64)[-1])
    outer = broadcast_shapes(without_last(rows.shape), without_last(picks.shape))
    if not (outer.is_fully_defined and without_last(rows.shape) == outer == without_last(picks.shape)):
        sizes = apply_op("BroadcastArgs", apply_op("Shape", rows)[:-1], apply_op("Shape", picks)[:-1])
        rows, picks = (_spread(item, sizes) for item in (rows, picks))
    picked: Tensor = apply_op(
        "GatherV2", rows, picks, rank - 1, batch_dims=rank - 1, name=name if position == -1 else None
    )
    return picked if position == -1 else moveaxis(picked, -1, position, name=name)


def _spread(x: Tensor, outer: Tensor) -> Tensor:
    """`x` with all its axes but the last broadcast to the given sizes."""
    result: Tensor = apply_op("BroadcastTo", x, apply_op("ConcatV2", [outer, apply_op("Shape", x)[-1:]], 0))
    return result


def _from_start(indices: TensorLike, size: Tensor) -> Tensor:
    """Indices as int64, negative ones counted from the end."""
    chosen = convert_to_tensor(indices)
    if not chosen.dtype.is_integer:
        raise DTypeError(
            "indices must be integers",
            where=chosen.op.location,
            expected="int64",
            got=str(chosen.spec),
            hint="hr.astype(indices, hr.int64); hr.boolean_mask picks by a mask",
        )
    wide = chosen if chosen.dtype is types.int64 else apply_op("Cast", chosen, DstT=types.int64)
    if chosen.dtype.kind == "uint":
        return wide
    result: Tensor = apply_op("SelectV2", apply_op("Less", wide, 0), apply_op("AddV2", wide, size), wide)
    return result
