"""NumPy kernels of the array family."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array


@register_kernel("Cast", aliases=[0])
def _cast(op: OpContext, x: Array) -> Array:
    return np.asarray(x).astype(op.attr("DstT").array_type, copy=False)
