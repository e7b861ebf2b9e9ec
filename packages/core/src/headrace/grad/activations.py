"""Gradient rules of the element-wise nonlinearities; g, the output's gradient, has the shape of everything else."""

from __future__ import annotations

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
