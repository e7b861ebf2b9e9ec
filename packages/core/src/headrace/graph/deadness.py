"""Deadness: on what it depends whether an operation runs, where branches and loops are made of tokens.

The answer for one operation is a set of conditions that all have to hold: that a Switch went one way, that a loop came
to another iteration, that a Merge got something alive, that what another device sent is alive. Operations with equal
sets live and die together, so they can share a segment. Two sets that differ may still mean the same; then there are
more segments than need be.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from headrace.graph.frames import LOWERED, MAY_BE_DEAD, Frame, Frames, back_edge
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor

__all__ = ["Conditions", "branch_condition", "deadness", "loop_condition", "predicate_of"]

Conditions = frozenset[Hashable]


def branch_condition(switch: Operation, way: int) -> Hashable:
    """The condition that a Switch went a way: 0 is false, 1 is true."""
    return ("branch", predicate_of(switch), way)


def predicate_of(switch: Operation) -> Tensor:
    """The tensor that decides a Switch; what only passes it on is passed over, so that equal ones are the same.

    But not what lowering made for one branch, which is a branch of its own whatever it has in common with others.
    """
    predicate = switch.inputs[1]
    while predicate.op.type == "Identity" and not predicate.op.control_inputs and LOWERED not in predicate.op.attrs:
        predicate = predicate.op.inputs[0]
    return predicate


def loop_condition(frame: Frame) -> Hashable:
    """The condition that an iteration of a loop takes place."""
    return ("loop", frame)


def deadness(
    graph: Graph, frames: Frames, operations: Sequence[Operation] | None = None
) -> dict[Operation, Conditions]:
    """The conditions under which each operation of a graph runs.

    Inside a loop those count that hold in its iterations; under which conditions the loop runs at all is left out.

    Args:
      graph: the graph.
      frames: its frames.
      operations: the part of the graph to look at; what that reads from elsewhere is alive.
    """
    known = graph.operations if operations is None else operations
    irregular: set[Frame] = set()
    while True:  # each frame is taken for regular until it proves not to be
        conditions = _conditions(known, frames, irregular)
        found = [
            frame for frame in frames if frame not in irregular and not _is_regular(frame, known, frames, conditions)
        ]
        if not found:
            return conditions
        irregular.update(found)


def _is_regular(
    frame: Frame, operations: Sequence[Operation], frames: Frames, conditions: Mapping[Operation, Conditions]
) -> bool:
    """True if all loop variables live as long as each other, and what is the same in all iterations no shorter."""
    heads = [op for op in operations if back_edge(op) is not None and frames[op] is frame]
    ways_in = {conditions[head.inputs[0].op] for head in heads}
    ways_back = {conditions[head.inputs[-1].op] for head in heads}
    if len(ways_in) > 1 or len(ways_back) > 1:
        return False
    entered = next(iter(ways_in), frozenset())
    return not heads or all(conditions[op] <= entered for op in frame.enters if op in conditions)


def _conditions(
    operations: Sequence[Operation], frames: Frames, irregular: Collection[Frame]
) -> dict[Operation, Conditions]:
    result: dict[Operation, Conditions] = {}
    opened: dict[Frame, Conditions] = {}

    def of_tensor(tensor: Tensor) -> Conditions:
        conditions = result.get(tensor.op, frozenset())
        if tensor.op.type == "Switch":
            return conditions | {branch_condition(tensor.op, tensor.index)}
        if tensor.op.type == "Enter" and frames.after(tensor.op) not in irregular:
            return frozenset()
        return conditions

    for op in operations:
        if back_edge(op) is not None:
            frame = frames[op]
            result[op] = frozenset({("variable", op) if frame in irregular else loop_condition(frame)})
            opened[frame] = opened.get(frame, frozenset()) | result[op.inputs[0].op]
        elif op.type == "Merge":
            result[op] = _merged(op, [of_tensor(tensor) for tensor in op.inputs])
        elif op.type == "Exit":
            # the loop ends at some time, if it begins
            regular = frames[op] not in irregular
            result[op] = opened.get(frames[op], frozenset()) if regular else frozenset({("exit", op)})
        elif op.type == "ControlTrigger":
            result[op] = frozenset()
        else:
            sources = [of_tensor(tensor) for tensor in op.inputs]
            sources += [result.get(item, frozenset()) for item in op.control_inputs]
            own = {("received", op)} if MAY_BE_DEAD in op.attrs else frozenset()
            result[op] = frozenset(own).union(*sources)
    return result


def _merged(op: Operation, inputs: Sequence[Conditions]) -> Conditions:
    """What both branches have in common, if they are the two ways of one Switch."""
    common = frozenset.intersection(*inputs)
    rests = [conditions - common for conditions in inputs]
    ways = {condition for rest in rests if len(rest) == 1 for condition in rest}
    choices = {condition[:2] for condition in ways if isinstance(condition, tuple) and condition[0] == "branch"}
    if len(inputs) == 2 and len(ways) == 2 and len(choices) == 1:
        return common
    return frozenset({("merge", op)})
