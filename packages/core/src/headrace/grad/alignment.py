"""Gradient rules of the alignment family."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


@register_gradient("CTCLoss")
def _ctc_loss(op: Operation, g: Tensor, _: Tensor | None) -> list[Tensor | None]:
    """The operation gives its own gradient; that has none, and differentiating it is an error."""
    message = "CTCLoss has no second derivative"
    own = apply_op("PreventGradient", op.outputs[1], message=message)
    each = apply_op("ExpandDims", apply_op("ExpandDims", g, 0), -1)
    return [apply_op("Mul", each, own), None, None, None]


no_gradient("CTCGreedyDecoder", "it chooses classes, which are integers")
no_gradient("EditDistance", "it counts differences of discrete sequences")
