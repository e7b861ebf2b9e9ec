"""Text has no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

__all__: list[str] = []

for _name in ("UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeEncode", "UnicodeTranscode"):
    no_gradient(_name, "text has no derivative")
