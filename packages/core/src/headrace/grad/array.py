"""Gradient rules of operations that create tensors and tell about them."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__ = ["sum_all"]

no_gradient("Const", "a constant has no inputs")
no_gradient("Placeholder", "a placeholder has no inputs")
for _name in ("Shape", "ShapeN", "Size", "Rank"):
    no_gradient(_name, "its output is an integer and depends on no value")
for _name in ("ZerosLike", "OnesLike"):
    no_gradient(_name, "its output does not depend on the values of its input")


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
