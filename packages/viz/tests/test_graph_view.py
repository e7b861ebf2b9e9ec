"""The view of a graph: everything that TensorBoard draws, and nothing heavy."""

from __future__ import annotations

import numpy as np

import headrace as hr
from headrace.graph.proto.function_pb2 import FunctionDef, FunctionDefLibrary
from headrace.graph.proto.op_def_pb2 import OpDef
from headrace_viz.graph_view import graph_view


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
    graph = hr.Graph()
    library = FunctionDefLibrary(function=[FunctionDef(signature=OpDef(name="square"))])
    graph.functions.gradients = library.SerializeToString()
    assert graph_view(graph).library == library
