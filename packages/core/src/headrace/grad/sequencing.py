"""Gradient rules of the sequencing family."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.operation import Operation, Tensor

no_gradient("Assert", "it has no output")
no_gradient("ControlTrigger", "it has no output")


@register_gradient("IdentityN")
def _identity_n(op: Operation, *grads: Tensor | None) -> list[Tensor | None]:
    """Each input is an output."""
    return list(grads)
