"""Tensors from other values: arrays of any kind, empty ones, triangles of matrices."""

from __future__ import annotations

from headrace import types
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.ops.array import zeros, zeros_like
from headrace.ops.axes import known_rank
from headrace.ops.dtypes import astype
from headrace.types import DTypeLike, as_dtype

__all__ = ["asarray", "empty", "empty_like", "tril", "triu"]


def asarray(
    obj: TensorLike, *, dtype: DTypeLike | None = None, copy: bool | None = None, name: str | None = None
) -> Tensor:
    """A value as a tensor of the graph that is being built.

    Args:
      obj: a tensor, variable, array, Python number, text, or nested sequence of these.
      dtype: the element type to convert to; by default that of the value.
      copy: makes no difference: a tensor is a value, which nothing can change.
      name: the operation's name, where there is something to convert.
    Returns:
      The value's shape. `hr.convert_to_tensor` refuses another dtype instead of converting.
    Raises:
      DTypeError: a Python value does not fit the dtype.

    Example:
      >>> import headrace as hr, numpy as np
      >>> with hr.Graph().as_default():
      ...     print(hr.asarray(np.arange(3), dtype=hr.float32).spec)
      float32[3]
    """
    if dtype is None:
        return convert_to_tensor(obj)
    if hasattr(obj, "dtype"):
        return astype(obj, dtype, name=name)
    return convert_to_tensor(obj, as_dtype(dtype))


def empty(shape: TensorLike, dtype: DTypeLike = types.float32, *, name: str | None = None) -> Tensor:
    """A tensor whose elements do not matter; they are zeros, so that every step gives the same.

    Args:
      shape: as of `full`.
      dtype: the element type.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.empty([2, 3], hr.int32).spec)
      int32[2, 3]
    """
    return zeros(shape, dtype, name=name)


def empty_like(x: TensorLike, *, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """A tensor of the shape of `x` whose elements do not matter; see `empty`.

    Args:
      x: any dtype and shape.
      dtype: the element type; by default that of `x`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.empty_like([1.5, 2.5]).spec)
      float32[2]
    """
    return zeros_like(x, dtype=dtype, name=name)


def tril(x: TensorLike, *, k: int = 0, name: str | None = None) -> Tensor:
    """The lower triangle of each matrix, with zeros above it.

    Args:
      x: any dtype `[..., m, n]`.
      k: the last diagonal that stays: 0 is the main one, 1 the one above it, -1 the one below.
      name: the operation's name.
    Returns:
      The same shape. What was infinite or NaN above the diagonal is zero too.
    Raises:
      ShapeError: the rank is less than 2.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.tril([[1, 2], [3, 4]])
      >>> print(hr.Session(graph).run(y))
      [[1 0]
       [3 4]]
    """
    return _triangle("LessEqual", x, k, "tril", name)


def triu(x: TensorLike, *, k: int = 0, name: str | None = None) -> Tensor:
    """The upper triangle of each matrix, with zeros below it; `k` is the first diagonal that stays; see `tril`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.triu([[1, 2], [3, 4]])
      >>> print(hr.Session(graph).run(y))
      [[1 2]
       [0 4]]
    """
    return _triangle("GreaterEqual", x, k, "triu", name)


def _triangle(comparison: str, x: TensorLike, k: int, what: str, name: str | None) -> Tensor:
    """Choose by the number of the diagonal, column minus row; `MatrixBandPart` cannot leave the main one out."""
    tensor = convert_to_tensor(x)
    known_rank(tensor, what, least=2)
    sizes: Tensor = apply_op("Shape", tensor)
    rows, columns = (apply_op("Range", 0, sizes[axis], 1) for axis in (-2, -1))
    chosen = apply_op(comparison, apply_op("Sub", columns, apply_op("ExpandDims", rows, 1)), k)
    result: Tensor = apply_op("SelectV2", chosen, tensor, apply_op("ZerosLike", tensor), name=name)
    return result
