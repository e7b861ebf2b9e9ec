"""Locks have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("MutexV2", "a handle has no inputs")
no_gradient("MutexLock", "a lock is no number")
no_gradient("ConsumeMutexLock", "it has no output")
