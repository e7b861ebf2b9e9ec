"""Hashes have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("StringToHashBucketFast", "its input is a string")
