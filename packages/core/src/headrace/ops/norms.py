"""Norms: the size of vectors and of matrices."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.ops.axes import known_rank
from headrace.ops.factorization import svdvals
from headrace.ops.math import abs as absolute
from headrace.ops.reduction import Axis, axes_of
from headrace.ops.reduction import max as largest
from headrace.ops.reduction import min as smallest
from headrace.ops.reduction import sum as total
from headrace.types import float32

__all__ = ["matrix_norm", "vector_norm"]

_INFINITY = float("inf")


def vector_norm(
    x: TensorLike, *, axis: Axis = None, keepdims: bool = False, ord: float = 2, name: str | None = None
) -> Tensor:
    """The length of x as a vector.

    Args:
      x: numeric, any shape; integers become float32.
      axis: the axes that are taken together as one vector; all of them by default.
      keepdims: leave the reduced axes in the shape, with size 1.
      ord: p, for the p-th root of the sum of absolute values to the power p: 2 for the usual length. Infinity gives the
        largest absolute value, minus infinity the smallest, 0 the number of elements that are not 0.
      name: the operation's name.
    Returns:
      The floating dtype (real of complex numbers), the shape of `x` without the reduced axes. The gradient of the usual
      length is 0 where that is 0, the shortest subgradient.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.vector_norm([3.0, 4.0])
      >>> print(hr.Session(graph).run(y))
      5.0
    """
    sizes = _sizes(x)
    if ord == 2:
        length: Tensor = apply_op("EuclideanNorm", sizes, axes_of(sizes, axis), keep_dims=keepdims, name=name)
        return length
    if ord in (_INFINITY, -_INFINITY):
        extreme = largest if ord > 0 else smallest
        return extreme(sizes, axis=axis, keepdims=keepdims, name=name)
    if ord == 0:
        counted = apply_op("Cast", apply_op("NotEqual", sizes, 0), DstT=sizes.dtype)
        return total(counted, axis=axis, keepdims=keepdims, name=name)
    if ord == 1:
        return total(sizes, axis=axis, keepdims=keepdims, name=name)
    powers = total(apply_op("Pow", sizes, float(ord)), axis=axis, keepdims=keepdims)
    result: Tensor = apply_op("Pow", powers, 1 / float(ord), name=name)
    return result


def matrix_norm(
    x: TensorLike, *, keepdims: bool = False, ord: float | str | None = "fro", name: str | None = None
) -> Tensor:
    """The size of matrices.

    Args:
      x: numeric `[..., m, n]`; integers become float32.
      keepdims: leave the last two axes in the shape, with size 1.
      ord: `"fro"` for the root of the sum of squares, `"nuc"` for the sum of singular values, 2 and -2 for the largest
        and the smallest of these, 1 and -1 for the largest and the smallest sum of absolute values of a column,
        infinity and minus infinity for those of a row.
      name: the operation's name.
    Returns:
      The floating dtype (real of complex numbers), `[...]`.
    Raises:
      InvalidArgumentError: `ord` is something else.
      ShapeError: the rank is less than 2, or not known.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.matrix_norm([[1.0, -2.0], [3.0, 4.0]], ord=1)
      >>> print(hr.Session(graph).run(y))
      6.0
    """
    tensor = convert_to_tensor(x)
    known_rank(tensor, "matrix_norm", least=2)
    if ord in ("fro", None):
        return vector_norm(tensor, axis=(-2, -1), keepdims=keepdims, name=name)
    if ord in (1, -1, _INFINITY, -_INFINITY):
        summed = -2 if abs(float(ord)) == 1 else -1
        lines = total(_sizes(tensor), axis=summed, keepdims=True)
        extreme = largest if ord in (1, _INFINITY) else smallest
        return extreme(lines, axis=(-2, -1), keepdims=keepdims, name=name)
    reductions = {"nuc": total, 2: largest, -2: smallest}
    if ord not in reductions:
        raise InvalidArgumentError(
            "there is no matrix norm of that order",
            expected="'fro', 'nuc', 1, -1, 2, -2, inf or -inf",
            got=f"ord {ord!r}",
            hint="hr.linalg.vector_norm(x, axis=(-2, -1), ord=...) takes every power, over all elements",
        )
    values = svdvals(tensor if tensor.dtype.is_differentiable else apply_op("Cast", tensor, DstT=float32))
    reduced = reductions[ord](values, axis=-1, keepdims=keepdims, name=None if keepdims else name)
    return reduced if not keepdims else apply_op("ExpandDims", reduced, -1, name=name)


def _sizes(x: TensorLike) -> Tensor:
    """The absolute values, as floating numbers."""
    tensor = convert_to_tensor(x)
    return absolute(tensor if tensor.dtype.is_differentiable else apply_op("Cast", tensor, DstT=float32))
