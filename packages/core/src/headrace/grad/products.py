"""Gradient rule of the cross product."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


@register_gradient("Cross")
def _cross(op: Operation, g: Tensor) -> list[Tensor]:
    """g . (da x b) = da . (b x g), and g . (a x db) = db . (g x a)."""
    a, b = op.inputs
    return [apply_op("Cross", b, g), apply_op("Cross", g, a)]
