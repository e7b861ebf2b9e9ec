"""TensorProto: arrays in TensorFlow's wire form, written and read without copying more than once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from headrace.errors import DataLossError
from headrace.graph.attr import without_repeats
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace.graph.proto.types_pb2 import DataType
from headrace.types import Array, DType, Shape, as_dtype, bfloat16, float16, string

__all__ = ["decode_shape", "decode_tensor", "encode_shape", "encode_tensor"]

_MAX_RANK = 64  # NumPy's limit
_MAX_ELEMENTS = 2**58  # of 16 bytes: what NumPy can count, also along dimensions beside an empty one


def encode_tensor(value: Array) -> TensorProto:
    """Write an array: its header and its bytes, little endian in C order; strings one by one.

    Args:
      value: any dtype and shape; need not be contiguous.
    """
    dtype = as_dtype(value.dtype)
    proto = TensorProto(dtype=cast(DataType, dtype.number), tensor_shape=encode_shape(Shape(value.shape)))
    if dtype.kind != "quantized" and value.size > 1 and without_repeats(value).size == 1:
        _encode_one(value[(0,) * value.ndim], dtype, proto)
    elif dtype is string:
        proto.string_val.extend(value.reshape(-1).tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(value).tobytes()
    return proto


def _encode_one(element: Any, dtype: DType, proto: TensorProto) -> None:
    """List one element, which stands for all."""
    if dtype is string:
        proto.string_val.append(element)
    elif dtype in (float16, bfloat16):
        proto.half_val.append(int(element.view(np.uint16)))
    elif dtype.is_complex:
        listed: Any = proto.scomplex_val if dtype.size == 8 else proto.dcomplex_val
        listed.extend((float(element.real), float(element.imag)))
    else:
        _listed(proto, dtype).append(element.item())


def encode_shape(shape: Shape) -> TensorShapeProto:
    """Write a shape; unknown sizes are -1."""
    if shape.dims is None:
        return TensorShapeProto(unknown_rank=True)
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=-1 if size is None else size) for size in shape.dims])


def decode_shape(proto: TensorShapeProto) -> Shape:
    """Read a shape.

    Raises:
      DataLossError: a size is below -1.
    """
    if proto.unknown_rank:
        return Shape()
    sizes = [dim.size for dim in proto.dim]
    if any(size < -1 for size in sizes):
        raise DataLossError(
            "a stored shape is damaged",
            expected="sizes of at least -1",
            got=str(sizes),
            hint="write -1 for a size that is not known",
        )
    return Shape(sizes)


def decode_tensor(proto: TensorProto) -> Array:
    """Read an array.

    It is read-only and takes no more memory than the message: a value that stands for many elements is repeated by
    stride, not copied.

    Raises:
      DataLossError: the content does not fit the declared dtype and shape.
    """
    shape = decode_shape(proto.tensor_shape)
    dtype = as_dtype(int(proto.dtype))
    if not shape.is_fully_defined or dtype.numpy is None:
        raise _damaged("a dtype with values and a complete shape", f"{dtype}{shape}")
    sizes = shape.as_tuple()
    count = math.prod(sizes)
    if len(sizes) > _MAX_RANK or math.prod(size for size in sizes if size) > _MAX_ELEMENTS:
        raise _damaged(f"at most {_MAX_RANK} dimensions and {_MAX_ELEMENTS} elements", str(shape))
    if proto.tensor_content:
        if dtype.size * count != len(proto.tensor_content) or not dtype.size:
            raise _damaged(f"{dtype.size * count} bytes for {dtype}{shape}", f"{len(proto.tensor_content)} bytes")
        return np.frombuffer(proto.tensor_content, dtype.numpy.newbyteorder("<")).reshape(sizes)
    return _spread(_listed_values(proto, dtype), sizes, count, dtype)


def _spread(values: Array, sizes: Sequence[int], count: int, dtype: DType) -> Array:
    """Arrange listed values; the last one stands for all that follow, and an empty list for zeros."""
    if len(values) > count:
        raise _damaged(f"at most {count} values", f"{len(values)} values")
    if len(values) == count:
        result = values.reshape(sizes)
    elif len(values) <= 1:
        fill = values[0] if len(values) else (b"" if dtype is string else np.zeros((), dtype.array_type))
        single = np.empty((), dtype.array_type)
        single[()] = fill
        single.flags.writeable = False
        return np.broadcast_to(single, sizes)
    elif count > 64 * len(values):
        raise _damaged("no more than 64 elements for each listed value", f"{count} elements for {len(values)} values")
    else:
        result = np.concatenate([values, np.repeat(values[-1:], count - len(values))]).reshape(sizes)
    result.flags.writeable = False
    return result


def _half_bits(proto: TensorProto, dtype: DType) -> Array:
    bits = np.array(proto.half_val, np.int64)
    if bits.size and (bits.min() < 0 or bits.max() > 0xFFFF):
        raise _damaged("16 bits for each element of half_val", f"a value of {bits.max()}")
    return bits.astype(np.uint16).view(dtype.array_type)


def _complex_pairs(values: Sequence[float], dtype: DType, half: Any) -> Array:
    if len(values) % 2:
        raise _damaged("real and imaginary parts in pairs", f"{len(values)} numbers")
    return np.array(values, half).view(dtype.array_type)


def _string_values(proto: TensorProto, dtype: DType) -> Array:
    result = np.empty(len(proto.string_val), object)
    result[:] = list(proto.string_val)
    return result


_FIELDS = {
    "float32": "float",
    "float64": "double",
    "int64": "int64",
    "uint32": "uint32",
    "uint64": "uint64",
    "bool": "bool",
}


def _listed(proto: TensorProto, dtype: DType) -> Any:
    """The field that lists elements of a number type; narrow integers share one."""
    return getattr(proto, f"{_FIELDS.get(dtype.name, 'int')}_val")


def _listed_values(proto: TensorProto, dtype: DType) -> Array:
    if dtype is string:
        return _string_values(proto, dtype)
    if dtype in (float16, bfloat16):
        return _half_bits(proto, dtype)
    if dtype.is_complex:
        listed = proto.scomplex_val if dtype.size == 8 else proto.dcomplex_val
        return _complex_pairs(listed, dtype, np.float32 if dtype.size == 8 else np.float64)
    if dtype.kind == "quantized":
        plain = np.dtype(dtype.name.removeprefix("q"))
        return _in_bounds(proto.int_val, plain, dtype).view(dtype.array_type)
    if not dtype.is_integer and dtype.name not in _FIELDS:
        raise _damaged("a dtype of numbers or strings", str(dtype))
    if dtype.name in _FIELDS:
        return np.array(_listed(proto, dtype), dtype.array_type)
    return _in_bounds(_listed(proto, dtype), dtype.array_type, dtype)


def _in_bounds(listed: Any, kind: np.dtype[Any], dtype: DType) -> Array:
    values = np.array(listed, np.int64)
    bounds = np.iinfo(kind)
    if values.size and (values.min() < bounds.min or values.max() > bounds.max):
        raise _damaged(f"values that fit {dtype}", f"{values.min()} to {values.max()}")
    return values.astype(kind)


def _damaged(expected: str, got: str) -> DataLossError:
    return DataLossError(
        "a stored tensor is damaged",
        expected=expected,
        got=got,
        hint="export the graph again, or copy the file once more",
    )
