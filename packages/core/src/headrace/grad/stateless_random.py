"""Stateless random operations have no gradients: each states why."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

__all__: list[str] = []

for _suffix in ("", "V2"):
    for _op_type in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
        no_gradient(_op_type + _suffix, "its numbers are no smooth function of a shape and a seed")
    for _op_type in ("StatelessRandomUniformInt", "StatelessRandomUniformFullInt"):
        no_gradient(_op_type + _suffix, "its inputs and its result are integers")

no_gradient("StatelessMultinomial", "its result is integers")
for _op_type in ("StatelessRandomGetAlg", "StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"):
    no_gradient(_op_type, "it makes the state of a generator, integers")
