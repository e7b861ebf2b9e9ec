"""Gradient rules of operations that choose elements by a condition."""

from __future__ import annotations

from headrace.grad.broadcast import sum_to_operand
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("Where", "coordinates are integers")


@register_gradient("SelectV2")
def _select_v2(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each of t and e gets g where it was chosen, zeros elsewhere, summed over the axes along which it was repeated."""
    condition, first, second = op.inputs
    zeros = apply_op("ZerosLike", g)
    return [
        None,
        sum_to_operand(apply_op("SelectV2", condition, g, zeros), first, g),
        sum_to_operand(apply_op("SelectV2", condition, zeros, g), second, g),
    ]


@register_gradient("Select")
def _select(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each of t and e gets g where it was chosen, zeros elsewhere."""
    zeros = apply_op("ZerosLike", g)
    condition = op.inputs[0]
    return [None, apply_op("Select", condition, g, zeros), apply_op("Select", condition, zeros, g)]
