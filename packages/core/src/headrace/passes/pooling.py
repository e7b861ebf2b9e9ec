"""Activations go behind pooling: the largest of some numbers after relu is relu of the largest, and that is fewer.

It is the same number for each: relu and relu6 never fall where their operand rises, and NaN stays NaN either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import copy_op, rewrite_live

__all__ = ["pooling"]

_ACTIVATIONS = frozenset({"Relu", "Relu6"})


def pooling(graph: Graph) -> Graph:
    """Swap activations and the MaxPool that is the only one to read them.

    A graph in which values may be dead stays as it is.
    """
    if has_tokens(graph) or not any(op.type == "MaxPool" for op in graph.operations):
        return graph
    readers = Counter(tensor for op in graph.operations for tensor in op.inputs)
    awaited = {item for op in graph.operations for item in op.control_inputs}

    def rule(op: Operation, inputs: Sequence[Tensor], result: Graph) -> Sequence[Tensor] | None:
        activation = op.inputs[0].op if op.inputs else op
        fits = op.type == "MaxPool" and activation.type in _ACTIVATIONS and readers[op.inputs[0]] == 1
        held = any(item in awaited or item.control_inputs or "_target" in item.attrs for item in (op, activation))
        if not fits or held:
            return None
        pooled = copy_op(op, inputs[0].op.inputs, result, prefix=f"{op.name}/")
        return copy_op(activation, pooled.outputs, result, prefix=f"{op.name}/", trusted=False).outputs

    return rewrite_live(graph, rule)
