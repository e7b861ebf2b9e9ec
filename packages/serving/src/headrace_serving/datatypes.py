"""Element types of the Open Inference Protocol, and tensors as its raw bytes: little-endian, row by row.

A string has its length in four bytes before its own; there are no other framings.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence

import numpy as np

import headrace as hr
from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.model import Array, type_name

_DTYPES: dict[str, hr.DType] = {
    "BOOL": hr.bool,
    **{f"UINT{bits}": hr.as_dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": hr.as_dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": hr.as_dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BF16": hr.bfloat16,
    "BYTES": hr.string,
}
_DATATYPES = {dtype.name: datatype for datatype, dtype in _DTYPES.items()}
_MAX_SIZE = 2**63 - 1
_MAX_RANK = 32
_LENGTH = struct.Struct("<I")
_LITTLE = 1 << 16
"""Bytes that are copied before another thread could have its turn: NumPy lets the interpreter go for any copy, and the
event loop then waits until it gets it back."""


def datatype_of(dtype: hr.DType) -> str:
    """Return the protocol's name of an element type.

    Raises:
      UnsupportedError: it has none.

    Example:
      >>> import headrace as hr
      >>> datatype_of(hr.float32)
      'FP32'
    """
    datatype = _DATATYPES.get(dtype.name)
    if datatype is None:
        raise UnsupportedError(
            f"the Open Inference Protocol has no datatype for {type_name(dtype)}",
            expected=", ".join(_DTYPES),
            got=dtype.name,
            hint="export a signature that casts it",
        )
    return datatype


def dtype_of(datatype: str) -> hr.DType:
    """Return the element type that the protocol calls so.

    Raises:
      UnsupportedError: it calls none so.

    Example:
      >>> dtype_of("FP32").name
      'float32'
    """
    dtype = _DTYPES.get(datatype)
    if dtype is None:
        raise UnsupportedError(
            "the Open Inference Protocol has no such datatype", expected=", ".join(_DTYPES), got=datatype
        )
    return dtype


def datatypes() -> tuple[str, ...]:
    """Return the protocol's names of all element types."""
    return tuple(_DTYPES)


def count_elements(name: str, shape: Sequence[int], dtype: hr.DType) -> int:
    """Return how many elements a tensor of a shape has.

    Args:
      name: the tensor, for error texts.
      shape: sizes, none negative.
      dtype: the element type.
    Raises:
      BadRequestError: more dimensions, elements or bytes than any machine addresses, where sizes of zero count as one.
    """
    bytes_each = 4 if dtype.name == "string" else np.dtype(dtype.array_type).itemsize
    if len(shape) > _MAX_RANK or math.prod(size or 1 for size in shape) * bytes_each > _MAX_SIZE:
        raise BadRequestError(
            f"input '{name}' has a shape that is too large",
            expected=f"at most {_MAX_RANK} dimensions and {_MAX_SIZE} bytes",
            got=f"{shape!s:.200}",
            hint="send the shape of the data",
        )
    return math.prod(shape)


def tensor_from_bytes(name: str, dtype: hr.DType, shape: Sequence[int], raw: memoryview) -> Array:
    """Return the tensor that raw bytes stand for.

    Args:
      name: the tensor, for error texts.
      dtype: the element type.
      shape: its shape.
      raw: the bytes; the array may share them.
    Raises:
      BadRequestError: too few or too many bytes, or strings whose lengths do not add up.
    """
    count = count_elements(name, shape, dtype)
    if dtype.name == "string":
        return _strings(name, raw, count).reshape(shape)
    element = np.dtype(dtype.array_type)
    expected = count * element.itemsize
    if len(raw) < expected:
        raise _missing(name, expected - len(raw), f"{expected} bytes for shape {list(shape)}", len(raw))
    if len(raw) > expected:
        raise _surplus(name, f"{expected} bytes for shape {list(shape)}", len(raw))
    return numbers_from_bytes(dtype, shape, raw)


def numbers_from_bytes(dtype: hr.DType, shape: Sequence[int], raw: memoryview) -> Array:
    """Return the tensor that as many raw bytes stand for as it has.

    Args:
      dtype: the element type; not strings.
      shape: its shape.
      raw: the bytes; the array may share them.
    """
    if dtype is hr.bool:  # any other byte would be a value that is neither true nor false
        truth: Array = np.frombuffer(raw, np.uint8) != 0
        return truth.reshape(shape)
    tensor: Array = np.frombuffer(raw, np.uint8).view(dtype.array_type).reshape(shape)
    if sys.byteorder != "little":
        return tensor.byteswap()
    if tensor.flags.aligned:
        return tensor
    if tensor.nbytes > _LITTLE:
        return tensor.copy()
    aligned: Array = np.frombuffer(bytes(raw), np.uint8).view(dtype.array_type).reshape(shape)
    return aligned


def tensor_to_bytes(tensor: Array) -> bytes:
    """Return a tensor as raw bytes.

    Example:
      >>> import numpy as np
      >>> tensor_to_bytes(np.array([1, 256], np.uint16)).hex()
      '01000001'
    """
    if tensor.dtype == object:
        return b"".join(_LENGTH.pack(len(element)) + element for element in tensor.ravel().tolist())
    return (tensor if sys.byteorder == "little" else tensor.byteswap()).tobytes()


def _strings(name: str, raw: memoryview, count: int) -> Array:
    position = 0
    found: list[bytes] = []
    while position < len(raw) and len(found) < count:
        end = position + _LENGTH.size
        if end > len(raw):
            raise _missing(name, end - len(raw), f"the {_LENGTH.size} bytes of a string's length", len(raw) - position)
        (length,) = _LENGTH.unpack_from(raw, position)
        position = end + length
        if position > len(raw):
            raise _missing(name, position - len(raw), f"a string of {length} bytes", len(raw) - end)
        found.append(bytes(raw[end:position]))
    if position < len(raw):
        raise _surplus(name, f"{count} strings in {position} bytes", len(raw))
    if len(found) < count:
        raise BadRequestError(
            f"expected {count} string elements for inference input '{name}', got {len(found)}",
            expected=f"{count} strings, each with its length before it",
            got=f"{len(found)} in {len(raw)} bytes",
            hint="make shape and data agree",
        )
    strings = np.empty(count, object)
    strings[:] = found
    return strings


def _missing(name: str, missing: int, expected: str, got: int) -> BadRequestError:
    return BadRequestError(
        f"expecting {missing} additional bytes for input '{name}'",
        expected=expected,
        got=f"{got} bytes",
        hint="make shape, datatype and data agree",
    )


def _surplus(name: str, expected: str, got: int) -> BadRequestError:
    return BadRequestError(
        f"unexpected additional input data for input '{name}'",
        expected=expected,
        got=f"{got} bytes",
        hint="make shape, datatype and data agree",
    )
