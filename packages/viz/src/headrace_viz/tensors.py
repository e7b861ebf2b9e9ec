"""Arrays as the tensors of an event file, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.errors import DataLossError, DTypeError, InvalidArgumentError
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto

_MAX_REPEATED = 2**24  # elements; a shape is a claim of the file, and no reason to fill the memory

_VALUE_FIELDS = {
    hr.float32.number: "float_val",
    hr.float64.number: "double_val",
    hr.int64.number: "int64_val",
    hr.uint64.number: "uint64_val",
    hr.uint32.number: "uint32_val",
    hr.bool.number: "bool_val",
    **{dtype.number: "int_val" for dtype in (hr.int32, hr.int16, hr.int8, hr.uint8, hr.uint16)},
    **{dtype.number: "half_val" for dtype in (hr.float16, hr.bfloat16)},
}


def utf8(text: str) -> bytes:
    """Return text as files hold it.

    Raises:
      InvalidArgumentError: it has surrogates, as the names of files have that are no UTF-8.

    Example:
      >>> utf8("a/b")
      b'a/b'
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            "text cannot be written as UTF-8",
            expected="text without surrogates",
            got=f"{text!r:.60}",
            hint="text.encode(errors='replace').decode() puts a question mark in place of each",
        ) from error


def tensor_proto(value: Any) -> TensorProto:
    """Return an array, or what can be made one, as a tensor.

    Args:
      value: numbers, or bytes or text; text becomes UTF-8.
    Raises:
      DTypeError: the elements are of another kind.
      InvalidArgumentError: text cannot be written as UTF-8.

    Example:
      >>> tensor_proto([b"a", b"bc"]).string_val[1]
      b'bc'
    """
    array = np.asarray(value)
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in array.shape])
    if array.dtype.kind in "OSU":
        strings = np.asarray(value, object).ravel().tolist()
        wrong = next((item for item in strings if not isinstance(item, bytes | str)), None)
        if wrong is None:
            data = [item if isinstance(item, bytes) else utf8(item) for item in strings]
            return TensorProto(dtype=hr.string.number, tensor_shape=shape, string_val=data)  # type: ignore[arg-type]
        raise _dtype_error(f"an element {wrong!r:.60}")
    try:
        number = hr.as_dtype(array.dtype).number
    except DTypeError as error:
        raise _dtype_error(str(array.dtype)) from error
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return TensorProto(dtype=number, tensor_shape=shape, tensor_content=little.tobytes())  # type: ignore[arg-type]


def array_of(tensor: TensorProto, *, where: str = "") -> NDArray[Any]:
    """Return a tensor as an array; strings become an object array of bytes.

    Args:
      tensor: as our or another program wrote it.
      where: the place it was read from, for the error.
    Raises:
      DataLossError: it holds fewer or more elements than its shape says, or is of a dtype that is not known here.
    """
    dims = [dim.size for dim in tensor.tensor_shape.dim]
    count = math.prod(dims)
    try:
        if min(dims, default=0) < 0:
            raise ValueError("a negative dimension")
        if tensor.dtype == hr.string.number:
            flat = np.empty(len(tensor.string_val), object)
            flat[:] = list(tensor.string_val)
        else:
            flat = _numbers(tensor)
        if flat.size == 1 < count <= _MAX_REPEATED:  # a tensor of one repeated value may hold it once
            return np.broadcast_to(flat.reshape(()), dims)
        return flat.reshape(dims)
    except (ValueError, KeyError, DTypeError) as error:
        raise DataLossError(
            "a tensor of an event file is damaged",
            where=where or None,
            expected=f"{count} elements of a known dtype, as its shape {dims} says",
            got=f"dtype number {tensor.dtype}: {error}",
            hint="read the event as it is, or leave it out",
        ) from error


def _numbers(tensor: TensorProto) -> NDArray[Any]:
    dtype = np.dtype(hr.as_dtype(int(tensor.dtype)).numpy)
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype.newbyteorder("<")).astype(dtype, copy=False)
    held = getattr(tensor, _VALUE_FIELDS[tensor.dtype])
    if _VALUE_FIELDS[tensor.dtype] == "half_val":
        return np.array(held, np.uint16).view(dtype)
    return np.array(held, dtype)


def _dtype_error(got: str) -> DTypeError:
    return DTypeError(
        "an event cannot hold these values",
        expected="numbers, bytes or text",
        got=got,
        hint="convert them first, for instance with np.asarray(values, np.float32)",
    )
