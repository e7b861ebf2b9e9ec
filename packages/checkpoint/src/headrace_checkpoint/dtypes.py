"""Element types by TensorFlow's numbers, as the formats of TensorFlow store them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from headrace.graph.proto import types_pb2 as types

__all__ = ["STRING", "Array", "dtype_name", "number_of", "numpy_dtype"]

Array = NDArray[Any]
"""A concrete value: a NumPy array of any element type (strings are object arrays of `bytes`)."""

STRING: int = types.DT_STRING

_NUMPY: dict[int, np.dtype[Any]] = {
    number: np.dtype(kind)
    for number, kind in {
        types.DT_FLOAT: np.float32,
        types.DT_DOUBLE: np.float64,
        types.DT_INT32: np.int32,
        types.DT_UINT8: np.uint8,
        types.DT_INT16: np.int16,
        types.DT_INT8: np.int8,
        types.DT_COMPLEX64: np.complex64,
        types.DT_INT64: np.int64,
        types.DT_BOOL: np.bool_,
        types.DT_BFLOAT16: ml_dtypes.bfloat16,
        types.DT_UINT16: np.uint16,
        types.DT_COMPLEX128: np.complex128,
        types.DT_HALF: np.float16,
        types.DT_UINT32: np.uint32,
        types.DT_UINT64: np.uint64,
        types.DT_FLOAT8_E5M2: ml_dtypes.float8_e5m2,
        types.DT_FLOAT8_E4M3FN: ml_dtypes.float8_e4m3fn,
        types.DT_FLOAT8_E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
        types.DT_FLOAT8_E4M3B11FNUZ: ml_dtypes.float8_e4m3b11fnuz,
        types.DT_FLOAT8_E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
        types.DT_INT4: ml_dtypes.int4,  # a byte each, as in TensorFlow's memory
        types.DT_UINT4: ml_dtypes.uint4,
    }.items()
}
_NUMBERS = {dtype: number for number, dtype in _NUMPY.items()}
# The quantised types are plain integers on disk; no array has them as its own dtype.
_NUMPY |= {
    number: np.dtype(kind)
    for number, kind in {
        types.DT_QINT8: np.int8,
        types.DT_QUINT8: np.uint8,
        types.DT_QINT32: np.int32,
        types.DT_QINT16: np.int16,
        types.DT_QUINT16: np.uint16,
    }.items()
}


def numpy_dtype(number: int) -> np.dtype[Any] | None:
    """The NumPy dtype of fixed-size elements, or None for strings, variants, resources and unknown numbers."""
    return _NUMPY.get(number)


def number_of(dtype: np.dtype[Any]) -> int | None:
    """The number of a NumPy dtype (object and text are strings), or None where TensorFlow has no such type."""
    return STRING if dtype.kind in "OSU" else _NUMBERS.get(dtype.newbyteorder("="))


def dtype_name(number: int) -> str:
    """The name of a dtype, for messages.

    Example:
      >>> dtype_name(14), dtype_name(7), dtype_name(99)
      ('bfloat16', 'string', 'dtype 99')
    """
    if number in _NUMPY and number in _NUMBERS.values():
        return _NUMPY[number].name
    known = types.DataType.DESCRIPTOR.values_by_number.get(number)
    return f"dtype {number}" if known is None else known.name.removeprefix("DT_").lower()
