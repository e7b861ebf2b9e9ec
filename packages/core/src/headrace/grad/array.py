"""Gradient rules of operations that create tensors and tell about them."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("Const", "a constant has no inputs")
no_gradient("Placeholder", "a placeholder has no inputs")
for _name in ("Shape", "ShapeN", "Size", "Rank"):
    no_gradient(_name, "its output is an integer and depends on no value")
for _name in ("ZerosLike", "OnesLike"):
    no_gradient(_name, "its output does not depend on the values of its input")
no_gradient("Range", "its bounds decide how many elements there are")


@register_gradient("PlaceholderWithDefault")
def _placeholder_with_default(op: Operation, g: Tensor) -> list[Tensor]:
    """The value is that of the default, or was fed: then nothing asks for this."""
    return [g]


@register_gradient("Fill")
def _fill(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every element of y is the value: dvalue = sum(g)."""
    return [None, sum_all(g)]


def sum_all(x: Tensor) -> Tensor:
    """The sum of all elements, a scalar."""
    total: Tensor = apply_op("Sum", apply_op("Reshape", x, [-1]), [0])
    return total


@register_gradient("LinSpace")
def _lin_space(op: Operation, g: Tensor) -> list[Tensor | None]:
    """y[i] = start (1 - t[i]) + stop t[i] with t from 0 to 1."""
    one = apply_op("OnesLike", op.inputs[0])
    zero = apply_op("ZerosLike", op.inputs[0])
    rising = apply_op("LinSpace", zero, one, op.inputs[2])
    falling = apply_op("Sub", one, rising)
    return [sum_all(apply_op("Mul", g, falling)), sum_all(apply_op("Mul", g, rising)), None]


@register_gradient("OneHot")
def _one_hot(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each element of y is one of the two values: each collects g where it stands."""
    one, zero = apply_op("OnesLike", op.inputs[2]), apply_op("ZerosLike", op.inputs[2])
    axis = op.attr("axis")
    on = apply_op("OneHot", op.inputs[0], op.inputs[1], one, zero, axis=axis)
    off = apply_op("OneHot", op.inputs[0], op.inputs[1], zero, one, axis=axis)
    return [None, None, sum_all(apply_op("Mul", g, on)), sum_all(apply_op("Mul", g, off))]
