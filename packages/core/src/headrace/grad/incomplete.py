"""Gradient rules of the incomplete gamma and beta functions; the derivative by x is a density, by its logarithm."""

from __future__ import annotations

from typing import Any

from headrace.grad.broadcast import broadcast_gradients
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


def _op(op_type: str, *inputs: Any) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs)
    return result


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """x**(a - 1) exp(-x) / gamma(a)."""
    return _op("Exp", _op("Xlogy", a - 1, x) - x - _op("Lgamma", a))


def _by_both(op: Operation, g: Tensor) -> list[Tensor]:
    a, x = op.inputs
    return broadcast_gradients(a, x, g * _op("IgammaGradA", a, x), g * _gamma_density(a, x))


@register_gradient("Igamma")
def _igamma(op: Operation, g: Tensor) -> list[Tensor]:
    """By a an operation of its own, by x the density."""
    return _by_both(op, g)


@register_gradient("Igammac")
def _igammac(op: Operation, g: Tensor) -> list[Tensor]:
    """The opposite of Igamma's."""
    return _by_both(op, -g)


no_gradient("IgammaGradA", "the second derivative of the incomplete gamma function by a is not among the operations")
no_gradient("RandomGammaGrad", "the second derivative of a gamma quantile is not among the operations")


@register_gradient("Betainc")
def _betainc(op: Operation, g: Tensor) -> list[Tensor | None]:
    """By x the density x**(a - 1) (1 - x)**(b - 1) / beta(a, b); those by a and b are not among the operations."""
    a, b, x = op.inputs
    beta = _op("Lgamma", a) + _op("Lgamma", b) - _op("Lgamma", a + b)
    density = _op("Exp", _op("Xlogy", a - 1, x) + (b - 1) * _op("Log1p", -x) - beta)
    return [None, None, broadcast_gradients(x, op.outputs[0], g * density, g)[0]]
