"""Gradient rules of the StackV2 family."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2"):
    no_gradient(
        _name,
        "a stack keeps values for the gradient of a loop and is no part of what is differentiated",
        hides=_name == "StackV2",
    )
