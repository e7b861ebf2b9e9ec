"""Random operations have no gradients: each states why."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

__all__: list[str] = []

for _op_type in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    no_gradient(
        _op_type, "its only input is a shape; scale and shift its result to get a derivative to mean and deviation"
    )

no_gradient("RandomUniformInt", "its inputs and its result are integers")
no_gradient("RandomShuffle", "it does not say which order it drew; gather by a shuffled hr.range is differentiable")
no_gradient("Multinomial", "its result is integers")
