"""NumPy kernel of the cross product."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.products import check_cross
from headrace.types import Array, Shape


@register_kernel("Cross")
def _cross(op: OpContext, a: Array, b: Array) -> Any:
    check_cross(Shape(a.shape), Shape(b.shape))
    return np.cross(a, b)
