"""The exported graph: only what is needed, with nodes that save and restore its variables."""

from __future__ import annotations

import pytest

from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.types_pb2 import DT_FLOAT, DT_STRING
from headrace_checkpoint.exported_graph import add_saver, exported_variables, node_of, prune
from headrace_checkpoint.proto.saved_model_pb2 import VariableDef


def _graph(*nodes: tuple[str, str, list[str]]) -> GraphDef:
    graph = GraphDef()
    graph.versions.producer = 1882
    for name, op, inputs in nodes:
        node = graph.node.add(name=name, op=op, input=inputs, device="/device:GPU:0")
        if op == "VarHandleOp":
            node.attr["dtype"].type = DT_FLOAT
            node.attr["shape"].shape.dim.add(size=3)
            node.attr["container"].s = b"process"
            node.attr["shared_name"].s = b"another"
    return graph


MODEL = _graph(
    ("x", "Placeholder", []),
    ("w", "VarHandleOp", []),
    ("w/read", "ReadVariableOp", ["w"]),
    ("before", "NoOp", []),
    ("y", "Mul", ["x:0", "w/read", "^before"]),
    ("gradient", "Mul", ["y", "y"]),
    ("update", "AssignSubVariableOp", ["w", "gradient"]),
)


@pytest.mark.parametrize(("edge", "node"), [("a", "a"), ("a:1", "a"), ("^a", "a"), ("f/a:out:0", "f/a")])
def test_edges_come_from_nodes(edge: str, node: str) -> None:
    assert node_of(edge) == node


def test_prune_keeps_what_the_roots_need_in_order() -> None:
    pruned = prune(MODEL, ["y"])
    assert [node.name for node in pruned.node] == ["x", "w", "w/read", "before", "y"]
    assert pruned.versions == MODEL.versions
    assert {node.device for node in pruned.node} == {""}
    assert MODEL.node[0].device == "/device:GPU:0"


def test_prune_forgets_colocation_with_what_is_gone() -> None:
    graph = GraphDef()
    graph.CopyFrom(MODEL)
    graph.node[4].attr["_class"].list.s.extend([b"loc:@w", b"loc:@update"])
    graph.node[2].attr["_class"].list.s.append(b"loc:@update")
    pruned = {node.name: node for node in prune(graph, ["y"]).node}
    assert list(pruned["y"].attr["_class"].list.s) == [b"loc:@w"]
    assert "_class" not in pruned["w/read"].attr


def test_variables_are_named_by_their_node() -> None:
    pruned = prune(MODEL, ["y"])
    (variable,) = exported_variables(pruned, {"w": False})
    assert (variable.name, variable.dtype, variable.trainable) == ("w", DT_FLOAT, False)
    handle = pruned.node[1]
    assert (handle.attr["container"].s, handle.attr["shared_name"].s) == (b"", b"w")


def test_the_saver_is_complete_and_apart_from_the_graph() -> None:
    graph = prune(_graph(*[(n.name, n.op, list(n.input)) for n in MODEL.node], ("save/x", "NoOp", [])), ["y", "save/x"])
    before = {node.name for node in graph.node}
    variables = exported_variables(graph, {})
    saver, collections = add_saver(graph, variables)
    nodes = {node.name: node for node in graph.node}
    added = nodes.keys() - before
    assert len(nodes) == len(graph.node)
    assert all(name.startswith("save_1/") for name in added)
    for node in graph.node:
        assert all(node_of(edge) in nodes for edge in node.input)
    assert nodes[saver.restore_op_name].op == "NoOp"
    assert nodes[node_of(saver.filename_tensor_name)].attr["dtype"].type == DT_STRING
    assert nodes[node_of(saver.save_tensor_name)].input[1] == "^save_1/SaveV2"
    assert list(nodes["save_1/SaveV2/tensor_names"].attr["value"].tensor.string_val) == [b"w"]
    assert list(nodes["save_1/AssignVariableOp_0"].input) == ["w", "save_1/RestoreV2"]
    (encoded,) = collections["variables"].bytes_list.value
    variable = VariableDef.FromString(encoded)
    assert {node_of(variable.initializer_name), node_of(variable.snapshot_name), "w"} <= nodes.keys()
    assert nodes[node_of(variable.initial_value_name)].op == "Fill"
    assert variable.is_resource


def test_only_trainable_variables_are_listed_as_such() -> None:
    graph = prune(MODEL, ["y"])
    _, collections = add_saver(graph, exported_variables(graph, {"w": False}))
    assert set(collections) == {"variables"}
