"""NumPy kernels of the control family."""

from __future__ import annotations

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array


@register_kernel("Identity", aliases=[0])
@register_kernel("StopGradient", aliases=[0])
@register_kernel("PreventGradient", aliases=[0])
def _identity(op: OpContext, x: Array) -> Array:
    return x
