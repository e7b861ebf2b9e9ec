"""The exported graph: only what is needed, with nodes that save and restore its variables."""

from __future__ import annotations

import pytest

from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.types_pb2 import DT_FLOAT, DT_STRING
from headrace_checkpoint.exported_graph import add_init_op, add_saver, exported_variables, node_of, prune
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


def _calls(graph: GraphDef, node: str, *functions: str) -> None:
    target = next(item for item in graph.node if item.name == node)
    for number, function in enumerate(functions):
        target.attr[f"f{number}"].func.name = function


def _function(graph: GraphDef, name: str, *called: str, listed: tuple[str, ...] = ()) -> None:
    function = graph.library.function.add()
    function.signature.name = name
    node = function.node_def.add(name="call", op="PartitionedCall")
    for number, other in enumerate(called):
        node.attr[f"f{number}"].func.name = other
    for other in listed:
        node.attr["branches"].list.func.add(name=other)


def test_prune_keeps_the_functions_that_are_called_and_those_that_they_call() -> None:
    graph = _graph(("x", "Placeholder", []), ("y", "StatefulPartitionedCall", ["x"]), ("z", "While", ["y"]))
    _calls(graph, "y", "first")
    _calls(graph, "z", "loop", "condition")
    _function(graph, "unused", "first")
    _function(graph, "first", "second", "first")  # calls itself, too
    _function(graph, "second", listed=("third", "absent"))
    _function(graph, "third")
    _function(graph, "loop")
    _function(graph, "condition")
    graph.library.gradient.add(function_name="third", gradient_func="g")
    graph.library.gradient.add(function_name="unused", gradient_func="g")
    pruned = prune(graph, ["y"])
    assert [function.signature.name for function in pruned.library.function] == ["first", "second", "third"]
    assert [item.function_name for item in pruned.library.gradient] == ["third"]
    every = {function.signature.name for function in prune(graph, ["z"]).library.function}
    assert every == {"first", "second", "third", "loop", "condition"}


def test_the_operation_that_fills_tables_gets_a_name_of_its_own() -> None:
    graph = _graph(("init", "Const", []), ("init_1", "NoOp", []), ("fill", "InitializeTableV2", []))
    assert add_init_op(graph, ["fill", "init_1"]) == "init_2"
    node = graph.node[-1]
    assert (node.name, node.op, list(node.input)) == ("init_2", "NoOp", ["^fill", "^init_1"])
    assert add_init_op(GraphDef(), []) == "init"
