"""Gradient rules of the element-wise nonlinearities; g, the output's gradient, has the shape of everything else."""

from __future__ import annotations

import math

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []


def _register_piecewise_linear(op_type: str, *, by_output: bool) -> None:
    """A function of straight pieces: the second derivative is zero between the kinks.

    The rule of Relu and Relu6 reads the output, which shows the piece as well as the input does, so that the input's
    memory is free earlier.
    """

    @register_gradient(op_type)
    def of_function(op: Operation, g: Tensor) -> list[Tensor]:
        return [_gradient(op, f"{op_type}Grad", g, op.outputs[0] if by_output else op.inputs[0])]

    @register_gradient(f"{op_type}Grad")
    def of_gradient(op: Operation, g: Tensor) -> list[Tensor | None]:
        return [_gradient(op, op.type, g, op.inputs[1]), None]


def _gradient(op: Operation, op_type: str, g: Tensor, x: Tensor) -> Tensor:
    attrs = {"alpha": op.attrs["alpha"]} if "alpha" in op.attrs else {}
    result: Tensor = apply_op(op_type, g, x, **attrs)
    return result


_register_piecewise_linear("Relu", by_output=True)
_register_piecewise_linear("Relu6", by_output=True)
_register_piecewise_linear("LeakyRelu", by_output=False)


def _register_exponential(op_type: str) -> None:
    """Elu and Selu: below 0 the derivative is y + c, so the second derivative by y is 1 there and 0 above."""

    @register_gradient(op_type)
    def of_function(op: Operation, g: Tensor) -> list[Tensor]:
        return [apply_op(f"{op_type}Grad", g, op.outputs[0])]

    @register_gradient(f"{op_type}Grad")
    def of_gradient(op: Operation, g: Tensor) -> list[Tensor]:
        dy, y = op.inputs
        product = apply_op("Mul", g, dy)
        bent = apply_op("SelectV2", apply_op("Less", y, 0.0), product, apply_op("ZerosLike", product))
        return [apply_op(op.type, g, y), bent]


_register_exponential("Elu")
_register_exponential("Selu")


@register_gradient("Gelu")
def _gelu(op: Operation, g: Tensor) -> list[Tensor]:
    """An operation of its own, as for the others."""
    return [apply_op("GeluGrad", g, op.inputs[0], approximate=op.attrs["approximate"])]


@register_gradient("GeluGrad")
def _gelu_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """The second derivative is f(x) (2 - x**2) with the normal density f; of the approximation see `_gelu_bend`."""
    dy, x = op.inputs
    approximate = op.attrs["approximate"]
    if approximate:
        bend = _gelu_bend(x)
    else:
        square = apply_op("Square", x)
        density = apply_op("Mul", apply_op("Exp", apply_op("Mul", square, -0.5)), 1 / math.sqrt(2 * math.pi))
        bend = apply_op("Mul", density, apply_op("Sub", 2.0, square))
    by_features = apply_op("Mul", apply_op("Mul", g, dy), bend)
    return [apply_op("GeluGrad", g, x, approximate=approximate), by_features]


def _gelu_bend(x: Tensor) -> Tensor:
    """With t = tanh(u(x)): d2/dx2 x (1 + t) / 2 = (1 - t**2) (u' + x (u'' / 2 - t u'**2))."""
    root, cubic = math.sqrt(2 / math.pi), 0.044715
    square = apply_op("Square", x)
    u = apply_op("Mul", apply_op("Mul", x, apply_op("AddV2", apply_op("Mul", square, cubic), 1.0)), root)
    slope = apply_op("Mul", apply_op("AddV2", apply_op("Mul", square, 3 * cubic), 1.0), root)
    t = apply_op("Tanh", u)
    turn = apply_op("Sub", apply_op("Mul", x, 3 * root * cubic), apply_op("Mul", t, apply_op("Square", slope)))
    inner = apply_op("AddV2", slope, apply_op("Mul", x, turn))
    result: Tensor = apply_op("Mul", apply_op("Sub", 1.0, apply_op("Square", t)), inner)
    return result


@register_gradient("Softplus")
def _softplus(op: Operation, g: Tensor) -> list[Tensor]:
    """d/dx log(1 + exp x) = s, s = 1 / (1 + exp -x)."""
    return [apply_op("SoftplusGrad", g, op.inputs[0])]


@register_gradient("SoftplusGrad")
def _softplus_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """d/dx (dy s) = dy s (1 - s), and 1 - s(x) = s(-x)."""
    dy, x = op.inputs
    by_features = apply_op("SoftplusGrad", apply_op("SoftplusGrad", apply_op("Mul", g, dy), x), apply_op("Neg", x))
    return [apply_op("SoftplusGrad", g, x), by_features]


@register_gradient("Softsign")
def _softsign(op: Operation, g: Tensor) -> list[Tensor]:
    """d/dx x / (1 + |x|) = 1 / (1 + |x|)**2."""
    return [apply_op("SoftsignGrad", g, op.inputs[0])]


@register_gradient("SoftsignGrad")
def _softsign_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """d/dx dy (1 + |x|)**-2 = -2 sign(x) dy (1 + |x|)**-3."""
    dy, x = op.inputs
    square = apply_op("SoftsignGrad", apply_op("Mul", g, dy), x)
    cube = apply_op("RealDiv", square, apply_op("AddV2", apply_op("Abs", x), 1.0))
    return [apply_op("SoftsignGrad", g, x), apply_op("Mul", apply_op("Mul", cube, apply_op("Sign", x)), -2.0)]
