"""Gradient rules of operations that choose elements by a condition."""

from __future__ import annotations

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
        _summed_to(first, apply_op("SelectV2", condition, g, zeros)),
        _summed_to(second, apply_op("SelectV2", condition, zeros, g)),
    ]


def _summed_to(x: Tensor, g: Tensor) -> Tensor:
    if x.shape.is_fully_defined and x.shape == g.shape:
        return g
    shape = apply_op("Shape", x)
    repeated, _ = apply_op("BroadcastGradientArgs", shape, apply_op("Shape", g))
    summed: Tensor = apply_op("Reshape", apply_op("Sum", g, repeated), shape)
    return summed


@register_gradient("Select")
def _select(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each of t and e gets g where it was chosen, zeros elsewhere."""
    zeros = apply_op("ZerosLike", g)
    condition = op.inputs[0]
    return [None, apply_op("Select", condition, g, zeros), apply_op("Select", condition, zeros, g)]
