"""Values: which tensors native code holds in its memory, and how large they are."""

from __future__ import annotations

import math

from headrace import Tensor

__all__ = ["byte_count", "is_native"]

LARGEST = 1 << 46
"""Bytes beyond which no value is planned: the kernel says that there is not enough memory."""


def is_native(tensor: Tensor) -> bool:
    """True for arrays of numbers whose shape is known."""
    if tensor.dtype.kind not in ("float", "int", "uint", "bool") or not tensor.shape.is_fully_defined:
        return False
    return byte_count(tensor) < LARGEST


def byte_count(tensor: Tensor) -> int:
    """Bytes of a tensor whose shape is known."""
    return math.prod(tensor.shape.as_tuple()) * tensor.dtype.size
