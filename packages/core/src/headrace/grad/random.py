"""Random operations have no gradients: each states why."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []

for _op_type in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    no_gradient(
        _op_type, "its only input is a shape; scale and shift its result to get a derivative to mean and deviation"
    )

no_gradient("_NextRandom", "its results are the state of a generator")
no_gradient("RandomUniformInt", "its inputs and its result are integers")
no_gradient("RandomShuffle", "it does not say which order it drew; gather by a shuffled hr.range is differentiable")
no_gradient("Multinomial", "its result is integers")
no_gradient("RandomPoissonV2", "its result is whole numbers")


@register_gradient("RandomGamma")
def _random_gamma(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each number moves with its shape alpha as the quantile of its probability does; added up over `shape`."""
    _, alpha = op.inputs
    slope = apply_op("RandomGammaGrad", alpha, op.outputs[0])
    axes = apply_op("Range", 0, apply_op("Size", op.inputs[0]), 1)
    return [None, apply_op("Sum", apply_op("Mul", g, slope), axes)]
