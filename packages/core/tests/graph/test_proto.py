"""The graph messages carry TensorFlow's field numbers, and lose nothing that they do not know."""

from __future__ import annotations

import importlib

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor

from headrace.graph.proto import attr_pb2, function_pb2, graph_pb2, node_pb2, op_def_pb2, tensor_pb2, types_pb2

MODULES = (types_pb2, tensor_pb2, attr_pb2, op_def_pb2, node_pb2, function_pb2, graph_pb2)
MESSAGES = {name: d for module in MODULES for name, d in module.DESCRIPTOR.message_types_by_name.items()}
ENUMS = {name: d for module in MODULES for name, d in module.DESCRIPTOR.enum_types_by_name.items()}

REFERENCE_MODULES = (
    "types",
    "tensor",
    "tensor_shape",
    "attr_value",
    "node_def",
    "op_def",
    "function",
    "versions",
    "graph",
    "resource_handle",
    "full_type",
)
LEFT_OUT = {"GraphDef.debug_info"}

# What must hold even where TensorBoard, whose messages are compared below, is not installed.
PINNED = {
    "GraphDef.node": 1,
    "GraphDef.library": 2,
    "GraphDef.versions": 4,
    "NodeDef.name": 1,
    "NodeDef.op": 2,
    "NodeDef.input": 3,
    "NodeDef.device": 4,
    "NodeDef.attr": 5,
    "AttrValue.list": 1,
    "AttrValue.s": 2,
    "AttrValue.type": 6,
    "AttrValue.shape": 7,
    "AttrValue.tensor": 8,
    "AttrValue.func": 10,
    "TensorProto.dtype": 1,
    "TensorProto.tensor_shape": 2,
    "TensorProto.tensor_content": 4,
    "TensorProto.half_val": 13,
    "TensorProto.string_val": 8,
    "TensorShapeProto.dim": 2,
    "TensorShapeProto.unknown_rank": 3,
    "FunctionDef.ret": 4,
    "FunctionDef.node_def": 3,
    "OpDef.attr": 4,
    "OpDef.is_stateful": 17,
}
PINNED_DTYPES = {"DT_FLOAT": 1, "DT_STRING": 7, "DT_BOOL": 10, "DT_HALF": 19, "DT_UINT64": 23, "DT_FLOAT_REF": 101}


def _fields(message: Descriptor, prefix: str = "") -> dict[str, tuple[object, ...]]:
    """Everything about the fields of a message and those inside it that decides the bytes on the wire."""
    path = prefix + message.name
    found: dict[str, tuple[object, ...]] = {}
    for field in message.fields:
        named = field.message_type or field.enum_type
        found[f"{path}.{field.name}"] = (
            field.number,
            field.type,
            field.is_repeated,
            field.is_packed,
            named.full_name.split(".", 1)[1] if named is not None else None,
            field.containing_oneof.name if field.containing_oneof is not None else None,
        )
    for nested in message.nested_types:
        found.update(_fields(nested, path + "."))
    return found


def _values(enum: EnumDescriptor) -> dict[str, int]:
    return {value.name: value.number for value in enum.values}


def test_fields_and_dtypes_have_the_numbers_of_the_wire_format() -> None:
    numbers = {path: facts[0] for message in MESSAGES.values() for path, facts in _fields(message).items()}
    assert {path: numbers[path] for path in PINNED} == PINNED
    dtypes = _values(ENUMS["DataType"])
    assert {name: dtypes[name] for name in PINNED_DTYPES} == PINNED_DTYPES


def test_reference_types_are_the_plain_value_plus_100() -> None:
    dtypes = _values(ENUMS["DataType"])
    plain = {name: number for name, number in dtypes.items() if not name.endswith("_REF") and number}
    assert {name + "_REF": number + 100 for name, number in plain.items()} == {
        name: number for name, number in dtypes.items() if name.endswith("_REF")
    }


def test_every_field_is_tensorflows() -> None:
    pytest.importorskip("tensorboard", reason="its generated messages are the reference")
    reference_messages: dict[str, Descriptor] = {}
    reference_enums: dict[str, EnumDescriptor] = {}
    for name in REFERENCE_MODULES:
        descriptor = importlib.import_module(f"tensorboard.compat.proto.{name}_pb2").DESCRIPTOR
        reference_messages.update(descriptor.message_types_by_name)
        reference_enums.update(descriptor.enum_types_by_name)
    for name, message in MESSAGES.items():
        expected = {path: facts for path, facts in _fields(reference_messages[name]).items() if path not in LEFT_OUT}
        assert _fields(message) == expected
    for name, enum in ENUMS.items():
        ours, theirs = _values(enum), _values(reference_enums[name])
        assert {key: ours.get(key) for key in theirs} == theirs


def test_unknown_fields_survive() -> None:
    debug_info = bytes([5 << 3 | 2, 3]) + b"abc"
    later = bytes([0xF8, 0x07, 42])  # field 127, varint
    graph = graph_pb2.GraphDef(node=[node_pb2.NodeDef(name="a", op="NoOp")])
    data = graph.SerializeToString() + debug_info + later
    again = graph_pb2.GraphDef.FromString(data).SerializeToString()
    assert debug_info in again
    assert later in again


def test_unknown_enum_values_survive() -> None:
    attr = attr_pb2.AttrValue.FromString(bytes([6 << 3, 77]))
    assert attr.type == 77
    assert attr.SerializeToString() == bytes([6 << 3, 77])
