"""Operations of generators have no gradients: each states why."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

__all__: list[str] = []

for _op_type in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
    no_gradient(_op_type, "its numbers are no smooth function of the state of a generator")
for _op_type in ("StatefulUniformInt", "StatefulUniformFullInt"):
    no_gradient(_op_type, "its result is integers")
no_gradient("RngReadAndSkip", "the state of a generator is integers")
no_gradient("RngSkip", "it has no output")
