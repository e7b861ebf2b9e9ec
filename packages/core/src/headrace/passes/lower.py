"""Lowering: branches and loops in structured form become the primitives that they stand for.

Done where a region spans devices: its operations then go where they are asked to be, each by itself. Elsewhere the
structured form stays, since it runs as one segment.

An operation of a branch must not run when the branch is not taken, and one of a loop body not after the last iteration.
What reads a value of the region is dead then by itself; what reads none of them waits for the region's *pivot*, which
lives and dies with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.graph.extensions import needed_operations, standing_for
from headrace.graph.frames import forward_inputs, is_anywhere
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor, origin
from headrace.passes.rewrite import close_loops, copy_op
from headrace.types import DType
from headrace.types import bool as bool_dtype

__all__ = ["can_lower", "lower"]

_IFS = frozenset({"If", "StatelessIf"})
_CASES = frozenset({"Case", "StatelessCase"})
_WHILES = frozenset({"While", "StatelessWhile"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def can_lower(op: Operation) -> bool:
    """True for a call, and for a branch or loop whose decision is known to be a single value."""
    if op.type in _CALLS or op.type in _CASES:
        return True
    if op.type in _IFS:
        decision = op.inputs[0]
    elif op.type in _WHILES:
        decision = op.bodies[0].results[0]
    else:
        return False
    return decision.dtype is bool_dtype and decision.shape.rank == 0


def lower(graph: Graph, which: Callable[[Operation], bool]) -> Graph:
    """Replace branches and loops by primitives, and calls by what they call, also inside of what is replaced.

    Args:
      graph: a bounded graph.
      which: tells of an operation that `can_lower` whether to replace it.
    Returns:
      A new graph, or the same one where there is nothing to replace.
    """
    while any(can_lower(op) and which(op) for op in graph.operations):
        graph = _lowered_once(graph, which)
    return graph


def _lowered_once(graph: Graph, which: Callable[[Operation], bool]) -> Graph:
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    tensors: dict[Tensor, Tensor] = {}
    copies: dict[Operation, Operation] = {}
    outputs: Sequence[Tensor]
    ends: dict[Operation, Sequence[Operation]] = {}
    for op in graph.operations:
        inputs = [tensors[tensor] for tensor in forward_inputs(op)]
        controls = list(dict.fromkeys(end for source in op.control_inputs for end in ends[source]))
        if can_lower(op) and which(op):
            outputs, ends[op] = _Building(result, op, controls).replace(inputs)
            for old, new in zip(op.outputs, outputs, strict=True):
                new.shape = new.shape.merge(old.shape) if new.shape.is_compatible_with(old.shape) else new.shape
        else:
            copies[op] = copy_op(op, inputs, result, controls)
            outputs, ends[op] = copies[op].outputs, (copies[op],)
        tensors.update(zip(op.outputs, outputs, strict=True))
    close_loops(copies, tensors)
    return result


@dataclass(slots=True)
class _Region:
    """A branch, or the condition or body of a loop, in progress. Mutable.

    Attributes:
      pivot: what lives and dies with it.
      alive: the tensors and operations that do so too.
      effects: its operations with state.
    """

    pivot: Operation
    alive: set[Tensor | Operation] = field(default_factory=set)
    effects: list[Operation] = field(default_factory=list)


class _Building:
    """One branch or loop being built in primitives. Used once."""

    def __init__(self, graph: Graph, op: Operation, controls: Sequence[Operation]) -> None:
        self._graph = graph
        self._op = op
        self._controls = controls
        self._switches: dict[tuple[Tensor, Tensor], Sequence[Tensor]] = {}

    def replace(self, inputs: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Operation]]:
        """What stands for the outputs of the operation, and what to wait for to come after it."""
        kind, bodies = self._op.type, self._op.bodies
        if kind in _WHILES:
            return self.loop(inputs)
        if kind in _CALLS:
            return self.call(inputs)
        decision = self._here(inputs[0], inputs)
        if kind in _IFS:
            return self.branches(inputs[1:], [(bodies[0], decision, 1), (bodies[1], decision, 0)])
        numbers = [self._constant(number, decision.dtype) for number in range(len(bodies))]
        taken = [self._add("Equal", [decision, number], "chosen").outputs[0] for number in numbers[:-1]]
        beyond = [
            self._add("Less", [decision, numbers[0]], "below").outputs[0],
            self._add("GreaterEqual", [decision, numbers[-1]], "above").outputs[0],
        ]
        last = self._add("LogicalOr", beyond, "last").outputs[0]
        return self.branches(inputs[1:], [(body, way, 1) for body, way in zip(bodies, [*taken, last], strict=True)])

    def branches(
        self, inputs: Sequence[Tensor], ways: Sequence[tuple[Body, Tensor, int]]
    ) -> tuple[list[Tensor], list[Operation]]:
        """An `If` or `Case`: for each branch its function, a truth value, and which value of that takes it."""
        ended: list[Tensor] = []
        found: list[list[Tensor]] = []
        for body, decision, way in ways:
            region = _Region(self._add("Identity", [self._switched(decision, decision, self._controls)[way]], "pivot"))
            arguments = [self._switched(tensor, decision)[way] for tensor in inputs]
            region.alive.update(tensor for tensor in arguments if tensor.op.type == "Switch")
            found.append(self._splice(body, arguments, region))
            ended.append(self._add("Identity", [region.pivot.outputs[0]], "ended", region.effects).outputs[0])
        count = len(ways)
        results = [
            self._add("Merge", values[::-1], f"output_{number}", N=count).outputs[0]
            for number, values in enumerate(zip(*found, strict=True))
        ]
        return results, [self._add("Merge", ended[::-1], "ended", N=count)]

    def call(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Operation]]:
        """A call: the operations of the function in its place."""
        near = [tensor for tensor in inputs if not is_anywhere(tensor.op)]
        if near:
            pivot = self._add("Identity", near[:1], "pivot", self._controls)
        else:
            pivot = self._graph.create_op("NoOp", name=f"{self._op.name}/pivot", control_inputs=self._controls)
        region = _Region(pivot, set(near))
        results = self._splice(self._op.bodies[0], inputs, region)
        return results, region.effects or [pivot]

    def loop(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Operation]]:
        """A `While`: the tensors that stand for its outputs, and what to wait for to come after it."""
        condition, body = self._op.bodies
        stays = [origin(body.results[number]) is body.arguments[number].op for number in range(len(inputs))]
        if all(stays):
            stays[0] = False  # a loop has a variable, if only to have an iteration
        has_state = any(op.is_stateful for part in (condition, body) for op in part.operations)
        frame = {
            "frame_name": self._op.name,
            "parallel_iterations": 1 if has_state else max(1, self._op.attrs["parallel_iterations"]),
        }
        values: list[Tensor] = []
        for number, (tensor, kept) in enumerate(zip(inputs, stays, strict=True)):
            if kept and is_anywhere(tensor.op):
                values.append(tensor)
                continue
            enter = self._add(
                "Enter", [self._here(tensor, inputs)], f"input_{number}", self._controls, is_constant=kept, **frame
            )
            if not kept:
                enter = self._add("Merge", enter.outputs, f"variable_{number}", N=1)
                enter.outputs[0].shape = self._op.outputs[number].shape
            values.append(enter.outputs[0])
        heads = [value for value, kept in zip(values, stays, strict=True) if not kept]
        region = _Region(heads[0].op, set(heads))
        (goes_on,) = self._splice(condition, values, region)
        decision = self._add("LoopCond", [self._after(goes_on, region.effects)], "goes_on").outputs[0]
        ways = {head: self._add("Switch", [head, decision], "decide").outputs for head in heads}
        inside = [ways[value][1] if value in ways else value for value in values]
        region = _Region(self._add("Identity", [ways[heads[0]][1]], "pivot"), {pair[1] for pair in ways.values()})
        results = self._splice(body, inside, region)
        for value, result in zip(values, results, strict=True):
            if value in ways:
                following = self._add("NextIteration", [result], "next").outputs[0]
                following.set_shape(value.shape)
                self._graph.close_loop(value.op, following)
        left = {head: self._add("Exit", [pair[0]], "result").outputs[0] for head, pair in ways.items()}
        outputs = [left.get(value, tensor) for value, tensor in zip(values, inputs, strict=True)]
        return outputs, [tensor.op for tensor in left.values()]

    def _switched(self, tensor: Tensor, decision: Tensor, controls: Sequence[Operation] = ()) -> Sequence[Tensor]:
        """A value for the two ways of a decision; the same for both where it is everywhere."""
        if is_anywhere(tensor.op):
            return tensor, tensor
        found = self._switches.get((tensor, decision))
        if found is None:
            found = self._switches[tensor, decision] = self._add("Switch", [tensor, decision], "way", controls).outputs
        return found

    def _constant(self, value: int, dtype: DType) -> Tensor:
        attrs = {"value": np.asarray(value, dtype.array_type), "dtype": dtype}
        return self._graph.create_op("Const", (), attrs, name=f"{self._op.name}/number").outputs[0]

    def _here(self, tensor: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        """The same value, but of the loop around: a constant belongs to none, and would start the loop outside."""
        if not is_anywhere(tensor.op):
            return tensor
        near = next((item for item in inputs if not is_anywhere(item.op)), None)
        if near is None:
            return tensor if not self._controls else self._after(tensor, self._controls)
        return self._after(tensor, [self._add("Identity", [near], "here")])

    def _after(self, tensor: Tensor, operations: Sequence[Operation]) -> Tensor:
        return self._add("Identity", [tensor], "after", operations).outputs[0] if operations else tensor

    def _splice(self, body: Body, arguments: Sequence[Tensor], region: _Region) -> list[Tensor]:
        """Copy a function into a region; gives what stands for its results, which live and die with the region."""
        tensors = {body.arguments[number]: argument for number, argument in enumerate(arguments)}
        effects = [op for op in body.operations if op.has_effect and op.type != "_Retval"]
        operations, replaced = needed_operations(body.results, effects, set(tensors))
        copies: dict[Operation, Operation] = {}
        for op in operations:
            inputs = [tensors[standing_for(tensor, replaced)] for tensor in forward_inputs(op)]
            before = [replaced.get(item, item) for item in op.control_inputs]
            controls = [copies[item] for item in before if item in copies]
            lives = any(item in region.alive for item in (*inputs, *controls))
            if not is_anywhere(op) and (op.is_stateful or not lives):
                controls.append(region.pivot)
            copies[op] = copied = copy_op(op, inputs, self._graph, controls, prefix=f"{body.state_name}/")
            if not is_anywhere(op):
                region.alive.update((copied, *copied.outputs))
            if op.is_stateful and not is_anywhere(op):
                region.effects.append(copied)
            tensors.update(zip(op.outputs, copied.outputs, strict=True))
        close_loops(copies, tensors)
        results = [tensors[standing_for(result, replaced)] for result in body.results]
        return [
            tensor if tensor in region.alive else self._add("Identity", [tensor], "kept", [region.pivot]).outputs[0]
            for tensor in results
        ]

    def _add(
        self, op_type: str, inputs: Sequence[Tensor], name: str, controls: Sequence[Operation] = (), **attrs: object
    ) -> Operation:
        return self._graph.create_op(
            op_type,
            inputs,
            attrs if op_type in ("LoopCond", "LogicalOr") else {"T": inputs[0].dtype, **attrs},
            name=f"{self._op.name}/{name}",
            control_inputs=controls,
            device=self._op.device,
            source=self._op.source,
        )
