"""Gradient rules of operations that convert elements or check them."""

from __future__ import annotations

from headrace.grad.array import sum_all
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("Bitcast", "the bits of a number are not a smooth function of it")


@register_gradient("Cast")
def _cast(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Between floating and complex dtypes the gradient is converted back; an integer has no slope."""
    source, target = op.inputs[0].dtype, op.outputs[0].dtype
    if not (source.is_differentiable and target.is_differentiable):
        return [None]
    return [g if source is target else apply_op("Cast", g, DstT=source)]


@register_gradient("CheckNumerics")
def _check_numerics(op: Operation, g: Tensor) -> list[Tensor]:
    """The gradient is checked too, since this is where NaN usually appears first."""
    return [apply_op("CheckNumerics", g, message=f"gradient of {op.attr('message')}")]


@register_gradient("EnsureShape")
def _ensure_shape(op: Operation, g: Tensor) -> list[Tensor]:
    """d/dx x = 1."""
    return [g]


@register_gradient("OneHot")
def _one_hot(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each element of y is one of the two values: each collects g where it stands."""
    one, zero = apply_op("OnesLike", op.inputs[2]), apply_op("ZerosLike", op.inputs[2])
    axis = op.attr("axis")
    on = apply_op("OneHot", op.inputs[0], op.inputs[1], one, zero, axis=axis)
    off = apply_op("OneHot", op.inputs[0], op.inputs[1], zero, one, axis=axis)
    return [None, None, sum_all(apply_op("Mul", g, on)), sum_all(apply_op("Mul", g, off))]
