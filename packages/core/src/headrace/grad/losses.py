"""Gradient rules of softmax and the losses."""

from __future__ import annotations

from headrace.grad.broadcast import sum_to_operand
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []

no_gradient("InTopKV2", "its output is a bool")


def _rows_sum(x: Tensor) -> Tensor:
    result: Tensor = apply_op("Sum", x, [-1], keep_dims=True)
    return result


def _column(x: Tensor) -> Tensor:
    """`[batch]` as `[batch, 1]`."""
    result: Tensor = apply_op("ExpandDims", x, -1)
    return result


def _is_zero(gradient: Tensor) -> bool:
    """True if no gradient arrived at an output: the walk puts zeros there, and a term that nobody needs is left out."""
    return gradient.op.type == "ZerosLike"


@register_gradient("Softmax")
def _softmax(op: Operation, g: Tensor) -> list[Tensor]:
    """y = softmax(x): dx = (g - sum(g y)) y."""
    return [_through_softmax(op.outputs[0], g)]


def _through_softmax(y: Tensor, g: Tensor) -> Tensor:
    result: Tensor = apply_op("Mul", apply_op("Sub", g, _rows_sum(apply_op("Mul", g, y))), y)
    return result


@register_gradient("LogSoftmax")
def _log_softmax(op: Operation, g: Tensor) -> list[Tensor]:
    """y = x - log(sum(exp(x))): dx = g - sum(g) exp(y)."""
    return [apply_op("Sub", g, apply_op("Mul", _rows_sum(g), apply_op("Exp", op.outputs[0])))]


@register_gradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(op: Operation, g: Tensor, g_backprop: Tensor) -> list[Tensor | None]:
    """The loss has the second output as gradient; that one, softmax(x) - onehot, is differentiated as a softmax."""
    dx = apply_op("Mul", _column(g), op.outputs[1])
    if not _is_zero(g_backprop):
        dx = apply_op("AddV2", dx, _through_softmax(apply_op("Softmax", op.inputs[0]), g_backprop))
    return [dx, None]


@register_gradient("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(op: Operation, g: Tensor, g_backprop: Tensor) -> list[Tensor]:
    """By x as for the sparse labels; by the labels -log_softmax(x) from the loss, and -1 from softmax(x) - labels."""
    x, labels = op.inputs
    dx = apply_op("Mul", _column(g), op.outputs[1])
    dlabels = apply_op("Mul", _column(g), apply_op("Neg", apply_op("LogSoftmax", x)))
    if not _is_zero(g_backprop):
        dx = apply_op("AddV2", dx, _through_softmax(apply_op("Softmax", x), g_backprop))
        dlabels = apply_op("Sub", dlabels, g_backprop)
    return [sum_to_operand(dx, x, dx), sum_to_operand(dlabels, labels, dlabels)]


@register_gradient("L2Loss")
def _l2_loss(op: Operation, g: Tensor) -> list[Tensor]:
    """d/dt sum(t**2) / 2 = t."""
    return [apply_op("Mul", op.inputs[0], g)]
