"""Kernels of the tensor_bytes family."""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError

from headrace.errors import DataLossError, DTypeError, InvalidArgumentError
from headrace.graph.proto.tensor_pb2 import TensorProto
from headrace.graph.tensor_proto import decode_tensor, encode_tensor
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, DType, Shape, as_dtype, int64


@register_kernel("SerializeTensor")
def _serialize(op: OpContext, tensor: Array) -> Array:
    result = np.empty((), object)
    result[()] = encode_tensor(np.asarray(tensor)).SerializeToString(deterministic=True)
    return result


@register_kernel("ParseTensor")
def _parse(op: OpContext, serialized: Array) -> Array:
    return _parsed(np.asarray(serialized).item(), op.attr("out_type"))


def _parsed(data: bytes, wanted: DType) -> Array:
    try:
        found = decode_tensor(TensorProto.FromString(data))
    except (DecodeError, DataLossError, DTypeError) as error:
        raise InvalidArgumentError(
            "the bytes are no tensor",
            expected=f"a TensorProto of {wanted}",
            got=" ".join(str(error).split()),
            hint="pass the whole of what hr.serialize_tensor gave; hr.strings.decode_raw reads bare numbers",
        ) from error
    if as_dtype(found.dtype) is not wanted:
        raise InvalidArgumentError(
            "the bytes hold another dtype",
            expected=str(wanted),
            got=str(as_dtype(found.dtype)),
            hint="parse it with the dtype that it has, and hr.astype the result",
        )
    if found.nbytes > 64 * max(len(data), 1 << 20):
        raise InvalidArgumentError(
            "a few bytes stand for too many elements", expected="elements in proportion to the bytes",
            got=str(list(found.shape)), hint="serialize one element, and hr.broadcast_to the whole shape after parsing",
        )  # fmt: skip
    return np.array(found, wanted.array_type)


def _bytes_of(*tensors: Array) -> list[bytes]:
    return [encode_tensor(np.asarray(tensor)).SerializeToString(deterministic=True) for tensor in tensors]


@register_kernel("SerializeSparse")
def _serialize_sparse(op: OpContext, indices: Array, values: Array, shape: Array) -> Array:
    _check_parts(indices, values, shape)
    result = np.empty(3, object)
    result[:] = _bytes_of(indices, values, shape)
    return result


@register_kernel("SerializeManySparse")
def _serialize_many_sparse(op: OpContext, indices: Array, values: Array, shape: Array) -> Array:
    _check_parts(indices, values, shape)
    result = np.empty((int(shape[0]), 3), object)
    if indices.size and (np.any(np.diff(indices[:, 0]) < 0) or not 0 <= int(indices[-1, 0]) < int(shape[0])):
        raise InvalidArgumentError(
            "the indices of a sparse tensor are not in order",
            expected=f"ascending rows below {int(shape[0])}",
            got=str(indices[:8, 0].tolist()),
            hint="hr.sparse.reorder puts them in order",
        )
    for row in range(len(result)):
        first, last = np.searchsorted(indices[:, 0], [row, row + 1])
        result[row] = _bytes_of(indices[first:last, 1:], values[first:last], shape[1:])
    return result


def _check_parts(indices: Array, values: Array, shape: Array) -> None:
    Shape(indices.shape).merge(Shape([len(values), len(shape)]))


@register_kernel("DeserializeSparse")
@register_kernel("DeserializeManySparse")
def _deserialize_sparse(op: OpContext, serialized: Array) -> tuple[Array, Array, Array]:
    """Every tensor's indices with its own place in front; the sizes are the largest of each axis."""
    lead = serialized.shape[:-1]
    parts: list[tuple[Array, Array]] = []
    sizes: list[Array] = []
    for place in np.ndindex(lead):
        indices, values, shape = (
            _parsed(data, kind) for data, kind in zip(serialized[place], (int64, op.attr("dtype"), int64), strict=True)
        )
        if indices.ndim != 2 or values.ndim != 1 or indices.shape != (len(values), shape.size):
            raise InvalidArgumentError(
                "the parts of a sparse tensor do not fit each other",
                expected="indices [m, n], values [m] and shape [n]",
                got=f"{list(indices.shape)}, {list(values.shape)}, {list(shape.shape)}",
                hint="pass the three strings of one SerializeSparse together",
            )
        if sizes and len(sizes[0]) != shape.size:
            raise InvalidArgumentError(
                "sparse tensors of different rank cannot be one",
                expected=f"rank {len(sizes[0])}",
                got=f"rank {shape.size}",
                hint="hr.sparse.reshape them before they are serialised",
            )
        front = np.broadcast_to(np.array(place, np.int64), (len(values), len(place)))
        parts.append((np.concatenate([front, indices], axis=1), values))
        sizes.append(shape.reshape(-1))
    if not parts:
        raise InvalidArgumentError(
            "there is no sparse tensor",
            expected="at least one",
            got=str(list(serialized.shape)),
            hint="an empty batch has no rank; pass at least one row",
        )
    whole = np.concatenate([np.array(lead, np.int64), np.max(sizes, axis=0)])
    return np.concatenate([item for item, _ in parts]), np.concatenate([item for _, item in parts]), whole
