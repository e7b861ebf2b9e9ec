"""Deadness: on what it depends whether an operation runs, where branches and loops are made of tokens.

The answer for one operation is a set of conditions that all have to hold: that a Switch went one way, that a loop came
to another iteration, that a Merge got something alive, that what another device sent is alive. Operations with equal
sets live and die together, so they can share a segment. Two sets that differ may still mean the same; then there are
more segments than need be.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from headrace.graph.frames import MAY_BE_DEAD, Frame, Frames, back_edge, forward_inputs
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor

__all__ = ["deadness"]

Conditions = frozenset[Hashable]


def deadness(graph: Graph, frames: Frames) -> Mapping[Operation, Conditions]:
    """The conditions under which each operation of a graph runs, in an iteration that takes place.

    Args:
      graph: the graph.
      frames: its frames.
    """
    irregular: set[Frame] = set()
    while True:
        conditions = _conditions(graph, frames, irregular)
        found = {
            frame for frame in frames if frame not in irregular and not _is_regular(frame, graph, frames, conditions)
        }
        if not found:
            return conditions
        irregular |= found


def _is_regular(frame: Frame, graph: Graph, frames: Frames, conditions: Mapping[Operation, Conditions]) -> bool:
    """True if all loop variables of a frame live as long as each other."""
    heads = [op for op in graph.operations if back_edge(op) is not None and frames[op] is frame]
    entered = {conditions[head.inputs[0].op] for head in heads}
    returned = {conditions[head.inputs[-1].op] for head in heads}
    return len(entered) <= 1 and len(returned) <= 1


def _conditions(graph: Graph, frames: Frames, irregular: set[Frame]) -> dict[Operation, Conditions]:
    result: dict[Operation, Conditions] = {}
    opened: dict[Frame, Conditions] = {}
    for op in graph.operations:
        if back_edge(op) is not None:
            frame = frames[op]
            result[op] = frozenset({("variable", op) if frame in irregular else ("loop", frame)})
            opened[frame] = opened.get(frame, frozenset()) | result[op.inputs[0].op]
        elif op.type == "Merge":
            result[op] = _merged(op, result)
        elif op.type == "Exit" and frames[op] not in irregular:
            result[op] = opened.get(frames[op], frozenset())  # the loop ends at some time, if it begins
        elif op.type == "Exit":
            result[op] = frozenset({("exit", op)})
        elif op.type == "ControlTrigger":
            result[op] = frozenset()
        else:
            sources = [_of_tensor(tensor, result) for tensor in forward_inputs(op)]
            sources += [result[item] for item in op.control_inputs]
            own = {("received", op)} if MAY_BE_DEAD in op.attrs else frozenset()
            result[op] = frozenset(own).union(*sources)
    return result


def _of_tensor(tensor: Tensor, result: Mapping[Operation, Conditions]) -> Conditions:
    conditions = result[tensor.op]
    if tensor.op.type == "Switch":
        return conditions | {("branch", tensor.op.inputs[1], tensor.index)}
    return conditions


def _merged(op: Operation, result: Mapping[Operation, Conditions]) -> Conditions:
    """What both branches have in common, if they are the two ways of one Switch."""
    inputs = [_of_tensor(tensor, result) for tensor in op.inputs]
    common = frozenset.intersection(*inputs)
    rests = [conditions - common for conditions in inputs]
    ways = {condition for rest in rests if len(rest) == 1 for condition in rest}
    choices = {
        (condition[0], condition[1]) for condition in ways if isinstance(condition, tuple) and len(condition) == 3
    }
    if len(inputs) == 2 and len(ways) == 2 and len(choices) == 1:
        return common
    return frozenset({("merge", op)})
