"""Hashes have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("StringToHashBucketFast", "StringToHashBucketStrong"):
    no_gradient(_name, "its input is a string")
