"""Gradient rules of operations that turn axes around: each is undone by itself."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


@register_gradient("ReverseV2")
def _reverse(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Reversed again."""
    return [apply_op("ReverseV2", g, op.inputs[1]), None]


@register_gradient("ReverseSequence")
def _reverse_sequence(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Reversed again."""
    attrs = {name: op.attr(name) for name in ("seq_dim", "batch_dim")}
    return [apply_op("ReverseSequence", g, op.inputs[1], **attrs), None]


@register_gradient("Roll")
def _roll(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Rolled back."""
    return [apply_op("Roll", g, apply_op("Neg", op.inputs[1]), op.inputs[2]), None, None]
