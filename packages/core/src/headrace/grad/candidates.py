"""The candidates family has no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("UniformCandidateSampler", "classes are discrete")
no_gradient("LogUniformCandidateSampler", "classes are discrete")
for _name in ("FixedUnigramCandidateSampler", "LearnedUnigramCandidateSampler"):
    no_gradient(_name, "classes are integers, and expected counts do not depend on anything learned")
no_gradient("ComputeAccidentalHits", "classes are discrete")
