"""The one way passes change a graph: copy it operation by operation, and let a rule replace some.

Passes see *bounded* graphs: arguments are `_Arg` operations, results are `_Retval` operations, and operations to be run
for their effect carry the attr `_target`. A pass returns a new graph; the old one stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor

__all__ = ["copy_op", "drop_dead", "is_pure", "is_root", "rewrite"]

_MARKERS = frozenset({"_Arg", "_Retval", "Placeholder", "NoOp"})
"""Types that compute nothing: they mark what goes in and out of a graph, or order effects."""

Rule = Callable[[Operation, Sequence[Tensor], Graph], "Sequence[Tensor] | None"]
"""Gets an operation of the old graph, its inputs in the new one and the new graph; gives the tensors that stand for its
outputs, or None to copy it."""


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """A copy of `graph` in which `rule` has replaced operations.

    Control inputs follow a replaced operation to the operation that gives its first output now.
    """
    result = Graph(seed=graph.seed, extend=True)
    result.library = graph.library
    tensors: dict[Tensor, Tensor] = {}
    operations: dict[Operation, Operation] = {}
    for op in graph.operations:
        inputs = [tensors[tensor] for tensor in op.inputs]
        replaced = rule(op, inputs, result)
        if replaced is None:
            copied = copy_op(op, inputs, result, [operations[item] for item in op.control_inputs])
            replaced = copied.outputs
            operations[op] = copied
        elif replaced:
            operations[op] = replaced[0].op
        tensors.update(zip(op.outputs, replaced, strict=True))
    return result


def copy_op(
    op: Operation,
    inputs: Sequence[Tensor],
    graph: Graph,
    control_inputs: Sequence[Operation] = (),
    attrs: Mapping[str, object] | None = None,
    *,
    trusted: bool = True,
) -> Operation:
    """Create the same operation in another graph, with other inputs and possibly other attributes.

    `trusted`: what was inferred for `op` from the values of its inputs holds for the new ones too.
    """
    return graph.create_op(
        op.type,
        inputs,
        op.attrs if attrs is None else attrs,
        name=op.name + "/",
        control_inputs=control_inputs,
        device=op.device,
        colocation=op.colocation,
        source=op.source,
        op_def=op.op_def,
        like=op if trusted else None,
    )


def is_root(op: Operation) -> bool:
    """True if the operation must run whether or not another one reads it."""
    return op.type in ("_Arg", "_Retval") or "_target" in op.attrs or op.op_def.has_effect


def is_pure(op: Operation) -> bool:
    """True if the operation does nothing but compute its outputs: a pass may put other tensors in their place."""
    runs_for_effect = op.op_def.stateful or op.control_inputs or "_target" in op.attrs
    return bool(op.outputs) and op.type not in _MARKERS and not runs_for_effect


def drop_dead(graph: Graph) -> Graph:
    """A copy of a bounded graph without the operations that no root needs."""
    needed: set[Operation] = set()
    stack = [op for op in graph.operations if is_root(op)]
    while stack:
        op = stack.pop()
        if op not in needed:
            needed.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
            stack.extend(op.control_inputs)
    if len(needed) == len(graph.operations):
        return graph
    result = Graph(seed=graph.seed, extend=True)
    result.library = graph.library
    copies: dict[Operation, Operation] = {}
    for op in graph.operations:
        if op in needed:
            inputs = [copies[tensor.op].outputs[tensor.index] for tensor in op.inputs]
            copies[op] = copy_op(op, inputs, result, [copies[item] for item in op.control_inputs])
    return result
