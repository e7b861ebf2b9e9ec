"""Alignment: where memory that steps write begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headrace.types import Array

__all__ = ["ALIGNMENT", "aligned_array"]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector registers


class _Memory(np.ndarray[tuple[int], np.dtype[np.uint8]]):
    """What an aligned array is cut from: a type of its own, so that views of the array hold that and not this."""


def aligned_array(shape: Sequence[int], dtype: np.dtype[np.generic] | type[np.generic]) -> Array:
    """An array of any content whose first byte is a multiple of ALIGNMENT; what NumPy gives begins anywhere.

    Like any array it is held by its views, so that its references tell whether somebody reads it.

    Args:
      shape: its shape.
      dtype: its type; of Python objects, which no vector register holds, it is just an array.

    Raises:
      MemoryError: there is not so much memory.
    """
    array_type = np.dtype(dtype)
    if array_type.hasobject:
        return np.empty(shape, array_type)
    memory = _Memory((math.prod(shape) * array_type.itemsize + ALIGNMENT,), np.uint8)
    return np.ndarray(shape, array_type, memory, -memory.ctypes.data % ALIGNMENT)
