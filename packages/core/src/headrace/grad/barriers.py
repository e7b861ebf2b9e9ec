"""The barriers family has no derivatives: what goes into one step comes out in another."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("Barrier", "a handle has no inputs")
no_gradient("BarrierInsertMany", "it has no output")
no_gradient("BarrierTakeMany", "its elements were computed by other steps")
no_gradient("BarrierClose", "it has no output")
no_gradient("BarrierReadySize", "its output is an integer")
no_gradient("BarrierIncompleteSize", "its output is an integer")
