"""The messages of saved models and bundles carry TensorFlow's field numbers."""

from __future__ import annotations

import importlib

import pytest
from google.protobuf.descriptor import Descriptor

from headrace_checkpoint.proto import saved_model_pb2, tensor_bundle_pb2

# What TensorBoard's messages, compared below, lack or might be missing for.
PINNED = {
    "SavedModel": {"saved_model_schema_version": 1, "meta_graphs": 2},
    "BundleHeaderProto": {"num_shards": 1, "endianness": 2, "version": 3},
    "BundleEntryProto": {
        "dtype": 1, "shape": 2, "shard_id": 3, "offset": 4, "size": 5, "crc32c": 6, "slices": 7,
    },
    "TensorSliceProto": {"extent": 1},
}  # fmt: skip
LEFT_OUT = {
    "TensorInfo.composite_tensor", "TensorInfo.CompositeTensor", "SavedObjectGraph.concrete_functions",
    "SavedObjectGraph.ConcreteFunctionsEntry", "SavedVariable.device",
    "SavedVariable.experimental_distributed_variable_components",
}  # fmt: skip


def _fields(message: Descriptor, prefix: str = "") -> dict[str, tuple[object, ...]]:
    path = prefix + message.name
    found: dict[str, tuple[object, ...]] = {}
    for field in message.fields:
        named = field.message_type or field.enum_type
        found[f"{path}.{field.name}"] = (
            field.number,
            field.type,
            field.is_repeated,
            field.is_packed,
            named.full_name.removeprefix("headrace.").removeprefix("tensorboard.") if named is not None else None,
            field.containing_oneof.name if field.containing_oneof is not None else None,
        )
    for nested in message.nested_types:
        found.update(_fields(nested, path + "."))
    return found


def test_fields_have_the_numbers_of_the_wire_format() -> None:
    for name, numbers in PINNED.items():
        module = saved_model_pb2 if name == "SavedModel" else tensor_bundle_pb2
        message = module.DESCRIPTOR.message_types_by_name[name]
        assert {field.name: field.number for field in message.fields} == numbers


def test_every_field_is_tensorflows() -> None:
    pytest.importorskip("tensorboard", reason="its generated messages are the reference")
    reference: dict[str, Descriptor] = {}
    for name in ("meta_graph", "saved_object_graph", "saver", "variable"):
        reference.update(
            importlib.import_module(f"tensorboard.compat.proto.{name}_pb2").DESCRIPTOR.message_types_by_name
        )
    ours = {name: d for name, d in saved_model_pb2.DESCRIPTOR.message_types_by_name.items() if name != "SavedModel"}
    variable = "SavedObject.variable"  # of the many kinds of objects the one that is read
    theirs = _fields(reference["SavedObject"])
    assert _fields(ours.pop("SavedObject")) == {variable: theirs[variable]}
    for name, message in ours.items():
        expected = {
            path: facts
            for path, facts in _fields(reference[name]).items()
            if not any(path == left or path.startswith(left + ".") for left in LEFT_OUT)
        }
        assert _fields(message) == expected
