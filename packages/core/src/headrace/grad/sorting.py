"""Gradient rules of searches in sorted sequences."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("LowerBound", "UpperBound"):
    no_gradient(_name, "places are integers")
