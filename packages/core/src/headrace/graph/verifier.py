"""The rules that every graph obeys, checked between stages."""

from __future__ import annotations

from headrace.errors import GraphError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation

__all__ = ["verify", "verify_bounded"]

_BACK_EDGES = frozenset({"Merge"})
"""The only type that may read an operation created after it: the head of a loop."""


def verify(graph: Graph, *, stage: str) -> None:
    """Check that a graph is well formed.

    Names are unique, edges stay inside and go forward, specs follow the signature.

    Args:
      graph: the graph to check.
      stage: what produced it, for the error.
    Raises:
      GraphError: a rule is broken; the text names the operation and the rule.
    """
    names: set[str] = set()
    for op in graph.operations:
        if op.name in names:
            raise _broken(op, stage, "names are unique", f"two operations named '{op.name}'")
        names.add(op.name)
        _verify_edges(graph, op, stage)
        _verify_types(op, stage)


def verify_bounded(graph: Graph, *, stage: str) -> None:
    """Check the graph of one step: what `verify` asks, and that its edges to the outside are arguments and results.

    Args:
      graph: the graph to check.
      stage: what produced it, for the error.
    Raises:
      GraphError: a rule is broken; the text names the operation and the rule.
    """
    verify(graph, stage=stage)
    numbers: dict[str, list[int]] = {"_Arg": [], "_Retval": []}
    for op in graph.operations:
        if op.type == "Placeholder":
            raise _broken(op, stage, "every placeholder that is needed is fed", "a placeholder without a value")
        if op.type in numbers:
            if op.attrs["index"] in numbers[op.type]:
                raise _broken(op, stage, f"each {op.type} has its own index", f"index {op.attrs['index']} twice")
            numbers[op.type].append(op.attrs["index"])


def _verify_edges(graph: Graph, op: Operation, stage: str) -> None:
    sources = [tensor.op for tensor in op.inputs]
    for source in (*sources, *op.control_inputs):
        if source.graph is not graph:
            raise _broken(op, stage, "edges stay inside their graph", f"an edge from '{source.name}' of another graph")
        if source.index >= op.index and op.type not in _BACK_EDGES:
            raise _broken(op, stage, "edges go forward (only Merge closes a loop)", f"an edge from '{source.name}'")


def _verify_types(op: Operation, stage: str) -> None:
    for side, arguments, tensors in (("input", op.op_def.inputs, op.inputs), ("output", op.op_def.outputs, op.outputs)):
        expected = [dtype for argument in arguments for dtype in argument.dtypes(op.attrs)]
        given = [tensor.dtype for tensor in tensors]
        if len(expected) != len(given) or any(
            a is not b and b.name != "invalid" for a, b in zip(expected, given, strict=True)
        ):
            raise _broken(op, stage, f"{side}s follow the signature {op.op_def.signature}", f"{given}")


def _broken(op: Operation, stage: str, rule: str, got: str) -> GraphError:
    return GraphError(
        f"the graph after {stage} breaks a rule",
        where=op.location,
        expected=rule,
        got=got,
        hint=f"correct {stage}, or leave it out of hr.config(passes=...) and report it if it is a built-in one",
    )
