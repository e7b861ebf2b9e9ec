"""Gradient rules of the quantiles family: 1 over the derivative of the function that is inverted."""

from __future__ import annotations

import math

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


def _growth(g: Tensor, square: Tensor, factor: float) -> list[Tensor]:
    growth: Tensor = apply_op("Exp", square)
    return [g * growth * factor]


@register_gradient("Erfinv")
def _erfinv(op: Operation, g: Tensor) -> list[Tensor]:
    """With y = erfinv(x): sqrt(pi) / 2 * exp(y²)."""
    return _growth(g, apply_op("Square", op.outputs[0]), math.sqrt(math.pi) / 2)


@register_gradient("Ndtri")
def _ndtri(op: Operation, g: Tensor) -> list[Tensor]:
    """With y = ndtri(p): sqrt(2 pi) * exp(y² / 2)."""
    return _growth(g, apply_op("Square", op.outputs[0]) * 0.5, math.sqrt(2 * math.pi))
