"""Values: which tensors native code holds in its memory, and how large they are."""

from __future__ import annotations

import math

from headrace import Tensor
from headrace.types import Array, DType, int8, int16, int32, uint8, uint16

__all__ = ["READING", "VIEWS", "byte_count", "integers", "is_native", "stored"]

READING = frozenset({"ReadVariableOp", "ResourceGather", "VariableShape", "VarIsInitializedOp", "_GatherRows"})
"""Operations that take a handle and do not change what it stands for."""

VIEWS = frozenset(
    {"EnsureShape", "ExpandDims", "Identity", "PreventGradient", "Reshape", "Snapshot", "Squeeze", "StopGradient"}
)
"""Operations whose output has the elements of input 0 in the same order."""
LARGEST = 1 << 46
"""Bytes beyond which no value is planned: the kernel says that there is not enough memory."""


NUMBERS = frozenset({"bool", "float", "int", "quantized", "uint"})
"""Kinds of dtypes that native code computes with."""


def is_native(tensor: Tensor) -> bool:
    """True for arrays of numbers whose shape is known."""
    count = tensor.shape.num_elements if tensor.dtype.kind in NUMBERS else None
    return count is not None and count * tensor.dtype.size < LARGEST


_STORED = {"qint8": int8, "quint8": uint8, "qint16": int16, "quint16": uint16, "qint32": int32}


def stored(dtype: DType) -> DType:
    """The dtype of elements in memory: quantised ones are plain integers there."""
    return _STORED.get(dtype.name, dtype)


def integers(value: Array) -> Array:
    """An array as it is stored."""
    return value.view(value.dtype[0]) if value.dtype.names else value


def byte_count(tensor: Tensor) -> int:
    """Bytes of a tensor whose shape is known."""
    return math.prod(tensor.shape.as_tuple()) * tensor.dtype.size
