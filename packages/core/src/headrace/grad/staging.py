"""The staging family has no derivatives: what goes into one step comes out in another."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

_OTHER_STEPS = "its elements were computed by other steps"
no_gradient("Stage", "it has no output")
no_gradient("Unstage", _OTHER_STEPS)
no_gradient("StagePeek", _OTHER_STEPS)
no_gradient("StageSize", "its output is an integer")
no_gradient("StageClear", "it has no output")
for _prefix in ("", "Ordered"):
    no_gradient(f"{_prefix}MapStage", "it has no output")
    no_gradient(f"{_prefix}MapUnstage", _OTHER_STEPS)
    no_gradient(f"{_prefix}MapUnstageNoKey", _OTHER_STEPS)
    no_gradient(f"{_prefix}MapPeek", _OTHER_STEPS)
    no_gradient(f"{_prefix}MapSize", "its output is an integer")
    no_gradient(f"{_prefix}MapIncompleteSize", "its output is an integer")
    no_gradient(f"{_prefix}MapClear", "it has no output")
