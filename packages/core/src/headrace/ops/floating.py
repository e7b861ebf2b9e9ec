"""Floating point numbers: their signs and neighbours, lengths, and logarithms to other bases."""

from __future__ import annotations

import math

from headrace.errors import DTypeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Tensor
from headrace.ops.complex import complex as complex_of
from headrace.ops.complex import imag, real
from headrace.ops.math import abs as absolute
from headrace.ops.math import register_binary
from headrace.ops.promotion import promoted
from headrace.types import DType, bfloat16, float16, float32, float64, int16, int32, int64

__all__ = ["copysign", "hypot", "log2", "log10", "logaddexp", "nextafter", "signbit"]

register_binary(
    "NextAfter",
    attr.type(float64, float32, default=float32),
    "The neighbour of x in the direction of y: the next number there is; y where they are equal.",
)

_BITS = {float16: int16, bfloat16: int16, float32: int32, float64: int64}


def nextafter(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The next number there is after x in the direction of y, element by element.

    Args:
      x: float32 or float64, any shape.
      y: the same dtype, a shape that broadcasts with that of `x`.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape; y where the two are equal, NaN if either is. The gradient goes to x.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.nextafter(1.0, 2.0)
      >>> print(hr.Session(graph).run(z) - 1)
      1.1920929e-07
    """
    result: Tensor = apply_op("NextAfter", *promoted(x, y), name=name)
    return result


def signbit(x: TensorLike, *, name: str | None = None) -> Tensor:
    """True where the sign of a number is minus, element by element: of -0.0 and of negative NaN too.

    Args:
      x: floating, any shape.
      name: the operation's name.
    Returns:
      bool, the same shape.
    Raises:
      DTypeError: x is not floating.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.signbit([-0.0, 0.0, -1.0])
      >>> print(hr.Session(graph).run(y))
      [ True False  True]
    """
    (value,) = promoted(x)
    bits = apply_op("Bitcast", value, type=_BITS[_floating(value, "signbit").dtype])
    result: Tensor = apply_op("Less", bits, 0, name=name)
    return result


def copysign(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The magnitude of x with the sign of y, element by element.

    Args:
      x: floating, any shape.
      y: floating, a shape that broadcasts with that of `x`; the sign of zeros and of NaN counts.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape. The gradient by x is 1 or -1, that by y is 0.
    Raises:
      DTypeError: the promoted dtype is not floating.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.copysign([1.0, -2.0], [-0.0, 5.0])
      >>> print(hr.Session(graph).run(z))
      [-1.  2.]
    """
    value, sign = promoted(x, y)
    _floating(value, "copysign")
    same = apply_op("Equal", signbit(value), signbit(sign))
    result: Tensor = apply_op("SelectV2", same, value, apply_op("Neg", value), name=name)
    return result


def hypot(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The root of x**2 + y**2, element by element, where the squares would overflow or vanish too.

    Args:
      x: floating, any shape.
      y: floating, a shape that broadcasts with that of `x`.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape. Infinity if either is infinite, even beside NaN; the gradient where
      both are 0 is 0.
    Raises:
      DTypeError: the promoted dtype is not floating.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.hypot([3.0, 3e30], [4.0, 4e30])
      >>> print(hr.Session(graph).run(z))
      [5.e+00 5.e+30]
    """
    first, second = promoted(x, y)
    dtype = _floating(first, "hypot").dtype
    return _narrowed(absolute(complex_of(_wide(first), _wide(second))), dtype, name)


def logaddexp(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """log(exp(x) + exp(y)), element by element, without overflow.

    Args:
      x: floating, any shape.
      y: floating, a shape that broadcasts with that of `x`.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape.
    Raises:
      DTypeError: the promoted dtype is not floating.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.logaddexp([1000.0, 0.0], [1000.0, -1000.0])
      >>> print(hr.Session(graph).run(z).round(2))
      [1000.69    0.  ]
    """
    first, second = promoted(x, y)
    _floating(first, "logaddexp")
    # The larger one plus log(1 + exp(-|difference|)); equal infinities differ by 0, not by NaN.
    equal_infinities = apply_op("LogicalAnd", apply_op("IsInf", first), apply_op("Equal", first, second))
    difference = apply_op("Sub", first, second)
    difference = apply_op("SelectV2", equal_infinities, apply_op("ZerosLike", difference), difference)
    first_is_larger = apply_op("GreaterEqual", first, second)
    larger = apply_op("SelectV2", first_is_larger, first, second)
    below = apply_op("SelectV2", first_is_larger, apply_op("Neg", difference), difference)
    result: Tensor = apply_op("AddV2", larger, apply_op("Softplus", below), name=name)
    return result


def log2(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The logarithm of x to the base 2, element by element.

    Args:
      x: floating or complex, any shape.
      name: the operation's name.
    Returns:
      The same dtype and shape; minus infinity of 0, NaN of negative numbers.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.log2([1.0, 8.0])
      >>> print(hr.Session(graph).run(y))
      [0. 3.]
    """
    return _logarithm(x, 2, name)


def log10(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The logarithm of x to the base 10, element by element; see `log2`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.log10([1.0, 100.0])
      >>> print(hr.Session(graph).run(y))
      [0. 2.]
    """
    return _logarithm(x, 10, name)


def _logarithm(x: TensorLike, base: int, name: str | None) -> Tensor:
    """A complex logarithm is divided part by part: complex division would make NaN of an infinite part."""
    (value,) = promoted(x)
    unit = math.log(base)
    if value.dtype.is_complex:
        logarithm: Tensor = apply_op("Log", value)
        return complex_of(real(logarithm) / unit, imag(logarithm) / unit, name=name)
    logarithm = apply_op("Log", _wide(value))
    return _narrowed(logarithm / unit, value.dtype, name)


def _wide(x: Tensor) -> Tensor:
    """float16 and bfloat16 are computed in float32 and rounded once."""
    result: Tensor = apply_op("Cast", x, DstT=float32) if x.dtype in (float16, bfloat16) else x
    return result


def _narrowed(x: Tensor, dtype: DType, name: str | None) -> Tensor:
    result: Tensor = apply_op("Cast", x, DstT=dtype, name=name) if x.dtype is not dtype else x
    return result


def _floating(x: Tensor, what: str) -> Tensor:
    if not x.dtype.is_floating:
        raise DTypeError(
            f"{what} takes floating numbers",
            where=x.op.location,
            expected="a floating dtype",
            got=str(x.spec),
            hint="hr.astype(x, hr.float32)",
        )
    return x
