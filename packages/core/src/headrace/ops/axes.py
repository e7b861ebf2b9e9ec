"""Where an axis stands: moving axes, transposing matrices, and working along one axis as if it were the last."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.graph.operators import overload_operator
from headrace.ops.shapes import normalize_axes
from headrace.types import Shape, int32

__all__ = ["along_last", "known_rank", "matrix_transpose", "moveaxis", "without_last"]


def known_rank(x: Tensor, what: str, *, least: int = 0) -> int:
    """The static rank of a tensor.

    Args:
      x: any dtype.
      what: the function that needs it, for the error.
      least: the lowest rank that the function takes.
    Raises:
      ShapeError: the rank is not known, or too low.
    """
    rank = x.shape.rank
    if rank is None or rank < least:
        raise ShapeError(
            f"{what} needs {'a known rank' if rank is None else 'more axes'}",
            where=x.op.location,
            expected=f"rank >= {least}",
            got=str(x.spec),
            hint="hr.ensure_shape states what is known" if rank is None else None,
        )
    return rank


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int], *, name: str | None = None
) -> Tensor:
    """`x` with some axes moved to other places; the others keep their order.

    Args:
      x: any dtype, of known rank n.
      source: the axis or axes to move, in `[-n, n)`.
      destination: where each of them stands in the result.
      name: the operation's name.
    Raises:
      ShapeError: an axis is out of range or named twice, or there are not as many destinations as sources.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.moveaxis(hr.zeros([2, 3, 4]), 0, -1).shape)
      [3, 4, 2]
    """
    tensor = convert_to_tensor(x)
    rank = known_rank(tensor, "moveaxis")
    moved = normalize_axes([source] if isinstance(source, int) else source, rank, what="source")
    places = normalize_axes([destination] if isinstance(destination, int) else destination, rank, what="destination")
    if len(moved) != len(places):
        raise ShapeError(
            "each moved axis needs one destination",
            expected=f"{len(moved)} destinations",
            got=f"{len(places)}: {list(places)}",
            hint="pair them up, as in hr.moveaxis(x, [0, 1], [2, 0])",
        )
    order = [axis for axis in range(rank) if axis not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    result: Tensor = apply_op("Transpose", tensor, convert_to_tensor(order, int32), name=name)
    return result


@overload_operator("matrix_transpose")
def matrix_transpose(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The transpose of each matrix of `x`: its last two axes exchanged.

    Args:
      x: any dtype `[..., m, n]`, of known rank.
      name: the operation's name.
    Returns:
      `[..., n, m]`.
    Raises:
      ShapeError: the rank is less than 2, or not known.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.matrix_transpose([[1, 2, 3], [4, 5, 6]])
      >>> print(hr.Session(graph).run(y))
      [[1 4]
       [2 5]
       [3 6]]
    """
    tensor = convert_to_tensor(x)
    rank = known_rank(tensor, "matrix_transpose", least=2)
    result: Tensor = apply_op("Transpose", tensor, [*range(rank - 2), rank - 1, rank - 2], name=name)
    return result


@overload_operator("transpose")
def _transposed(x: TensorLike) -> Tensor:
    """What `x.T` means: as in the array API the transpose of one matrix, so that no order of more axes is guessed."""
    tensor = convert_to_tensor(x)
    if tensor.shape.rank not in (None, 2):
        raise ShapeError(
            "x.T is the transpose of a matrix",
            where=tensor.op.location,
            expected="rank 2",
            got=str(tensor.spec),
            hint="x.mT, or hr.permute_dims(x, axes)",
        )
    result: Tensor = apply_op("Transpose", tensor, [1, 0])
    return result


def along_last(x: Tensor, axis: int, what: str) -> tuple[Tensor, int]:
    """A tensor with `axis` moved to the end, and how to number that axis from the end (to move it back).

    Raises:
      ShapeError: the axis is out of range, or the rank is not known.
    """
    if axis == -1 and x.shape.rank != 0:
        return x, -1
    rank = known_rank(x, what, least=1)
    position = normalize_axes([axis], rank)[0] - rank
    return (x, -1) if position == -1 else (moveaxis(x, position, -1), position)


def without_last(shape: Shape) -> Shape:
    """The shape of all axes but the last."""
    return Shape() if shape.dims is None else Shape(shape.dims[:-1])
