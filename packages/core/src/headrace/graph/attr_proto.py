"""Attributes of operations as `AttrValue` messages, and back."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from headrace.errors import DataLossError, HeadraceError
from headrace.graph.attr import AttrSpec, AttrValue, FunctionName, RawAttr, spec_of
from headrace.graph.proto import attr_pb2
from headrace.graph.tensor_proto import decode_shape, decode_tensor, encode_shape, encode_tensor
from headrace.types import as_dtype

__all__ = ["decode_attr", "decode_unknown", "encode_attr", "serialized"]

_FIELD_OF_KIND = {
    "int": "i", "float": "f", "bool": "b", "string": "s", "type": "type", "shape": "shape", "tensor": "tensor",
    "function": "func",
}  # fmt: skip


def serialized(proto: Message) -> bytes:
    """The bytes of a message, the same for equal ones."""
    return proto.SerializeToString(deterministic=True)


def encode_attr(value: AttrValue, spec: AttrSpec | None, proto: attr_pb2.AttrValue) -> None:
    """Write a value into an empty message; without a spec its kind is that of the Python value."""
    spec = spec or spec_of(value, "")
    field_name = _FIELD_OF_KIND[spec.kind]
    if spec.is_list:
        proto.list.SetInParent()
        getattr(proto.list, field_name).extend(_encode_scalar(item, spec.kind) for item in value)
        return
    encoded = _encode_scalar(value, spec.kind)
    if isinstance(encoded, Message):
        getattr(proto, field_name).CopyFrom(encoded)
    else:
        setattr(proto, field_name, encoded)


def _encode_scalar(value: AttrValue, kind: str) -> Any:
    match kind:
        case "string":
            return value.encode() if isinstance(value, str) else value
        case "type":
            return value.number
        case "shape":
            return encode_shape(value)
        case "tensor":
            return encode_tensor(value)
        case "function":
            return _encode_function(value)
        case _:
            return value


def _encode_function(value: FunctionName) -> attr_pb2.NameAttrList:
    proto = attr_pb2.NameAttrList(name=value.name)
    for name, item in value.attrs.items():
        if isinstance(item, RawAttr):
            proto.attr[name].ParseFromString(item.serialized)
        else:
            encode_attr(item, None, proto.attr[name])
    return proto


def decode_unknown(name: str, proto: attr_pb2.AttrValue) -> AttrValue:
    """The value of an attribute that no signature describes.

    Annotations, whose names start with an underscore, are read as far as they would be written the same again: of lists
    that loops carry, and of loops that were differentiated, they say what gradients need. All others stay bytes.
    """
    raw = RawAttr(serialized(proto))
    spec = _annotation_spec(proto) if name.startswith("_") else None
    if spec is None:
        return raw
    try:
        value = decode_attr(name, proto, spec)
        value = value.decode("utf-8") if isinstance(value, bytes) else value
        again = attr_pb2.AttrValue()
        encode_attr(value, spec, again)
    except (HeadraceError, UnicodeDecodeError):
        return raw
    return value if serialized(again) == raw.serialized else raw


def _annotation_spec(proto: attr_pb2.AttrValue) -> AttrSpec | None:
    """The kind of an annotation, if it is one that we write ourselves."""
    given = proto.WhichOneof("value")
    if given == "list":
        filled = [field.name for field, _ in proto.list.ListFields()]
        return AttrSpec(filled[0], is_list=True) if filled in (["type"], ["shape"]) else None
    return next((AttrSpec(kind) for kind in ("string", "int", "bool") if _FIELD_OF_KIND[kind] == given), None)


def decode_attr(name: str, proto: attr_pb2.AttrValue, spec: AttrSpec) -> AttrValue:
    """The value of an attribute of a known kind.

    Raises:
      DataLossError: the message holds another kind.
    """
    expected = "list" if spec.is_list else _FIELD_OF_KIND[spec.kind]
    given = proto.WhichOneof("value")
    if given != expected:
        raise DataLossError(
            f"attr '{name}' is stored as another kind",
            expected=str(spec),
            got=str(given),
            hint="the file knows another definition of the operation: export the graph with this version",
        )
    field_name = _FIELD_OF_KIND[spec.kind]
    if spec.is_list:
        return tuple(_decode_scalar(item, spec.kind) for item in getattr(proto.list, field_name))
    return _decode_scalar(getattr(proto, field_name), spec.kind)


def _decode_scalar(value: Any, kind: str) -> AttrValue:
    match kind:
        case "type":
            return as_dtype(int(value))
        case "shape":
            return decode_shape(value)
        case "tensor":
            return decode_tensor(value)
        case "function":
            return FunctionName(value.name, {key: RawAttr(serialized(item)) for key, item in value.attr.items()})
        case _:
            return value
