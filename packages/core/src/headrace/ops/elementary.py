"""Element-wise elementary and special functions: roots, exponentials, logarithms, angles, error and gamma functions.

Its length is that of the users' documentation: each function is one statement.
"""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.math import SIGNED, apply_binary, apply_unary, register_binary, register_unary
from headrace.types import Shape, broadcast_shapes, float32, float64

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "lgamma",
    "log",
    "log1p",
    "polygamma",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "xdivy",
    "xlogy",
    "zeta",
]

register_unary("Sqrt", attr.floating_or_complex, "The square root; NaN of negative numbers.")
register_unary("Rsqrt", attr.floating_or_complex, "1 / sqrt(x).")
register_unary("Reciprocal", SIGNED, "1 / x.")
register_unary("Exp", attr.floating_or_complex, "e to the power x.")
register_unary("Expm1", attr.floating_or_complex, "exp(x) - 1, exact near 0.")
register_unary("Log", attr.floating_or_complex, "The natural logarithm; -inf at 0, NaN of negative numbers.")
register_unary("Log1p", attr.floating_or_complex, "log(1 + x), exact near 0.")
register_unary("Sin", attr.floating_or_complex, "The sine of an angle in radians.")
register_unary("Cos", attr.floating_or_complex, "The cosine of an angle in radians.")
register_unary("Tan", attr.floating_or_complex, "The tangent of an angle in radians.")
register_unary("Asin", attr.floating_or_complex, "The angle in radians whose sine is x.")
register_unary("Acos", attr.floating_or_complex, "The angle in radians whose cosine is x.")
register_unary("Atan", attr.floating_or_complex, "The angle in radians whose tangent is x.")
register_unary("Sinh", attr.floating_or_complex, "The hyperbolic sine.")
register_unary("Cosh", attr.floating_or_complex, "The hyperbolic cosine.")
register_unary("Tanh", attr.floating_or_complex, "The hyperbolic tangent; never beyond -1 and 1.")
register_unary("Asinh", attr.floating_or_complex, "The inverse hyperbolic sine.")
register_unary("Acosh", attr.floating_or_complex, "The inverse hyperbolic cosine; NaN below 1.")
register_unary("Atanh", attr.floating_or_complex, "The inverse hyperbolic tangent; NaN outside [-1, 1].")
register_unary("Sigmoid", attr.floating_or_complex, "1 / (1 + exp(-x)).")
register_unary("Erf", attr.floating, "The error function.")
register_unary("Erfc", attr.floating, "1 - erf(x), exact where that is small.")
register_unary("Lgamma", attr.floating, "log(|gamma(x)|); infinite at 0 and the negative integers.")
register_unary("Digamma", attr.floating, "The derivative of log(gamma(x)).")
register_unary("Inv", SIGNED, "The same as Reciprocal.")
register_binary(
    "Atan2", attr.floating, "The angle in radians, from -pi to pi, of the point (y, x); the first input is its height."
)
register_binary("Xlogy", attr.floating_or_complex, "x * log(y), and 0 where x is 0.")
register_binary("Xdivy", attr.floating_or_complex, "x / y, and 0 where x is 0.")


@register_op("Zeta", inputs={"x": "T", "q": "T"}, outputs={"z": "T"}, attrs={"T": attr.type(float32, float64)})
def _zeta_shape(op: InferenceContext) -> list[Shape]:
    """The Hurwitz zeta function, the sum over k >= 0 of (q + k)**-x."""
    return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]


@register_op("Polygamma", inputs={"a": "T", "x": "T"}, outputs={"z": "T"}, attrs={"T": attr.type(float32, float64)})
def _polygamma_shape(op: InferenceContext) -> list[Shape]:
    """The derivative of order a of digamma at x."""
    return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]


def _register_slope(name: str, doc: str) -> None:
    """Register the gradient of an activation in terms of its output y: `y: T, dy: T -> z`."""

    def shape(op: InferenceContext) -> list[Shape]:
        return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]

    shape.__doc__ = doc
    types = {"T": attr.floating_or_complex}
    register_op(name, inputs={"y": "T", "dy": "T"}, outputs={"z": "T"}, attrs=types)(shape)


