"""Gradient rules of the elementary family; g is the gradient that arrives at the output y = f(x)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from headrace.grad.broadcast import broadcast_gradients, conjugate, sum_to_operand
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


def _op(op_type: str, *inputs: Any) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs)
    return result


_CONJUGATED_HERE = ("TanhGrad", "SigmoidGrad")
"""They are given the conjugate of y; the other slope operations take it themselves."""


def _by_output(op_type: str, slope_type: str) -> None:
    """The gradient is an operation of its own that takes the output y."""

    def rule(op: Operation, g: Tensor) -> list[Tensor]:
        y = op.outputs[0]
        return [_op(slope_type, conjugate(y) if slope_type in _CONJUGATED_HERE else y, g)]

    register_gradient(op_type)(rule)


for _type, _slope_type in {
    "Tanh": "TanhGrad",
    "Sigmoid": "SigmoidGrad",
    "Sqrt": "SqrtGrad",
    "Rsqrt": "RsqrtGrad",
    "Reciprocal": "ReciprocalGrad",
    "Inv": "ReciprocalGrad",
}.items():
    _by_output(_type, _slope_type)


def _by_input(op_type: str, gradient: Callable[[Tensor, Tensor], Tensor]) -> None:
    """`gradient(g, x)` is g times the derivative at x; of complex functions at the conjugate of x."""

    def rule(op: Operation, g: Tensor) -> list[Tensor]:
        return [gradient(g, conjugate(op.inputs[0]))]

    register_gradient(op_type)(rule)


_TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)
_by_input("Expm1", lambda g, x: g * _op("Exp", x))
_by_input("Log", lambda g, x: g / x)
_by_input("Log1p", lambda g, x: g / (x + 1))
_by_input("Sin", lambda g, x: g * _op("Cos", x))
_by_input("Cos", lambda g, x: -g * _op("Sin", x))
_by_input("Tan", lambda g, x: g / _op("Square", _op("Cos", x)))
_by_input("Asin", lambda g, x: g / _op("Sqrt", 1 - _op("Square", x)))
_by_input("Acos", lambda g, x: -g / _op("Sqrt", 1 - _op("Square", x)))
_by_input("Atan", lambda g, x: g / (_op("Square", x) + 1))
_by_input("Sinh", lambda g, x: g * _op("Cosh", x))
_by_input("Cosh", lambda g, x: g * _op("Sinh", x))
_by_input("Asinh", lambda g, x: g / _op("Cosh", _op("Asinh", x)))
_by_input("Acosh", lambda g, x: g / _op("Sinh", _op("Acosh", x)))
_by_input("Atanh", lambda g, x: g / (1 - _op("Square", x)))
_by_input("Erf", lambda g, x: g * _op("Exp", -_op("Square", x)) * _TWO_BY_ROOT_PI)
_by_input("Erfc", lambda g, x: -g * _op("Exp", -_op("Square", x)) * _TWO_BY_ROOT_PI)
_by_input("Lgamma", lambda g, x: g * _op("Digamma", x))
_by_input("Digamma", lambda g, x: g * _op("Polygamma", 1.0, x))


@register_gradient("Exp")
def _exp(op: Operation, g: Tensor) -> list[Tensor]:
    """d exp(x) = y dx."""
    return [g * conjugate(op.outputs[0])]


@register_gradient("Atan2")
def _atan2(op: Operation, g: Tensor) -> list[Tensor]:
    """d atan2(y, x) = (x dy - y dx) / (x**2 + y**2)."""
    y, x = op.inputs
    slope = g / (_op("Square", x) + _op("Square", y))
    return broadcast_gradients(y, x, slope * x, -slope * y)


@register_gradient("Xlogy")
def _xlogy(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x log(y)) = log(y) dx + x / y dy; both 0 where x is 0."""
    x, y = op.inputs

    return broadcast_gradients(x, y, g * conjugate(_op("Xlogy", _nonzero(x), y)), g * conjugate(_op("Xdivy", x, y)))


@register_gradient("Xdivy")
def _xdivy(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x / y) = dx / y - x / y**2 dy; both 0 where x is 0."""
    x, y = op.inputs
    by_x = conjugate(_op("Xdivy", _nonzero(x), y))
    by_y = conjugate(_op("Xdivy", -x, _op("Square", y)))
    return broadcast_gradients(x, y, g * by_x, g * by_y)


def _nonzero(x: Tensor) -> Tensor:
    """1 where x differs from 0, else 0, in x's dtype."""
    result: Tensor = apply_op("Cast", apply_op("NotEqual", x, apply_op("ZerosLike", x)), DstT=x.dtype)
    return result


@register_gradient("Polygamma")
def _polygamma(op: Operation, g: Tensor) -> list[Tensor | None]:
    """By x the polygamma of the next order; the order itself is a whole number."""
    order, x = op.inputs
    return [None, sum_to_operand(g * _op("Polygamma", order + 1, x), x, order)]


@register_gradient("Zeta")
def _zeta(op: Operation, g: Tensor) -> list[Tensor | None]:
    """By q: -x zeta(x + 1, q). The derivative by x is not among the operations."""
    x, q = op.inputs
    return [None, sum_to_operand(-g * x * _op("Zeta", x + 1, q), q, x)]


@register_gradient("TanhGrad")
def _tanh_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """d(dy (1 - y**2)) = -2 dy y d(y) + (1 - y**2) d(dy)."""
    y, dy = conjugate(op.inputs[0]), conjugate(op.inputs[1])
    return [g * dy * y * -2, _op("TanhGrad", y, g)]


@register_gradient("SigmoidGrad")
def _sigmoid_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """d(dy y (1 - y)) = dy (1 - 2 y) d(y) + y (1 - y) d(dy)."""
    y, dy = conjugate(op.inputs[0]), conjugate(op.inputs[1])
    return [g * dy * (1 - y * 2), _op("SigmoidGrad", y, g)]


# The next three take the conjugate of y, so the gradient by y is the conjugate of that by the conjugate.


@register_gradient("SqrtGrad")
def _sqrt_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """d(dy / (2 y)) = -z / y d(y) + 1 / (2 y) d(dy), where z is the output."""
    slope = g / op.inputs[0]
    return [-conjugate(slope) * op.outputs[0], slope * 0.5]


@register_gradient("RsqrtGrad")
def _rsqrt_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """d(-dy y**3 / 2) = -3/2 dy y**2 d(y) - y**3 / 2 d(dy)."""
    y, dy = conjugate(op.inputs[0]), op.inputs[1]
    return [conjugate(g) * dy * _op("Square", y) * -1.5, _op("RsqrtGrad", y, g)]


@register_gradient("ReciprocalGrad")
@register_gradient("InvGrad")
def _reciprocal_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """d(-dy y**2) = -2 dy y d(y) - y**2 d(dy)."""
    y, dy = conjugate(op.inputs[0]), op.inputs[1]
    return [conjugate(g) * dy * y * -2, _op("ReciprocalGrad", y, g)]
