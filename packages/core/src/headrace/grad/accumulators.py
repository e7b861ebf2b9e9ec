"""The accumulators family has no derivatives: what goes into one step comes out in another."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _prefix in ("", "Resource"):
    no_gradient(f"{_prefix}ConditionalAccumulator", "a handle has no inputs")
    no_gradient(f"{_prefix}AccumulatorApplyGradient", "it has no output")
    no_gradient(f"{_prefix}AccumulatorTakeGradient", "its gradients were computed by other steps")
    no_gradient(f"{_prefix}AccumulatorSetGlobalStep", "it has no output")
    no_gradient(f"{_prefix}AccumulatorNumAccumulated", "its output is an integer")
no_gradient("SparseConditionalAccumulator", "a handle has no inputs")
no_gradient("SparseAccumulatorApplyGradient", "it has no output")
no_gradient("SparseAccumulatorTakeGradient", "its gradients were computed by other steps")
