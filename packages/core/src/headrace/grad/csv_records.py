"""Records of text have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("DecodeCSV", "its input is a string")
