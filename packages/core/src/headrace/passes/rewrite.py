"""The one way passes change a graph: copy it operation by operation, and let a rule replace some.

Passes see *bounded* graphs: arguments are `_Arg` operations, results are `_Retval` operations, and operations to be run
for their effect carry the attr `_target`. A pass returns a new graph; the old one stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.graph.attr import attr_key
from headrace.graph.frames import back_edge, forward_inputs
from headrace.graph.graph import Graph, take_back
from headrace.graph.operation import Operation, Tensor
from headrace.types import Shape

__all__ = ["close_loops", "copy_op", "drop_dead", "is_pure", "is_root", "rewrite", "rewrite_live"]

_MARKERS = frozenset({"_Arg", "_Retval", "Placeholder", "NoOp"})
"""Types that compute nothing: they mark what goes in and out of a graph, or order effects."""

LARGEST_SIZES = 1 << 10
"""Bytes of a constant that tells sizes, at most; larger ones are weights, and other weights have the same shape."""

Rule = Callable[[Operation, Sequence[Tensor], Graph], "Sequence[Tensor] | None"]
"""Gets an operation of the old graph, its inputs in the new one and the new graph; gives the tensors that stand for its
outputs, or None to copy it."""


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """A copy of `graph` in which `rule` has replaced operations.

    Control inputs follow a replaced operation to the operation that gives its first output now. Where a constant gets
    another value, the shapes of what follows from it are inferred again.
    """
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    tensors: dict[Tensor, Tensor] = {}
    operations: dict[Operation, Operation] = {}
    changed: set[Tensor] = set()
    for op in graph.operations:
        closed = back_edge(op) is not None
        inputs = [tensors[tensor] for tensor in (forward_inputs(op) if closed else op.inputs)]
        follows = bool(changed) and not changed.isdisjoint(inputs)
        replaced = None if closed else rule(op, inputs, result)
        if replaced is None:
            controls = [operations[item] for item in op.control_inputs]
            copied = copy_op(op, inputs, result, controls, trusted=not follows)
            replaced = copied.outputs
            operations[op] = copied
        elif replaced:
            operations[op] = replaced[0].op
            follows = follows or (op.type == "Const" and _differs(replaced[0], op.attrs["value"]))
        changed.update(replaced if follows else ())
        tensors.update(zip(op.outputs, replaced, strict=True))
    close_loops(operations, tensors)
    return result


def _differs(tensor: Tensor, value: Any) -> bool:
    """True unless a tensor is a constant of this value, if that is so small that a shape may follow from it."""
    if value.nbytes > LARGEST_SIZES:
        return False
    other = tensor.op.attrs["value"] if tensor.op.type == "Const" else None
    return other is not value and (other is None or attr_key(other) != attr_key(value))


def copy_op(
    op: Operation,
    inputs: Sequence[Tensor],
    graph: Graph,
    control_inputs: Sequence[Operation] = (),
    attrs: Mapping[str, object] | None = None,
    *,
    prefix: str = "",
    suffix: str = "",
    trusted: bool = True,
    may_not_run: bool = False,
) -> Operation:
    """Create the same operation in another graph, with other inputs and possibly other attributes.

    The head of a loop is copied without its back edge; `close_loops` adds it when the whole loop is there.

    `prefix`, `suffix`: what comes before and after its name there.
    `trusted`: what was inferred for `op` from the values of its inputs holds for the new ones too.
    `may_not_run`: shapes that do not fit each other are an error only if it runs.
    """
    attrs = op.attrs if attrs is None else attrs
    closed = back_edge(op) is not None
    if closed:
        attrs = {**attrs, "N": len(inputs)}
    copied = graph.create_op(
        op.type,
        inputs,
        attrs,
        name=f"{prefix}{op.name}{suffix}/",
        control_inputs=control_inputs,
        device=op.device,
        colocation=op.colocation,
        source=op.source,
        op_def=op.op_def,
        like=op if trusted else None,
        may_not_run=may_not_run,
    )
    if closed:
        copied.outputs[0].shape = op.outputs[0].shape if trusted else Shape()  # later iterations may differ from Enter
    return copied


def close_loops(copies: Mapping[Operation, Operation], tensors: Mapping[Tensor, Tensor]) -> None:
    """Add the back edges of copied loops.

    Args:
      copies: the operations by those they are copies of.
      tensors: what stands for the tensors of the old graph.
    """
    for op, copied in copies.items():
        back = back_edge(op)
        if back is not None:
            tensor = tensors[back]
            tensor.set_shape(copied.outputs[0].shape)
            copied.graph.close_loop(copied, tensor)


def is_root(op: Operation) -> bool:
    """True if the operation must run whether or not another one reads it."""
    return op.type in ("_Arg", "_Retval") or "_target" in op.attrs or op.has_effect


def is_pure(op: Operation) -> bool:
    """True if the operation does nothing but compute its outputs: a pass may put other tensors in their place."""
    runs_for_effect = op.is_stateful or op.control_inputs or "_target" in op.attrs
    return bool(op.outputs) and op.type not in _MARKERS and not runs_for_effect


def rewrite_live(graph: Graph, rule: Rule) -> Graph:
    """What `drop_dead(rewrite(graph, rule))` gives, in one copy: what is dead goes before anybody sees it."""
    result = rewrite(graph, rule)
    needed = _needed(result)
    if len(needed) < len(result.operations):
        take_back(result, [op for op in result.operations if op not in needed])
    return result


def _needed(graph: Graph) -> set[Operation]:
    """The operations that roots need, and these."""
    needed: set[Operation] = set()
    stack = [op for op in graph.operations if is_root(op)]
    while stack:
        op = stack.pop()
        if op not in needed:
            needed.add(op)
            stack.extend([tensor.op for tensor in op.inputs])
            stack.extend(op.control_inputs)
    return needed


def drop_dead(graph: Graph) -> Graph:
    """A copy of a bounded graph without the operations that no root needs."""
    needed = _needed(graph)
    if len(needed) == len(graph.operations):
        return graph
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    copies: dict[Operation, Operation] = {}
    for op in graph.operations:
        if op in needed:
            inputs = [copies[tensor.op].outputs[tensor.index] for tensor in forward_inputs(op)]
            copies[op] = copy_op(op, inputs, result, [copies[item] for item in op.control_inputs])
    close_loops(copies, {old: new for op in copies for old, new in zip(op.outputs, copies[op].outputs, strict=True)})
    return result
