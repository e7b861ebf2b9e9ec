"""Gradient rules of the control flow family: loops and branches are differentiated in their structured form."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _type in ("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"):
    no_gradient(
        _type,
        "branches and loops are differentiated as If and While, and this one is none: "
        "headrace.passes.raising.explain_raising(graph) says why; hr.cond and hr.while_loop always are",
    )
no_gradient("Abort", "it has no output")