_register_slope("TanhGrad", "dy * (1 - y**2), the gradient of y = tanh(x).")
_register_slope("SigmoidGrad", "dy * y * (1 - y), the gradient of y = sigmoid(x).")
_register_slope("SqrtGrad", "dy / (2 * y), the gradient of y = sqrt(x).")
_register_slope("RsqrtGrad", "-dy * y**3 / 2, the gradient of y = 1 / sqrt(x).")
_register_slope("ReciprocalGrad", "-dy * y**2, the gradient of y = 1 / x.")
_register_slope("InvGrad", "The same as ReciprocalGrad.")


def sqrt(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The square root of x; NaN where x is negative.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sqrt([4.0, 9.0])
      >>> print(hr.Session(graph).run(y))
      [2. 3.]
    """
    return apply_unary("Sqrt", x, name)


def rsqrt(x: TensorLike, *, name: str | None = None) -> Tensor:
    """1 / sqrt(x).

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.rsqrt([4.0, 16.0])
      >>> print(hr.Session(graph).run(y))
      [0.5  0.25]
    """
    return apply_unary("Rsqrt", x, name)


def reciprocal(x: TensorLike, *, name: str | None = None) -> Tensor:
    """1 / x.

    Element by element; x is numeric, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.reciprocal([4.0, -2.0])
      >>> print(hr.Session(graph).run(y))
      [ 0.25 -0.5 ]
    """
    return apply_unary("Reciprocal", x, name)


def exp(x: TensorLike, *, name: str | None = None) -> Tensor:
    """e to the power x.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.exp([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [1.     2.7183]
    """
    return apply_unary("Exp", x, name)


def expm1(x: TensorLike, *, name: str | None = None) -> Tensor:
    """exp(x) - 1 without the loss of digits near 0.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.expm1([0.0, 1e-10])
      >>> print(hr.Session(graph).run(y))
      [0.e+00 1.e-10]
    """
    return apply_unary("Expm1", x, name)


def log(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The natural logarithm of x; -inf at 0, NaN where x is negative.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.log([1.0, 0.0])
      >>> print(hr.Session(graph).run(y))
      [  0. -inf]
    """
    return apply_unary("Log", x, name)


def log1p(x: TensorLike, *, name: str | None = None) -> Tensor:
    """log(1 + x) without the loss of digits near 0.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.log1p([0.0, 1e-10])
      >>> print(hr.Session(graph).run(y))
      [0.e+00 1.e-10]
    """
    return apply_unary("Log1p", x, name)


def sin(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The sine of x, an angle in radians.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sin([0.0, 1.5707964])
      >>> print(hr.Session(graph).run(y))
      [0. 1.]
    """
    return apply_unary("Sin", x, name)


def cos(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The cosine of x, an angle in radians.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cos([0.0, 3.1415927])
      >>> print(hr.Session(graph).run(y))
      [ 1. -1.]
    """
    return apply_unary("Cos", x, name)


def tan(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The tangent of x, an angle in radians.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.tan([0.0])
      >>> print(hr.Session(graph).run(y))
      [0.]
    """
    return apply_unary("Tan", x, name)


def asin(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The angle in radians, from -pi/2 to pi/2, whose sine is x; NaN outside [-1, 1].

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.asin([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     1.5708]
    """
    return apply_unary("Asin", x, name)


def acos(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The angle in radians, from 0 to pi, whose cosine is x; NaN outside [-1, 1].

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.acos([1.0, 0.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     1.5708]
    """
    return apply_unary("Acos", x, name)


def atan(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The angle in radians, from -pi/2 to pi/2, whose tangent is x.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.atan([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     0.7854]
    """
    return apply_unary("Atan", x, name)


def sinh(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The hyperbolic sine of x.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sinh([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     1.1752]
    """
    return apply_unary("Sinh", x, name)


def cosh(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The hyperbolic cosine of x.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cosh([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [1.     1.5431]
    """
    return apply_unary("Cosh", x, name)


def tanh(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The hyperbolic tangent of x; never beyond -1 and 1.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.tanh([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     0.7616]
    """
    return apply_unary("Tanh", x, name)


def asinh(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The number whose hyperbolic sine is x.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.asinh([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     0.8814]
    """
    return apply_unary("Asinh", x, name)


def acosh(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The number >= 0 whose hyperbolic cosine is x; NaN where x < 1.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.acosh([1.0, 2.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.    1.317]
    """
    return apply_unary("Acosh", x, name)


def atanh(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The number whose hyperbolic tangent is x; infinite at -1 and 1, NaN beyond.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.atanh([0.0, 0.5])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     0.5493]
    """
    return apply_unary("Atanh", x, name)


def sigmoid(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The logistic function 1 / (1 + exp(-x)), which never overflows.

    Element by element; x is floating or complex, the result has its dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sigmoid([0.0, -200.0])
      >>> print(hr.Session(graph).run(y))
      [0.5 0. ]
    """
    return apply_unary("Sigmoid", x, name)


def erf(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The error function: 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    Element by element; x is floating, the result has its dtype and shape.

    Source: NIST Digital Library of Mathematical Functions, chapter 7; how it is computed is said in kernels/special.py.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.erf([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     0.8427]
    """
    return apply_unary("Erf", x, name)


def erfc(x: TensorLike, *, name: str | None = None) -> Tensor:
    """1 - erf(x) without the loss of digits where x is large.

    Element by element; x is floating, the result has its dtype and shape.

    Source: NIST Digital Library of Mathematical Functions, chapter 7; how it is computed is said in kernels/special.py.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.erfc([0.0, 1.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [1.     0.1573]
    """
    return apply_unary("Erfc", x, name)


def lgamma(x: TensorLike, *, name: str | None = None) -> Tensor:
    """log(|gamma(x)|); infinite at 0 and the negative integers.

    Element by element; x is floating, the result has its dtype and shape.

    Source: NIST Digital Library of Mathematical Functions, chapter 5; how it is computed is said in kernels/special.py.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.lgamma([1.0, 5.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [0.     3.1781]
    """
    return apply_unary("Lgamma", x, name)


def digamma(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The derivative of log(gamma(x)).

    Element by element; x is floating, the result has its dtype and shape.

    Source: NIST Digital Library of Mathematical Functions, chapter 5; how it is computed is said in kernels/special.py.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.digamma([1.0, 2.0])
      >>> print(hr.Session(graph).run(y).round(4))
      [-0.5772  0.4228]
    """
    return apply_unary("Digamma", x, name)


def atan2(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The angle in radians, from -pi to pi, of the point whose height is x and whose width is y.

    Element by element; floating, see `hr.add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.atan2([1.0, -1.0], [0.0, -1.0])
      >>> print(hr.Session(graph).run(z).round(4))
      [ 1.5708 -2.3562]
    """
    return apply_binary("Atan2", x, y, name)


def xlogy(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x * log(y), and 0 where x is 0 whatever y is.

    Element by element; floating or complex, see `hr.add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.xlogy([0.0, 2.0], [0.0, 1.0])
      >>> print(hr.Session(graph).run(z))
      [0. 0.]
    """
    return apply_binary("Xlogy", x, y, name)


def zeta(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The Hurwitz zeta function, the sum over k >= 0 of (y + k)**-x.

    Element by element; float32 or float64, see `hr.add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.zeta(2.0, [1.0, 2.0])
      >>> print(hr.Session(graph).run(z).round(4))
      [1.6449 0.6449]
    """
    return apply_binary("Zeta", x, y, name)


def polygamma(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The derivative of order x of digamma at y, for whole x >= 0.

    Element by element; float32 or float64, see `hr.add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.polygamma(1.0, [1.0, 2.0])
      >>> print(hr.Session(graph).run(z).round(4))
      [1.6449 0.6449]
    """
    return apply_binary("Polygamma", x, y, name)


def xdivy(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0 whatever y is.

    Element by element; floating or complex, see `hr.add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.xdivy([0.0, 2.0], [0.0, 4.0])
      >>> print(hr.Session(graph).run(z))
      [0.  0.5]
    """
    return apply_binary("Xdivy", x, y, name)
