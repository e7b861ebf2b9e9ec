"""NumPy kernels of searches in sorted sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.sorting import check_bounds
from headrace.types import Array, Shape


def _places(op: OpContext, rows: Array, values: Array, side: Any) -> Array:
    result = np.empty(check_bounds(Shape(rows.shape), Shape(values.shape)).as_tuple(), op.attr("out_type").array_type)
    for place, row, wanted in zip(result, rows, values, strict=True):
        place[:] = np.searchsorted(row, wanted, side=side)
    return result


@register_kernel("LowerBound")
def _lower_bound(op: OpContext, sorted_inputs: Array, values: Array) -> Array:
    return _places(op, sorted_inputs, values, "left")


@register_kernel("UpperBound")
def _upper_bound(op: OpContext, sorted_inputs: Array, values: Array) -> Array:
    return _places(op, sorted_inputs, values, "right")
