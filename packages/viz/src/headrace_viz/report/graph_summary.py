"""A graph in a few numbers: how many operations of which types, where they are, and how large its variables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from headrace.graph.proto.graph_pb2 import GraphDef

_TOP_LEVEL = "(no scope)"


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """A graph in a few numbers.

    Attributes:
      operations: number of operations.
      types: number of operations by type, the most frequent first.
      scopes: number of operations by outermost name scope, the largest first.
      devices: number of operations by requested device.
      variables: number of variables.
      parameters: number of elements of all variables whose shape is known.
    """

    operations: int
    types: dict[str, int]
    scopes: dict[str, int]
    devices: dict[str, int]
    variables: int
    parameters: int


def summarize_graph(graph_def: bytes) -> GraphSummary | None:
    """Return a serialised GraphDef in a few numbers, or None where the bytes are none.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     w = hr.Variable(hr.zeros([3, 4]), name="w")
      >>> summarize_graph(hr.to_graph_def(graph).SerializeToString()).parameters
      12
    """
    try:
        nodes = GraphDef.FromString(graph_def).node
    except DecodeError:
        return None
    handles = [node for node in nodes if node.op in ("VarHandleOp", "VariableV2", "Variable")]
    return GraphSummary(
        operations=len(nodes),
        types=_counts(node.op for node in nodes),
        scopes=_counts(node.name.split("/")[0] if "/" in node.name else _TOP_LEVEL for node in nodes),
        devices=_counts(node.device or "(not requested)" for node in nodes),
        variables=len(handles),
        parameters=sum(_elements([dim.size for dim in node.attr["shape"].shape.dim]) for node in handles),
    )


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())


def _elements(sizes: list[int]) -> int:
    return 0 if any(size < 0 for size in sizes) else math.prod(sizes)
