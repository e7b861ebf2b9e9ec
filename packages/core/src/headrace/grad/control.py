"""Gradient rules of the control family."""

from __future__ import annotations

from headrace.errors import GradientError
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.operation import Operation, Tensor

no_gradient("NoOp", "it has no output")
no_gradient("StopGradient", "hr.stop_gradient makes its input a constant")
no_gradient("_Arg", "an argument has no inputs")
no_gradient("_Retval", "it has no output")


@register_gradient("Identity", sparse=True)
def _identity(op: Operation, g: Tensor) -> list[Tensor]:
    """d/dx x = 1."""
    return [g]


@register_gradient("PreventGradient")
def _prevent_gradient(op: Operation, g: Tensor) -> list[Tensor]:
    raise GradientError(
        f"differentiation reached '{op.name}', which forbids it",
        where=op.location,
        expected="no path from a source through it",
        got=op.attr("message") or "no message",
        hint="cut the path before it with hr.stop_gradient, or name its result in stop_gradients",
    )
