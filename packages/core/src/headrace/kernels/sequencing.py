"""Kernels of the sequencing family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array


@register_kernel("Assert")
def _assert(op: OpContext, condition: Array, data: list[Array]) -> None:
    if not condition:
        shown = ", ".join(_summary(np.asarray(item), op.attr("summarize")) for item in data)
        raise InvalidArgumentError(
            "an assertion does not hold",
            expected="the condition to be true",
            got=shown,
            hint="summarize=-1 in hr.assert_true shows the values in full",
        )


def _summary(item: Array, most: int) -> str:
    values = item.reshape(-1)
    shown = values if most < 0 else values[:most]
    parts = [_text(value) for value in shown.tolist()] + ["..."] * (len(shown) < len(values))
    return f"[{' '.join(parts)}]" if item.ndim else parts[0] if parts else "..."


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@register_kernel("ControlTrigger")
def _control_trigger(op: OpContext) -> None:
    return None


@register_kernel("IdentityN")
def _identity_n(op: OpContext, inputs: list[Any]) -> tuple[Any, ...]:
    """Copies, since which output shares memory with which input depends on their number."""
    return tuple(item.copy() if isinstance(item, np.ndarray) else item for item in inputs)
