"""Strings have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

__all__: list[str] = []

for _name in ("ReduceJoin", "UnsortedSegmentJoin", "StringNGrams"):
    no_gradient(_name, "strings have no derivative")
