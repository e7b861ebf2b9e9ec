"""Operations that turn axes around."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import normalize_axes, normalize_axis
from headrace.types import Array, Shape

__all__ = ["check_lengths", "check_roll", "flip", "reverse_sequence", "reversed_axes", "roll", "sequence_axes"]


@register_op(
    "ReverseV2",
    inputs={"tensor": "T", "axis": "Tidx"},
    outputs={"output": "T"},
    attrs={"Tidx": attr.index_type, "T": attr.type(*types.COMPUTABLE, types.string)},
)
def _reverse_shape(op: InferenceContext) -> list[Shape]:
    """The elements in reverse order along the given axes."""
    shape, axes = op.inputs[0].shape, op.constant(1)
    if op.inputs[1].shape.rank not in (None, 1):
        raise ShapeError(
            "axis must be a vector",
            expected="shape [n]",
            got=str(op.inputs[1].shape),
            hint="write [axis] for a single one",
        )
    if axes is not None and shape.rank is not None:
        reversed_axes(axes, shape.rank)
    return [shape]


def reversed_axes(axes: Array, rank: int) -> tuple[int, ...]:
    """The axes that `ReverseV2` turns around; each may be named once."""
    return normalize_axes([int(axis) for axis in axes], rank)


@register_op(
    "ReverseSequence",
    inputs={"input": "T", "seq_lengths": "Tlen"},
    outputs={"output": "T"},
    attrs={
        "seq_dim": attr.int(),
        "batch_dim": attr.int(0),
        "Tlen": attr.type(types.int32, types.int64, default=types.int64),
    },
)
def _reverse_sequence_shape(op: InferenceContext) -> list[Shape]:
    """For each item of the batch the first seq_lengths[item] elements in reverse order, the rest unchanged."""
    shape = op.inputs[0].shape
    lengths = op.constant(1)
    if shape.dims is None:
        return [Shape()]
    along, batch = sequence_axes(shape.dims, op.inputs[1].shape, op.attr("seq_dim"), op.attr("batch_dim"))
    if lengths is not None:
        check_lengths(lengths, shape.dims[along])
    size = Shape([shape.dims[batch]]).merge(op.inputs[1].shape)[0]
    return [Shape((*shape.dims[:batch], size, *shape.dims[batch + 1 :]))]


def sequence_axes(dims: Sequence[int | None], lengths: Shape, seq_dim: int, batch_dim: int) -> tuple[int, int]:
    """The axis along which sequences run and the one of the batch, neither negative.

    Raises:
      ShapeError: they are the same or out of range, or there is not one length for each item of the batch.
    """
    along = normalize_axis(seq_dim, len(dims), what="seq_dim")
    batch = normalize_axis(batch_dim, len(dims), what="batch_dim")
    if along == batch:
        raise ShapeError(
            "seq_dim and batch_dim are the same axis",
            expected="two axes",
            got=str(along),
            hint="batch_axis is 0 unless given; hr.flip reverses all items alike",
        )
    if not lengths.is_compatible_with(Shape([dims[batch]])):
        raise ShapeError(
            "there must be one length for each item",
            expected=str(Shape([dims[batch]])),
            got=str(lengths),
            hint="hr.broadcast_to(length, [n]) gives all items one; batch_axis says where the items are",
        )
    return along, batch


def check_lengths(lengths: Array, size: int | None) -> None:
    """Raise InvalidArgumentError unless every length is in `[0, size]`."""
    given = np.asarray(lengths)
    if given.size and (given.min() < 0 or (size is not None and given.max() > size)):
        raise InvalidArgumentError(
            "a sequence length is out of range",
            expected="0 <= length" + ("" if size is None else f" <= {size}"),
            got=str(given.tolist()),
            hint="hr.clip(lengths, 0, n) keeps them within the n elements of seq_axis",
        )


@register_op(
    "Roll",
    inputs={"input": "T", "shift": "Tshift", "axis": "Taxis"},
    outputs={"output": "T"},
    attrs={"Tshift": attr.type(types.int32, types.int64), "Taxis": attr.type(types.int32, types.int64)},
)
def _roll_shape(op: InferenceContext) -> list[Shape]:
    """The elements moved by shift places along each of the axes; those that leave at one end come back at the other."""
    shape, axes = op.inputs[0].shape, op.constant(2)
    if shape.rank == 0:
        raise ShapeError(
            "a scalar cannot be rolled",
            expected="rank >= 1",
            got="shape []",
            hint="hr.roll without axis takes scalars too",
        )
    check_roll(op.inputs[1].shape, op.inputs[2].shape)
    if axes is not None and shape.rank is not None:
        for axis in axes.reshape(-1):
            normalize_axis(int(axis), shape.rank)
    return [shape]


def check_roll(shift: Shape, axis: Shape) -> None:
    """Raise ShapeError unless there is one shift for each axis."""
    if (shift.rank or 0) > 1 or not shift.is_compatible_with(axis):
        raise ShapeError(
            "there must be one shift for each axis",
            expected=f"scalars or vectors, as {axis}",
            got=str(shift),
            hint="give shift and axis the same length; hr.roll without axis takes one shift",
        )


def flip(x: TensorLike, axis: int | Sequence[int] | TensorLike | None = None, *, name: str | None = None) -> Tensor:
    """`x` with its elements in reverse order along some axes.

    Args:
      x: any dtype, rank n.
      axis: one or several axes; by default all.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.flip([[1, 2], [3, 4]], axis=1)
      >>> print(hr.Session(graph).run(x))
      [[2 1]
       [4 3]]
    """
    tensor = convert_to_tensor(x)
    axes: TensorLike = axis
    if axis is None:
        rank = tensor.shape.rank
        axes = apply_op("Range", 0, apply_op("Rank", tensor), 1) if rank is None else np.arange(rank, dtype=np.int32)
    elif isinstance(axis, int):
        axes = [axis]
    result: Tensor = apply_op("ReverseV2", tensor, axes, name=name)
    return result


def reverse_sequence(
    x: TensorLike, lengths: TensorLike, *, seq_axis: int, batch_axis: int = 0, name: str | None = None
) -> Tensor:
    """For each item of the batch the first elements of its sequence in reverse order, the rest unchanged.

    Args:
      x: any dtype, with an axis of items and one along which their sequences run.
      lengths: int32 or int64 `[items]`, how many elements of each item to reverse.
      seq_axis: the axis along which sequences run.
      batch_axis: the axis of the items.
      name: the operation's name.
    Raises:
      InvalidArgumentError: when it runs and a length is negative or longer than the axis.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1)
      >>> print(hr.Session(graph).run(x))
      [[2 1 3]
       [6 5 4]]
    """
    result: Tensor = apply_op("ReverseSequence", x, lengths, seq_dim=seq_axis, batch_dim=batch_axis, name=name)
    return result


def roll(x: TensorLike, shift: TensorLike, axis: TensorLike | None = None, *, name: str | None = None) -> Tensor:
    """`x` with its elements moved along some axes; those that leave at one end come back at the other.

    Args:
      x: any dtype and shape.
      shift: by how many places, one number or one for each axis; negative ones move towards the start.
      axis: one axis or several; one that is named twice is moved by the sum. By default the elements are moved as if
        they stood in one row.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.roll([1, 2, 3, 4], 1, 0)
      >>> print(hr.Session(graph).run(x))
      [4 1 2 3]
    """
    tensor = convert_to_tensor(x)
    if axis is not None:
        result: Tensor = apply_op("Roll", tensor, shift, axis, name=name)
        return result
    row: Tensor = apply_op("Roll", apply_op("Reshape", tensor, [-1]), shift, 0)
    rolled: Tensor = apply_op("Reshape", row, apply_op("Shape", tensor), name=name)
    return rolled
