"""Elements that are not zero: how many, and where."""

from __future__ import annotations

from headrace import types
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.ops.axes import known_rank
from headrace.ops.reduction import Axis
from headrace.ops.reduction import sum as total
from headrace.types import DTypeLike, as_dtype

__all__ = ["count_nonzero", "nonzero"]


def count_nonzero(
    x: TensorLike,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    dtype: DTypeLike = types.int64,
    name: str | None = None,
) -> Tensor:
    """How many elements along some axes are not zero (false, empty); NaN is not zero.

    Args:
      x: any dtype and shape.
      axis: an axis, several, or None for all; negative ones count from the last.
      keepdims: leave the reduced axes in the shape, with size 1.
      dtype: int32 or int64, that of the result.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.count_nonzero([[0, 1, 2], [0, 0, 3]], axis=1)
      >>> print(hr.Session(graph).run(y))
      [2 1]
    """
    tensor = convert_to_tensor(x)
    differs = apply_op("NotEqual", tensor, apply_op("ZerosLike", tensor))
    return total(apply_op("Cast", differs, DstT=as_dtype(dtype)), axis=axis, keepdims=keepdims, name=name)


def nonzero(x: TensorLike, *, name: str | None = None) -> tuple[Tensor, ...]:
    """Where the elements stand that are not zero or false: their coordinates along each axis.

    Args:
      x: numeric or bool, of known rank n >= 1.
      name: the operation's name.
    Returns:
      n vectors, int64 `[elements that are not zero]`, row by row; `hr.argwhere` gives them as the columns of one
      matrix.
    Raises:
      ShapeError: `x` is a scalar, or its rank is not known.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     rows, columns = hr.nonzero([[0, 5], [7, 0]])
      >>> print(*hr.Session(graph).run([rows, columns]))
      [0 1] [1 0]
    """
    tensor = convert_to_tensor(x)
    rank = known_rank(tensor, "nonzero", least=1)
    coordinates: tuple[Tensor, ...] = apply_op("Unpack", apply_op("Where", tensor), axis=1, num=rank, name=name)
    return coordinates
