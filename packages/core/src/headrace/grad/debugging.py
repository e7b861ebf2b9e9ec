"""Gradient rules of the debugging family."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("PrintV2", "_CheckVariables"):
    no_gradient(_name, "it has no output")
no_gradient("StringFormat", "its output is a string")
no_gradient("Timestamp", "it has no inputs")
no_gradient("DebugNumericSummaryV2", "it counts; differentiate the tensor that it looks at")
no_gradient("_CheckValue", "it is put into plans, after differentiation")
