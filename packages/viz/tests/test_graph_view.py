"""The view of a graph: everything that TensorBoard draws, and nothing heavy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.graph.proto.attr_pb2 import AttrValue
from headrace.graph.proto.function_pb2 import FunctionDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.op_def_pb2 import OpDef
from headrace_viz.graph_view import divided_view, graph_view


def _graph() -> hr.Graph:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        with hr.name_scope("layer"), hr.device("/device:CPU:0"):
            w = hr.constant(np.ones([3, 1000], np.float32), name="w")
            with hr.control_dependencies([hr.group([x], name="before")]):
                hr.identity(hr.apply_op("MatMul", x, w, transpose_b=False, name="product"), name="y")
    return graph


def test_nodes_edges_devices_and_shapes() -> None:
    nodes = {node.name: node for node in graph_view(_graph()).node}
    assert set(nodes) == {"x", "layer/w", "layer/before", "layer/product", "layer/y"}
    product = nodes["layer/product"]
    assert (product.op, product.device) == ("MatMul", "/device:CPU:0")
    assert list(product.input) == ["x", "layer/w", "^layer/before"]
    (shape,) = product.attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [-1, 1000]
    assert product.attr["T"].type == hr.float32.number
    assert product.attr["transpose_b"].WhichOneof("value") == "b"


def test_values_of_constants_stay_out() -> None:
    view = graph_view(_graph())
    assert "value" not in {node.name: node for node in view.node}["layer/w"].attr
    assert view.ByteSize() < 2000


def test_attributes_of_every_kind() -> None:
    attrs = {
        "integer": hr.attr.int(),
        "number": hr.attr.float(),
        "text": hr.attr.string(),
        "shape": hr.attr.shape(),
        "integers": hr.attr.list_of(hr.attr.int()),
        "dtypes": hr.attr.list_of(hr.attr.type()),
        "data": hr.attr.string(),
        "tensors": hr.attr.list_of(hr.attr.tensor()),
    }

    @hr.register_op("VizTestAttributes", outputs={"y": "float32"}, attrs=attrs)
    def shape_function(op: hr.InferenceContext) -> list[hr.Shape]:
        """Nothing; it has attributes of many kinds."""
        return [hr.Shape(None)]

    with hr.Graph().as_default() as graph:
        hr.apply_op(
            "VizTestAttributes",
            integer=3,
            number=0.5,
            text="a",
            shape=[None, 2],
            integers=[1, 2],
            dtypes=[hr.float32, hr.string],
            data=b"\xff",
            tensors=[np.ones(2)],
        )
    (node,) = graph_view(graph).node
    assert (node.attr["integer"].i, node.attr["number"].f, node.attr["text"].s) == (3, 0.5, b"a")
    assert node.attr["data"].s == b"\xff"
    assert "tensors" not in node.attr
    assert [dim.size for dim in node.attr["shape"].shape.dim] == [-1, 2]
    assert list(node.attr["integers"].list.i) == [1, 2]
    assert list(node.attr["dtypes"].list.type) == [hr.float32.number, hr.string.number]
    assert node.attr["_output_shapes"].list.shape[0].unknown_rank


def test_an_empty_graph() -> None:
    assert len(graph_view(hr.Graph()).node) == 0


def test_functions_of_the_graph_are_shown() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2, 3], name="x")
        hr.cond(hr.sum(x) > 0, lambda: hr.exp(x, name="grown") + hr.constant(np.ones([2, 3], np.float32)), lambda: x)
    view = graph_view(graph)
    (cond,) = [node for node in view.node if node.op.endswith("If")]
    functions = {function.signature.name: function for function in view.library.function}
    then = functions[cond.attr["then_branch"].func.name]
    assert cond.attr["else_branch"].func.name in functions
    nodes = {node.name: node for node in then.node_def}
    (shape,) = nodes["grown"].attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [2, 3]
    assert not [node.name for node in then.node_def if "value" in node.attr]
    assert [argument.name for argument in then.signature.input_arg] == [nodes["grown"].input[0]]


def test_functions_of_a_file_stay_as_they_are_but_for_their_tensors() -> None:
    constant = NodeDef(name="one", op="Const", attr={"dtype": AttrValue(type=1), "value": AttrValue(tensor={})})
    function = FunctionDef(signature=OpDef(name="other"), node_def=[constant])
    graph = hr.Graph()
    graph.functions.add_stored("other", function.SerializeToString(), pytest.fail)
    (shown,) = graph_view(graph).library.function
    del function.node_def[0].attr["value"]
    assert shown == function


def _divided() -> dict[str, hr.Graph]:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        with hr.device("CPU:0"):
            product = hr.matmul(x, x, transpose_b=True, name="product")
        with hr.device("CPU:1"):
            y = hr.cond(hr.sum(product) > 0, lambda: product * 2, lambda: product, name="chosen")
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2}))
    return session.partitions(y, {x: np.ones((2, 3), np.float32)})


def test_each_device_is_a_scope_and_transfers_are_edges() -> None:
    view = divided_view(_divided())
    nodes = {node.name: node for node in view.node}
    assert {name.split("/")[0] for name in nodes} == {"CPU_0", "CPU_1"}
    assert all(node.device.endswith(node.name[:5].replace("_", ":")) for node in view.node)
    (receive,) = [node for node in view.node if node.op == "_Recv"]
    send = nodes[receive.input[0]]
    assert (send.op, send.name[:5], receive.name[:5]) == ("_Send", "CPU_0", "CPU_1")
    assert send.input[0] == "CPU_0/product"
    for node in (send, receive):
        (shape,) = node.attr["_output_shapes"].list.shape
        assert [dim.size for dim in shape.dim] == [2, 2]
    inputs = {name.lstrip("^").split(":")[0] for node in view.node for name in node.input}
    assert inputs <= set(nodes)
    names = [function.signature.name for function in view.library.function]
    assert len(names) == len(set(names)) == 2


def test_a_step_on_one_device_has_one_scope_and_what_another_process_sends_has_no_sender() -> None:
    graph = _graph()
    assert {node.name.split("/")[0] for node in divided_view({"": graph}).node} == {"CPU_0"}
    there = {device: part for device, part in _divided().items() if device.endswith("CPU:1")}
    (receive,) = [node for node in divided_view(there).node if node.op == "_Recv"]
    assert not [name for name in receive.input if not name.startswith("^")]
