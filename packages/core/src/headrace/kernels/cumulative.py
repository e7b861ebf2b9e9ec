"""NumPy kernels of the cumulative family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.reduction import lowest
from headrace.kernels.registry import register_kernel
from headrace.ops.reduction import normalize_axis
from headrace.types import Array, bfloat16, float16

_NARROW = (float16.array_type, bfloat16.array_type)


def _register_scan(op_type: str, ufunc: np.ufunc, empty: Callable[[np.dtype[Any]], Any]) -> None:
    """float16 and bfloat16 are accumulated in float32; an exclusive scan is the other one shifted by one place."""

    def kernel(op: OpContext, x: Array, axis: Array) -> Array:
        position = normalize_axis(int(axis), np.ndim(x))
        values: Any = np.moveaxis(np.asarray(x), position, 0)
        if op.attr("reverse"):
            values = values[::-1]
        result = np.empty(np.shape(values), x.dtype)
        scanned = ufunc.accumulate(values, axis=0, dtype=np.dtype(np.float32) if x.dtype in _NARROW else x.dtype)
        if op.attr("exclusive"):
            result[:1] = empty(x.dtype)
            result[1:] = scanned[:-1]
        else:
            result[...] = scanned
        if op.attr("reverse"):
            result = result[::-1]
        return np.moveaxis(result, 0, position)

    register_kernel(op_type)(kernel)


_register_scan("Cumsum", np.add, lambda dtype: 0)
_register_scan("Cumprod", np.multiply, lambda dtype: 1)
_register_scan("CumulativeLogsumexp", np.logaddexp, lowest)
