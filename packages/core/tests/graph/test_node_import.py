"""Nodes of graph files: those of unknown types, their attributes, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.graph.attr import FunctionName
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.tensor_proto import encode_tensor


def test_unknown_operations_and_attributes_round_trip_and_fail_only_when_run_by_name() -> None:
    proto = GraphDef()
    source = proto.node.add(name="odd", op="SomebodyElsesOp")
    source.attr["mode"].s = b"fast"
    source.attr["sizes"].list.i.extend([1, 2])
    proto.node.add(name="after", op="SomebodyElsesOp", input=["odd:2", "^odd"])
    known = proto.node.add(name="c", op="Const")
    known.attr["dtype"].type = 1
    known.attr["value"].tensor.CopyFrom(encode_tensor(np.array(5.0, np.float32)))
    known.attr["newer_attr"].i = 7
    graph = hr.import_graph_def(proto)
    written = hr.to_graph_def(graph)
    for before, after in zip(proto.node, written.node, strict=True):
        assert before.attr == after.attr
        assert list(before.input) == list(after.input)
    session = hr.Session(graph)
    assert session.run("c:0") == 5.0
    with pytest.raises(hr.errors.NotFoundError, match="SomebodyElsesOp.*no kernel|SomebodyElsesOp has no kernel"):
        session.run("after:0")


def test_attributes_that_older_versions_of_tensorflow_do_not_know_are_left_out_where_they_change_nothing() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant([[1.0]])
        hr.matmul(x, x, name="product")
        hr.apply_op("MatMul", x, x, grad_a=True, name="marked")
    nodes = {node.name: node for node in hr.to_graph_def(graph).node}
    assert "grad_a" not in nodes["product"].attr
    assert nodes["marked"].attr["grad_a"].b
    assert hr.format_graph(hr.import_graph_def(hr.to_graph_def(graph))) == hr.format_graph(graph)


def test_error_of_an_imported_operation_names_it_and_the_file() -> None:
    proto = GraphDef()
    proto.node.add(name="broken", op="Const")
    with pytest.raises(hr.errors.AttrError, match="attr 'value' is missing") as caught:
        hr.import_graph_def(proto)
    assert any("importing Const 'broken'" in note for note in caught.value.__notes__)


def test_annotations_of_every_kind_are_written() -> None:
    notes = {
        "_bool": True, "_int": 3, "_float": 1.5, "_text": "a", "_type": hr.int32, "_shape": hr.Shape([2, None]),
        "_tensor": np.arange(3), "_function": FunctionName("f", {"T": hr.int32}), "_list": (1, 2), "_none": (),
    }  # fmt: skip
    graph = hr.Graph()
    graph.create_op("NoOp", (), notes)
    written = hr.to_graph_def(graph)
    assert set(written.node[0].attr) == set(notes)
    assert written.node[0].attr["_function"].func.attr["T"].type == hr.int32.number
    assert hr.to_graph_def(hr.import_graph_def(written)) == written


@pytest.mark.parametrize(("op", "attr"), [("Unpack", "num"), ("Split", "num_split"), ("Pack", "N")])
def test_a_number_of_tensors_that_no_graph_has_is_refused_before_memory_is_taken(op: str, attr: str) -> None:
    proto = GraphDef()
    node = proto.node.add(name="x", op="Const")
    node.attr["dtype"].type = hr.int32.number
    node.attr["value"].tensor.CopyFrom(encode_tensor(np.zeros((), np.int32)))
    many = proto.node.add(name="many", op=op, input=["x", "x"][: 1 + (op == "Split")])
    many.attr["T"].type = hr.int32.number
    many.attr[attr].i = 2**40
    with pytest.raises(hr.errors.AttrError, match=f"attr '{attr}' is too large"):
        hr.import_graph_def(proto)


def test_a_constant_key_that_is_no_text_is_refused() -> None:
    proto = GraphDef()
    proto.node.add(name="x", op="Const").attr["_headrace_constant"].s = b"\xff"
    with pytest.raises(hr.errors.DataLossError, match="value of constant 'x' is missing"):
        hr.import_graph_def(proto)


@pytest.mark.parametrize("stated", [hr.int32, hr.string, hr.variant, hr.resource], ids=str)
def test_a_constant_that_states_another_dtype_than_its_values_is_refused(stated: hr.DType) -> None:
    proto = GraphDef()
    node = proto.node.add(name="lie", op="Const")
    node.attr["dtype"].type = stated.number
    node.attr["value"].tensor.CopyFrom(encode_tensor(np.ones(2, np.float32)))
    with pytest.raises(hr.errors.DTypeError, match=f"value has another dtype(.|\n)*'lie'(.|\n)*{stated}(.|\n)*float32"):
        hr.import_graph_def(proto)
