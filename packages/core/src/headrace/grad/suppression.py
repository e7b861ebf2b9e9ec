"""Suppression has no gradient."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

__all__: list[str] = []

for _version in ("", "V2", "V3", "V4"):
    no_gradient(f"NonMaxSuppression{_version}", "its outputs are integers")
for _op_type in ("NonMaxSuppressionV5", "CombinedNonMaxSuppression"):
    no_gradient(_op_type, "which boxes stay jumps where scores change; hr.gather picks boxes and scores by number")
