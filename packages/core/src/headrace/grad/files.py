"""Files have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("ReadFile", "WriteFile", "MatchingFiles"):
    no_gradient(_name, "strings have no derivative")
