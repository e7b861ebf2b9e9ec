"""Operations as `NodeDef` messages, in graphs and in functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from headrace.graph.attr import AttrSpec, AttrValue, RawAttr
from headrace.graph.attr_proto import encode_attr
from headrace.graph.operation import Operation, Tensor
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.types import Array, as_dtype

__all__ = ["COLOCATION", "COLOCATION_PREFIX", "CONSTANT_KEY", "content_key", "encode_op"]

CONSTANT_KEY = "_headrace_constant"
COLOCATION = "_class"
COLOCATION_PREFIX = "loc:@"


def encode_op(
    op: Operation,
    node: NodeDef,
    stored: dict[str, Array] | None,
    reference: Callable[[Tensor], str],
    *,
    name_of: Callable[[Operation], str] = lambda op: op.name,
) -> None:
    """Write an operation into an empty message.

    Args:
      op: the operation.
      node: the message.
      stored: takes the constants that go beside the graph file, by content; None keeps all of them inline.
      reference: how an input names the tensor that it reads.
      name_of: the name under which an operation is written.
    """
    node.name, node.op, node.device = name_of(op), op.type, op.device
    node.input.extend(reference(tensor) for tensor in op.inputs)
    node.input.extend(f"^{name_of(item)}" for item in op.control_inputs)
    for name, value in op.attrs.items():
        if isinstance(value, RawAttr):
            node.attr[name].ParseFromString(value.serialized)
        elif stored is not None and op.type == "Const" and name == "value" and _goes_beside(value):
            key = content_key(value)
            stored[key] = value
            node.attr[CONSTANT_KEY].s = key.encode()
        elif not _is_implied(value, op.op_def.attrs.get(name)):
            encode_attr(value, op.op_def.attrs.get(name), node.attr[name])
    if op.colocation:
        node.attr[COLOCATION].list.s.extend((COLOCATION_PREFIX + name).encode() for name in op.colocation)


def _is_implied(value: AttrValue, spec: AttrSpec | None) -> bool:
    return spec is not None and spec.recent and value == spec.default


def _goes_beside(value: Array) -> bool:
    return value.nbytes > 1024 and value.dtype != object


def content_key(value: Array) -> str:
    """A name for a constant that two arrays share only if they are equal."""
    header = f"{as_dtype(value.dtype)}{list(value.shape)}".encode()
    return hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16, key=header[:64]).hexdigest()
