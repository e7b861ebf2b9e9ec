"""NumPy kernels that count."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.ranges import lin_space_length, range_length
from headrace.ops.shapes import checked_sizes
from headrace.types import Array


@register_kernel("Range")
def _range(op: OpContext, start: Array, limit: Array, delta: Array) -> Array:
    """Integers are exact. Floats are start + i * delta, each rounded once: adding delta again and again would drift."""
    dtype = op.attr("Tidx")
    count = range_length(start, limit, delta)
    checked_sizes([count])
    if dtype.is_integer:
        numbers = _integer_range(int(np.asarray(start).item()), int(np.asarray(delta).item()), count)
        return numbers.astype(dtype.array_type)
    first, step = (np.asarray(value).astype(np.float64).reshape(()) for value in (start, delta))
    return (first + step * np.arange(count)).astype(dtype.array_type)


def _integer_range(first: int, step: int, count: int) -> Array:
    """In Python integers where some number on the way does not fit int64."""
    last = first + step * max(count - 1, 0)
    fits = all(-(2**63) <= number < 2**63 for number in (first, step, last, last - first))
    numbers: Any = np.arange(count, dtype=np.int64 if fits else object)
    counted: Array = first + step * numbers
    return counted


@register_kernel("LinSpace")
def _lin_space(op: OpContext, start: Array, stop: Array, num: Array) -> Array:
    count = lin_space_length(num)
    first, last = (np.asarray(value).astype(np.float64).reshape(()) for value in (start, stop))
    return np.linspace(first, last, count).astype(op.attr("T").array_type)
