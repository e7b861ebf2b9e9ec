"""Kernels of the control flow family; the tokens themselves have none, since the executor moves them."""

from __future__ import annotations

from headrace.errors import AbortedError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel


@register_kernel("Abort")
def _abort(op: OpContext) -> None:
    if not op.attr("exit_without_error"):
        raise AbortedError(
            op.attr("error_msg") or "the step was aborted",
            expected="a step that does not get to its Abort operation",
            got="one that did",
            hint="look for the control inputs of the operation: they say when it runs",
        )
