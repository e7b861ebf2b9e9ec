"""Raising: branches and loops of primitives become `If` and `While`, which compile, where they have that form."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.graph.extensions import needed_operations, standing_for
from headrace.graph.frames import Frames, has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.ops.raising import raise_control_flow
from headrace.passes.rewrite import copy_op, is_root, rewrite

__all__ = ["raising"]


def raising(graph: Graph) -> Graph:
    """A bounded graph with its branches and loops in structured form; the graph itself if one of them has none.

    A graph in which an operation of a loop waits for others stays as it is, since there iterations may overlap; so does
    one that asks for devices, since a branch or loop in structured form runs on one.
    """
    if not has_tokens(graph) or any(op.device for op in graph.operations) or _waits_in_loop(graph):
        return graph
    work = rewrite(graph, lambda op, inputs, target: None)
    try:
        raised = raise_control_flow(work, work.operations)
    except HeadraceError:  # it has no structured form, or none whose static shapes are right
        return graph
    if any(op.type == "_Retval" for op in raised.inside):  # a fetch that has a value only if its branch is taken
        return graph
    work.extensions.update(raised.standing)
    work.raised.update(raised.standing.values())
    roots = [op for op in work.operations if is_root(op) and op not in raised.inside]
    operations, replaced = needed_operations((), roots, ())
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    tensors: dict[Tensor, Tensor] = {}
    copies: dict[Operation, Operation] = {}
    for op in operations:
        inputs = [tensors[standing_for(tensor, replaced)] for tensor in op.inputs]
        controls = [copies[replaced.get(item, item)] for item in op.control_inputs]
        copies[op] = copy_op(op, inputs, result, controls)
        tensors.update(zip(op.outputs, copies[op].outputs, strict=True))
    return graph if has_tokens(result) else result


def _waits_in_loop(graph: Graph) -> bool:
    if not any(op.blocks for op in graph.operations):
        return False
    frames = Frames(graph)
    return any(op.blocks and frames[op].parent is not None for op in graph.operations)
