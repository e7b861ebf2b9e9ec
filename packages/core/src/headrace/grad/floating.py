"""Gradient rules of the floating family."""

from __future__ import annotations

from headrace.grad.broadcast import sum_to_operand
from headrace.grad.registry import register_gradient
from headrace.graph.operation import Operation, Tensor


@register_gradient("NextAfter")
def _next_after(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The neighbour of x moves with x; y only says which of the two it is."""
    x, y = op.inputs
    return [sum_to_operand(g, x, y), None]
