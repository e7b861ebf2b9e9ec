"""Inverses of distribution functions, element by element."""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Tensor
from headrace.ops.math import register_unary

__all__ = ["erfinv", "ndtri"]

register_unary("Erfinv", attr.floating, "The number whose erf is x; infinite at -1 and 1, NaN beyond.")
register_unary("Ndtri", attr.floating, "The x-quantile of the standard normal distribution; infinite at 0 and 1.")


def erfinv(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The inverse of the error function.

    Args:
      x: floating, in [-1, 1]; beyond it is NaN.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.erf(hr.erfinv([0.0, 0.5, -0.25]))
      >>> print(hr.Session(graph).run(y))
      [ 0.    0.5  -0.25]
    """
    result: Tensor = apply_op("Erfinv", x, name=name)
    return result


def ndtri(p: TensorLike, *, name: str | None = None) -> Tensor:
    """The quantile of the standard normal distribution: below it lies the probability p.

    Args:
      p: floating, in [0, 1]; beyond it is NaN.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.ndtri([0.5, 0.975])
      >>> print(hr.Session(graph).run(y))
      [0.        1.9599644]
    """
    result: Tensor = apply_op("Ndtri", p, name=name)
    return result
