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
from functools import partial

import numpy as np

from headrace.graph.extensions import needed_operations, standing_for
from headrace.graph.frames import LOWERED, forward_inputs, is_anywhere
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor, origin
from headrace.ops.looping import RECOMPUTE, SWAP_TO_HOST
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


Fill = Callable[[Sequence[Tensor], _Region], list[Tensor]]
"""Puts operations into a region, given what stands for the arguments there; gives what stands for the results."""


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
        if kind in _IFS:
            ways = [partial(self._splice, body) for body in bodies]
            return self.branches(self._decision(inputs[0], inputs, self._controls), inputs[1:], *ways)
        return self.chain(inputs, 0, self._controls)

    def _decision(self, tensor: Tensor, inputs: Sequence[Tensor], controls: Sequence[Operation]) -> Tensor:
        """What decides one branch: it lives and dies with what the branch waits for."""
        return self._made([tensor], "decision", [*controls, *self._near(tensor, inputs)])

    def branches(
        self, decision: Tensor, inputs: Sequence[Tensor], on: Fill, off: Fill
    ) -> tuple[list[Tensor], list[Operation]]:
        """An `If`: what each way is filled with gives results for the same outputs."""
        ended: list[Tensor] = []
        found: list[list[Tensor]] = []
        for way, fill in ((1, on), (0, off)):
            region = _Region(self._made([self._switched(decision, decision)[way]], "pivot").op)
            arguments = [self._switched(tensor, decision)[way] for tensor in inputs]
            region.alive.update(tensor for tensor in arguments if tensor.op.type == "Switch")
            found.append(fill(arguments, region))
            ended.append(self._made([region.pivot.outputs[0]], "ended", region.effects))
        results = [
            self._add("Merge", values[::-1], f"output_{number}", N=2).outputs[0]
            for number, values in enumerate(zip(*found, strict=True))
        ]
        return results, [self._add("Merge", ended[::-1], "ended", made=True, N=2)]

    def chain(
        self, inputs: Sequence[Tensor], first: int, controls: Sequence[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        """A `Case` from its branch `first` on: that one, or one of those after it; the last one for what is left.

        A chain of decisions is raised again, which a single one between many ways would not be.
        """
        bodies = self._op.bodies
        if first == len(bodies) - 1:
            return self.called(bodies[first], inputs[1:])
        if is_anywhere(inputs[0].op) and (controls or any(not is_anywhere(tensor.op) for tensor in inputs)):
            inputs = [self._decision(inputs[0], inputs, controls), *inputs[1:]]
        number = self._constant(first, inputs[0].dtype)
        chosen = self._add("Equal", [inputs[0], number], "chosen").outputs[0]

        def taken(arguments: Sequence[Tensor], region: _Region) -> list[Tensor]:
            return self._splice(bodies[first], arguments[1:], region)

        def rest(arguments: Sequence[Tensor], region: _Region) -> list[Tensor]:
            if first == len(bodies) - 2:
                return self._splice(bodies[-1], arguments[1:], region)
            results, ended = self.chain(arguments, first + 1, [region.pivot])
            region.alive.update(results)
            region.effects += ended
            return results

        decision = self._decision(chosen, inputs, controls)
        return self.branches(decision, inputs, taken, rest)

    def call(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Operation]]:
        """A call: the operations of the function in its place."""
        return self.called(self._op.bodies[0], inputs)

    def called(self, body: Body, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Operation]]:
        """The operations of a function for these arguments."""
        near = [tensor for tensor in inputs if not is_anywhere(tensor.op)]
        if near:
            pivot = self._made(near[:1], "pivot", self._controls).op
        else:
            name = f"{self._op.name}/pivot"
            pivot = self._graph.create_op("NoOp", attrs={LOWERED: True}, name=name, control_inputs=self._controls)
        region = _Region(pivot, set() if self._controls else set(near))  # some may live longer than what it waits for
        results = self._splice(body, inputs, region)
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
            **{name: self._op.attrs[name] for name in (RECOMPUTE, SWAP_TO_HOST) if name in self._op.attrs},
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
        decision = self._add("LoopCond", [self._made([goes_on], "tested", region.effects)], "goes_on").outputs[0]
        ways = {head: self._add("Switch", [head, decision], "decide").outputs for head in heads}
        inside = [ways[value][1] if value in ways else value for value in values]
        region = _Region(self._made([ways[heads[0]][1]], "pivot").op, {pair[1] for pair in ways.values()})
        results = self._splice(body, inside, region)
        for value, result in zip(values, results, strict=True):
            if value in ways:
                following = self._add("NextIteration", [result], "next").outputs[0]
                following.set_shape(value.shape)
                self._graph.close_loop(value.op, following)
        left = {head: self._add("Exit", [pair[0]], "result").outputs[0] for head, pair in ways.items()}
        outputs = [left.get(value, tensor) for value, tensor in zip(values, inputs, strict=True)]
        return outputs, [tensor.op for tensor in left.values()]

    def _switched(self, tensor: Tensor, decision: Tensor) -> Sequence[Tensor]:
        """A value for the two ways of a decision; the same for both where it is everywhere."""
        if is_anywhere(tensor.op):
            return tensor, tensor
        found = self._switches.get((tensor, decision))
        if found is None:
            found = self._switches[tensor, decision] = self._add("Switch", [tensor, decision], "way").outputs
        return found

    def _constant(self, value: int, dtype: DType) -> Tensor:
        attrs = {"value": np.asarray(value, dtype.array_type), "dtype": dtype}
        return self._graph.create_op("Const", (), attrs, name=f"{self._op.name}/number").outputs[0]

    def _here(self, tensor: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        """The same value, but of the loop around: a constant belongs to none, and would start the loop outside."""
        near = self._near(tensor, inputs)
        return self._made([tensor], "after", [*near, *self._controls]) if near else tensor

    def _near(self, tensor: Tensor, inputs: Sequence[Tensor]) -> list[Operation]:
        """For a constant what comes from the loop around, if there is something."""
        if not is_anywhere(tensor.op):
            return []
        near = [item for item in inputs if not is_anywhere(item.op)]
        return [self._made(near[:1], "here").op] if near else []

    def _made(self, inputs: Sequence[Tensor], name: str, controls: Sequence[Operation] = ()) -> Tensor:
        """The same value in another place, or after something, which says where other operations run."""
        return self._add("Identity", inputs, name, controls, made=True).outputs[0]

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
            alive = [item in region.alive for item in (*inputs, *controls)]
            lives = all(alive) if op.bodies else any(alive)  # what is inside may read one of the inputs alone
            if not is_anywhere(op) and (op.is_stateful or not alive or not lives):
                controls.append(region.pivot)
            copies[op] = copied = copy_op(
                op, inputs, self._graph, controls, prefix=f"{body.state_name}/", may_not_run=True
            )
            if not is_anywhere(op):
                region.alive.update((copied, *copied.outputs))
            if op.is_stateful and not is_anywhere(op):
                region.effects.append(copied)
            tensors.update(zip(op.outputs, copied.outputs, strict=True))
        close_loops(copies, tensors)
        results = [tensors[standing_for(result, replaced)] for result in body.results]
        return [
            tensor if tensor in region.alive else self._made([tensor], "kept", [region.pivot]) for tensor in results
        ]

    def _add(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        name: str,
        controls: Sequence[Operation] = (),
        *,
        made: bool = False,
        **attrs: object,
    ) -> Operation:
        attrs |= {LOWERED: True} if made else {}
        return self._graph.create_op(
            op_type,
            inputs,
            attrs if op_type == "LoopCond" else {"T": inputs[0].dtype, **attrs},
            name=f"{self._op.name}/{name}",
            control_inputs=controls,
            device=self._op.device,
            source=self._op.source,
        )
