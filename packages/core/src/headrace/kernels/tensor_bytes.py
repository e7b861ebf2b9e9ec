"""Kernels of the tensor_bytes family."""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError

from headrace.errors import DataLossError, DTypeError, InvalidArgumentError
from headrace.graph.proto.tensor_pb2 import TensorProto
from headrace.graph.tensor_proto import decode_tensor, encode_tensor
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, as_dtype


@register_kernel("SerializeTensor")
def _serialize(op: OpContext, tensor: Array) -> Array:
    result = np.empty((), object)
    result[()] = encode_tensor(np.asarray(tensor)).SerializeToString(deterministic=True)
    return result


@register_kernel("ParseTensor")
def _parse(op: OpContext, serialized: Array) -> Array:
    wanted = op.attr("out_type")
    try:
        found = decode_tensor(TensorProto.FromString(np.asarray(serialized).item()))
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
    if found.nbytes > 64 * max(len(serialized.item()), 1 << 20):
        raise InvalidArgumentError(
            "a few bytes stand for too many elements", expected="elements in proportion to the bytes",
            got=str(list(found.shape)), hint="serialize one element, and hr.broadcast_to the whole shape after parsing",
        )  # fmt: skip
    return np.array(found, wanted.array_type)
