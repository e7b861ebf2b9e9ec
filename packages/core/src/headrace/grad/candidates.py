"""The candidates family has no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("UniformCandidateSampler", "classes are discrete")
no_gradient("LogUniformCandidateSampler", "classes are discrete")
no_gradient("ComputeAccidentalHits", "classes are discrete")
