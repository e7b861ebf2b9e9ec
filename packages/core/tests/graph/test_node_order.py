"""The order of nodes in graph files."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.graph.node_order import loop_heads, topological
from headrace.graph.proto.graph_pb2 import GraphDef


def _proto(*nodes: tuple[str, str, list[str]]) -> GraphDef:
    proto = GraphDef()
    for name, op, inputs in nodes:
        proto.node.add(name=name, op=op, input=inputs)
    return proto


def test_nodes_come_after_what_they_read_and_otherwise_as_the_file_has_them() -> None:
    proto = _proto(
        ("d", "Add", ["b", "c:1"]),
        ("a", "Const", []),
        ("c", "Split", ["a", "^e"]),
        ("b", "Neg", ["a"]),
        ("e", "NoOp", []),
    )
    assert [node.name for node in topological(proto)] == ["a", "b", "e", "c", "d"]


@pytest.mark.parametrize("reference", ["", "Ref"])
def test_the_last_input_of_a_merge_may_lead_backward(reference: str) -> None:
    merge = f"{reference}Merge"
    proto = _proto(
        ("head", merge, ["start", "back", "^start"]),
        ("back", f"{reference}NextIteration", ["head"]),
        ("start", "Enter", []),
    )
    assert loop_heads(proto) == {"head": "back"}
    assert [node.name for node in topological(proto)] == ["start", "head", "back"]
    proto.node[0].CopyFrom(_proto(("head", merge, ["back", "start"])).node[0])
    assert loop_heads(proto) == {}
    with pytest.raises(hr.errors.GraphError, match=r"has a cycle(.|\n)*head, back"):
        topological(proto)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("a", "Identity", ["b"]), ("b", "Identity", ["a"])], "has a cycle"),
        ([("a", "NoOp", []), ("a", "NoOp", [])], "two operations are named 'a'"),
        ([("a", "NoOp", ["^missing"])], "reads '\\^missing', which does not exist"),
        ([("a", "NoOp", []), ("b", "SomeOp", ["a:3"])], "reads 'a:3', which does not exist"),
    ],
)
def test_malformed_graph_is_refused(nodes: list[tuple[str, str, list[str]]], message: str) -> None:
    proto = GraphDef()
    for name, op, inputs in nodes:
        node = proto.node.add(name=name, op=op, input=inputs)
        if op == "Identity":
            node.attr["T"].type = 1
    with pytest.raises(hr.errors.GraphError, match=message):
        hr.import_graph_def(proto)
