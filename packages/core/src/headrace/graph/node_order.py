"""The order of the nodes in a graph file: each after what it needs, but for the edges of loops that lead backward."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import GraphError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef

__all__ = ["loop_heads", "topological"]


def topological(proto: GraphDef) -> list[NodeDef]:
    """The nodes with each after its inputs, otherwise in the order of the file.

    Raises:
      GraphError: two nodes have the same name, an input does not exist, or there is a cycle other than a loop's.
    """
    nodes: dict[str, NodeDef] = {}
    for node in proto.node:
        if node.name in nodes:
            raise GraphError(
                f"two operations are named '{node.name}'",
                expected="unique names",
                got=f"{nodes[node.name].op} and {node.op}",
                hint="rename one of them, and the inputs that read it",
            )
        nodes[node.name] = node
    heads = loop_heads(proto)
    waiting = {name: _producers(node, nodes, heads.get(name)) for name, node in nodes.items()}
    consumers: dict[str, list[str]] = {name: [] for name in nodes}
    for name, producers in waiting.items():
        for producer in producers:
            consumers[producer].append(name)
    counts = {name: len(producers) for name, producers in waiting.items()}
    ready = [name for name in reversed(nodes) if counts[name] == 0]
    ordered: list[NodeDef] = []
    while ready:
        name = ready.pop()
        ordered.append(nodes[name])
        for consumer in reversed(consumers[name]):
            counts[consumer] -= 1
            if counts[consumer] == 0:
                ready.append(consumer)
    if len(ordered) != len(nodes):
        stuck = [name for name, count in counts.items() if count > 0]
        raise GraphError(
            "the graph has a cycle",
            expected="no operation that depends on its own output, but for a NextIteration that a Merge reads last",
            got=", ".join(stuck[:8]),
            hint="build the loop with hr.while_loop",
        )
    return ordered


def _producers(node: NodeDef, nodes: Mapping[str, NodeDef], back: str | None) -> set[str]:
    producers: set[str] = set()
    for edge in node.input:
        if edge == back:
            continue
        name = edge.removeprefix("^").partition(":")[0]
        if name not in nodes:
            raise GraphError(
                f"'{node.name}' reads '{edge}', which does not exist",
                expected="the name of an operation of the graph",
                got=f"no operation '{name}'",
                hint="write the graph with every operation that it reads from, or drop this input",
            )
        producers.add(name)
    return producers


def loop_heads(proto: GraphDef) -> dict[str, str]:
    """The operations at the heads of loops, each with the input that leads backward."""
    types = {node.name: node.op.removeprefix("Ref") for node in proto.node}
    return {
        node.name: edges[-1]
        for node in proto.node
        if types[node.name] == "Merge"
        and len(edges := [edge for edge in node.input if not edge.startswith("^")]) > 1
        and types.get(edges[-1].partition(":")[0]) == "NextIteration"
    }
