"""Variables become constants wherever their handles go."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.errors import GraphError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.types_pb2 import DT_FLOAT, DT_INT32, DT_RESOURCE
from headrace_checkpoint.exported_graph import prune
from headrace_checkpoint.frozen_variables import freeze_variables, tensor_proto

X = np.array([1.0, 2.0, 3.0], np.float32)


class Built:
    """A graph with a vector `v`, a matrix `m`, and placeholders for a vector and a number."""

    def __init__(self) -> None:
        self.graph = hr.Graph()
        with self.graph.as_default():
            self.x = hr.placeholder(hr.float32, [3], name="x")
            self.n = hr.placeholder(hr.int32, [], name="n")
            self.v = hr.Variable(X * 10, name="v")
            self.m = hr.Variable(np.arange(12, dtype=np.float32).reshape(4, 3), name="m")

    def handle(self, variable: hr.Variable) -> hr.Tensor:
        return variable.handle_in(self.graph)

    def check(self, output: Any, n: int = 2) -> GraphDef:
        """Freeze, run both, compare; returns the frozen graph."""
        with hr.Session(self.graph) as session:
            expected = session.run(output, feeds={self.x: X, self.n: n})
            session.run([self.v.value, self.m.value])
            needed = prune(hr.to_graph_def(self.graph), [output.op.name, "x", "n"])
            frozen = freeze_variables(needed, session.read_variables(["v", "m"]))
        assert {node.op for node in frozen.node}.isdisjoint({"VarHandleOp", "ReadVariableOp"})
        called = prune(frozen, [node.name for node in frozen.node]).library.function
        assert DT_RESOURCE not in {argument.type for item in called for argument in item.signature.input_arg}
        with hr.Session(hr.import_graph_def(frozen)) as session:
            np.testing.assert_array_equal(session.run(output.name, feeds={"x:0": X, "n:0": n}), expected)
        return frozen


@pytest.fixture
def built() -> Built:
    return Built()


def test_a_read_becomes_the_constant(built: Built) -> None:
    with built.graph.as_default():
        y = built.x * built.v
    nodes = {node.name: node for node in built.check(y).node}
    assert nodes["v"].op == "Const"
    assert np.frombuffer(nodes["v"].attr["value"].tensor.tensor_content, np.float32).tolist() == [10, 20, 30]
    assert "m" not in nodes


def test_rows_and_elements_that_are_gathered(built: Built) -> None:
    with built.graph.as_default():
        rows = hr.apply_op("ResourceGather", built.handle(built.m), np.array([[1, 3], [0, 0]]), dtype=hr.float32)
        batched = hr.apply_op(
            "ResourceGather", built.handle(built.m), np.array([[2], [1], [0], [1]]), dtype=hr.float32, batch_dims=1
        )
        y = hr.sum(rows) + hr.sum(batched) + hr.mean(built.x)
    assert "GatherV2" in {node.op for node in built.check(y).node}


def test_elements_that_are_gathered_by_tensorflow(built: Built) -> None:
    """An operation that only TensorFlow has, in a graph of it."""
    with built.graph.as_default():
        indices = hr.constant([[1, 2], [3, 0]], hr.int32, name="indices")
    graph = prune(hr.to_graph_def(built.graph), ["m", indices.op.name])
    node = graph.node.add(name="y", op="ResourceGatherNd", input=["m", "indices"])
    node.attr["dtype"].type, node.attr["Tindices"].type = DT_FLOAT, DT_INT32
    frozen = freeze_variables(graph, {"m": np.arange(12, dtype=np.float32).reshape(4, 3)})
    assert hr.Session(hr.import_graph_def(frozen)).run("y:0").tolist() == [5, 9]


def test_the_shape_of_a_variable(built: Built) -> None:
    with built.graph.as_default():
        shape = hr.apply_op("VariableShape", built.handle(built.m))
        y = hr.astype(hr.sum(shape), hr.float32) + built.x
    built.check(y)


def test_branches_and_loops_take_the_values(built: Built) -> None:
    with built.graph.as_default():

        def body(i: Any, y: Any) -> Any:
            return i + 1, hr.cond(hr.sum(y) > 100.0, lambda: y - built.v, lambda: y * 2.0 + built.m[0])

        y = hr.while_loop(
            lambda i, y: hr.logical_and(i < built.n, hr.sum(y) < hr.sum(built.v) * 9), body, (0, built.x)
        )[1]
    for n in (0, 1, 5):
        built.check(y, n)


def test_functions_in_functions_take_the_values(built: Built) -> None:
    @hr.function
    def inner(y: Any) -> Any:
        return y * built.v

    @hr.function
    def outer(y: Any) -> Any:
        return inner(y) + inner(y + 1.0) + built.m[1]

    with built.graph.as_default():
        y = hr.identity(outer(built.x)) + inner(built.x)
    built.check(y)


def test_an_update_of_a_variable_is_refused(built: Built) -> None:
    with built.graph.as_default(), hr.control_dependencies([built.v.assign_add(X)]):
        y = hr.identity(built.x)
    with hr.Session(built.graph) as session:
        session.run(built.v.value)
        needed = prune(hr.to_graph_def(built.graph), [y.op.name])
        with pytest.raises(GraphError, match=r"does something else than read a variable[^$]*got: *AssignAddVariableOp"):
            freeze_variables(needed, session.read_variables(["v"]))


def test_a_graph_in_any_order(built: Built) -> None:
    with built.graph.as_default():
        y = hr.tanh(built.x * built.v) + built.v
    with hr.Session(built.graph) as session:
        expected = session.run(y, feeds={built.x: X})
        values = session.read_variables(["v"])
    needed = prune(hr.to_graph_def(built.graph), [y.op.name])
    turned = GraphDef(versions=needed.versions)
    turned.node.extend(reversed(needed.node))
    with hr.Session(hr.import_graph_def(freeze_variables(turned, values))) as session:
        np.testing.assert_array_equal(session.run(y.name, feeds={"x:0": X}), expected)


@pytest.mark.parametrize(
    "value",
    [
        np.array(3, np.int64),
        np.zeros((0, 2), np.complex128),
        np.array([[True], [False]]),
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.array([b"", b"\xff\0"], object),
        np.array([1.5], ml_dtypes.bfloat16),
    ],
    ids=lambda value: str(value.dtype),
)
def test_arrays_as_messages(value: Any) -> None:
    graph = GraphDef()
    node = graph.node.add(name="c", op="Const")
    node.attr["value"].tensor.CopyFrom(tensor_proto(value))
    node.attr["dtype"].type = node.attr["value"].tensor.dtype
    found = hr.Session(hr.import_graph_def(graph)).run("c:0")
    assert (found.dtype, found.shape, found.tolist()) == (value.dtype, value.shape, value.tolist())
