"""StepState: how far a step is, as a pure state machine: what has ended goes in, what can start comes out.

No thread, no clock and no kernel is known here. Nodes that compute (segments, operations that wait) are handed out as
`Activation`s and come back by `finish`; tokens move inside, at once. The rules are those of the paper, section 3.4:

- A node runs once in each iteration of its frame, when every edge into it has brought something.
- A node with a dead input, or after a dead control input, is dead and passes that on, without running. A Merge takes
  the first live input and is dead only if all are.
- An iteration is over when nothing in it runs, no loop inside it is open, and the iteration before it is over. At most
  `parallel_iterations` are under way; what would start one more is kept until the oldest is over.
- A loop is over when no iteration is left. Then an Exit that never passed a value on gives a dead token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import InternalError, ShapeError
from headrace.interfaces import DEAD
from headrace.plan.step_graph import Kind, StepFrame, StepGraph, StepNode

__all__ = ["Activation", "StepState"]


class Activation:
    """One run of a node, in one iteration of its frame.

    Attributes:
      node: what to run.
      inputs: the values of its inputs; whoever runs it may empty the list.
      ready_ns: when it was handed out, for those who want to know.
    """

    __slots__ = ("_iteration", "inputs", "node", "ready_ns")

    def __init__(self, node: StepNode, iteration: _Iteration, inputs: list[Any]) -> None:
        self.node = node
        self.inputs = inputs
        self.ready_ns = 0
        self._iteration = iteration

    @property
    def place(self) -> str:
        """The iteration, as `frame:number` with the frames around it; `0:0` outside all loops."""
        return self._iteration.place


class _Iteration:
    """One iteration of one opened frame. Mutable.

    Attributes:
      loop: the opened frame.
      number: which iteration, from 0.
      missing: for each node the edges that have brought nothing yet; -1 for a Merge that has run.
      values: the inputs that have come.
      dead: the nodes with a dead input.
      busy: what is under way here: nodes that run, tokens that move, and loops that are open.
      open: the frames that were opened from here.
    """

    __slots__ = ("busy", "dead", "loop", "missing", "number", "open", "values")

    def __init__(self, loop: _Loop, number: int) -> None:
        self.loop = loop
        self.number = number
        self.missing = loop.frame.edges.copy()
        self.values = loop.frame.values.copy()
        self.dead: set[StepNode] = set()
        self.busy = 0
        self.open: dict[StepFrame, _Loop] = {}

    @property
    def place(self) -> str:
        """See `Activation.place`."""
        parent = self.loop.parent
        if parent is None:
            return "0:0"
        around = "" if parent.loop.parent is None else f"{parent.place}/"
        return f"{around}{self.loop.frame.name}:{self.number}"


class _Loop:
    """A frame that was opened. Mutable.

    Attributes:
      frame: which frame.
      parent: the iteration it was opened from, or None for what is outside all loops.
      iterations: those under way, by number.
      missing_enters: how many Enters have brought nothing yet.
      invariants: what is the same in every iteration, as far as it has come: pairs of node and value.
      kept: what starts the next iteration as soon as one may start: pairs of node and value.
      left: the Exits that have passed a value on.
    """

    __slots__ = ("frame", "invariants", "iterations", "kept", "left", "missing_enters", "parent")

    def __init__(self, frame: StepFrame, parent: _Iteration | None) -> None:
        self.frame = frame
        self.parent = parent
        self.iterations: dict[int, _Iteration] = {0: _Iteration(self, 0)}
        self.missing_enters = frame.enters
        self.invariants: list[tuple[StepNode, Any]] = []
        self.kept: list[tuple[StepNode, Any]] = []
        self.left: set[StepNode] = set()


class StepState:
    """How far one step is. Mutable, for one thread at a time.

    Args:
      graph: what to run through.
    Attributes:
      results: the results so far; `DEAD` where one lies on a branch that was not taken.
      is_done: nothing is left to run.
      running: how many activations are out.
    """

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.results: list[Any] = [None] * graph.result_count
        self.is_done = False
        self.running = 0
        self._root = _Loop(graph.frames[0], None)
        self._moving: list[tuple[StepNode, _Iteration]] = []
        self._ready: list[Activation] = []

    def start(self, arguments: Sequence[Any]) -> list[Activation]:
        """Begin, with the values of the step's arguments; gives what can run first. Called once."""
        outside = self._root.iterations[0]
        outside.busy += 1
        for node in self.graph.frames[0].starters:
            self._activate(node, outside)
        for number, consumers in self.graph.arguments.items():
            self._bring(consumers, outside, arguments[number])
        outside.busy -= 1
        return self._move(outside)

    def finish(self, activation: Activation, outputs: Sequence[Any]) -> list[Activation]:
        """Take note that an activation has ended with these outputs; gives what can run now."""
        self.running -= 1
        node, iteration = activation.node, activation._iteration
        for consumers, value in zip(node.consumers, outputs, strict=True):
            if consumers:
                self._bring(consumers, iteration, value)
        if node.followers:
            self._release(node, iteration, is_dead=any(value is DEAD for value in outputs))
        iteration.busy -= 1
        return self._move(iteration)

    def _move(self, iteration: _Iteration) -> list[Activation]:
        """Move tokens until none can move; `iteration` is where something has just ended."""
        moving = self._moving
        if not iteration.busy:
            self._settle(iteration)
        while moving:
            node, iteration = moving.pop()
            if node.kind <= Kind.WAIT and (node not in iteration.dead or node.passes_dead):
                start = node.first_slot
                end = start + node.width
                inputs = iteration.values[start:end]
                iteration.values[start:end] = [None] * node.width  # so that a value lives no longer than it must
                self._ready.append(Activation(node, iteration, inputs))
                self.running += 1
                continue
            self._pass_on(node, iteration)
            iteration.busy -= 1
            if not iteration.busy:
                self._settle(iteration)
        ready, self._ready = self._ready, []
        return ready

    def _activate(self, node: StepNode, iteration: _Iteration) -> None:
        iteration.busy += 1
        self._moving.append((node, iteration))

    def _bring(self, consumers: Sequence[tuple[StepNode, int]], iteration: _Iteration, value: Any) -> None:
        """Bring a value, or a dead token, to those that read it in an iteration."""
        missing, is_dead = iteration.missing, value is DEAD
        for node, position in consumers:
            local = node.local
            if node.kind is Kind.MERGE:
                self._bring_to_merge(node, position, iteration, value)
                continue
            iteration.values[node.first_slot + position] = value
            if is_dead:
                iteration.dead.add(node)
            if node.kind is Kind.LOOP_HEAD:  # one of its two edges brings something in each iteration
                iteration.values[node.first_slot], iteration.values[node.first_slot + 1] = value, position
            left = missing[local] - 1
            missing[local] = left
            if not left:
                self._activate(node, iteration)

    def _bring_to_merge(self, node: StepNode, position: int, iteration: _Iteration, value: Any) -> None:
        """The first live value counts; its places hold that value and its position. Control edges count as usual."""
        values, first = iteration.values, node.first_slot
        if value is DEAD:
            values[first + 2] = count = (values[first + 2] or 0) + 1
            if count < node.width:
                return
            iteration.dead.add(node)
        elif values[first + 1] is None:
            values[first : first + 2] = [value, position]
        else:
            return
        iteration.missing[node.local] -= node.width
        if not iteration.missing[node.local]:
            self._activate(node, iteration)

    def _release(self, node: StepNode, iteration: _Iteration, *, is_dead: bool) -> None:
        """Tell those that only wait for `node` that it has ended."""
        for follower in node.followers:
            if is_dead and follower.kind not in (Kind.MERGE, Kind.LOOP_HEAD, Kind.TRIGGER):
                iteration.dead.add(follower)
            left = iteration.missing[follower.local] - 1
            iteration.missing[follower.local] = left
            if not left:
                self._activate(follower, iteration)

    def _pass_on(self, node: StepNode, iteration: _Iteration) -> None:
        """Do what a node that computes nothing does, or what a dead one does."""
        kind = node.kind
        is_dead = node in iteration.dead
        values, first = iteration.values, node.first_slot
        if kind is Kind.SWITCH:
            data, choice = (DEAD, False) if is_dead else (values[first], _choice(node, values[first + 1]))
            self._bring(node.consumers[choice], iteration, data)
            self._bring(node.consumers[not choice], iteration, DEAD)
        elif kind in (Kind.MERGE, Kind.LOOP_HEAD):
            data = DEAD if is_dead else values[first]
            self._bring(node.consumers[0], iteration, data)
            if node.consumers[1]:
                self._bring(node.consumers[1], iteration, DEAD if is_dead else np.asarray(values[first + 1], np.int32))
        elif kind is Kind.PASS:
            self._bring(node.consumers[0], iteration, DEAD if is_dead else values[first])
        elif kind is Kind.ENTER:
            self._enter(node, iteration, DEAD if is_dead else values[first])
            return
        elif kind is Kind.EXIT:
            if not is_dead:
                self._exit(node, iteration.loop, values[first])
            return
        elif kind is Kind.NEXT_ITERATION:
            if not is_dead:
                self._next(node, iteration, values[first])
            return
        elif kind is Kind.RESULT:
            self.results[node.number] = DEAD if is_dead else values[first]
        else:  # a dead segment or wait, or a trigger
            for consumers in node.consumers:
                self._bring(consumers, iteration, DEAD)
        if node.followers:
            self._release(node, iteration, is_dead=is_dead)

    def _enter(self, node: StepNode, iteration: _Iteration, value: Any) -> None:
        """Bring a value into a frame, which the first one opens."""
        assert node.target is not None
        loop = iteration.open.get(node.target)
        if loop is None:
            loop = iteration.open[node.target] = _Loop(node.target, iteration)
            iteration.busy += 1
        loop.missing_enters -= 1
        if node.is_constant:
            loop.invariants.append((node, value))
            for inner in loop.iterations.values():
                self._arrive(node, inner, value)
        else:
            self._arrive(node, loop.iterations[0], value)
        if not loop.missing_enters:
            self._settle(loop.iterations[min(loop.iterations)])

    def _next(self, node: StepNode, iteration: _Iteration, value: Any) -> None:
        """Bring a value to the next iteration, or keep it until that may start."""
        loop = iteration.loop
        following = loop.iterations.get(iteration.number + 1)
        if following is not None:
            self._arrive(node, following, value)
        elif loop.kept or len(loop.iterations) >= loop.frame.parallel_iterations:
            loop.kept.append((node, value))
        else:
            self._arrive(node, self._begin(loop, iteration.number + 1), value)

    def _begin(self, loop: _Loop, number: int) -> _Iteration:
        """Start an iteration with what is the same in all of them."""
        iteration = loop.iterations[number] = _Iteration(loop, number)
        for node, value in loop.invariants:
            self._arrive(node, iteration, value)
        return iteration

    def _exit(self, node: StepNode, loop: _Loop, value: Any) -> None:
        """Bring a value, or when the loop is over a dead token, out of a frame."""
        assert loop.parent is not None
        loop.left.add(node)
        self._arrive(node, loop.parent, value)

    def _arrive(self, node: StepNode, iteration: _Iteration, value: Any) -> None:
        """Bring what leaves `node` to those that wait for it in another iteration than its own."""
        self._bring(node.consumers[0], iteration, value)
        if node.followers:
            self._release(node, iteration, is_dead=value is DEAD)

    def _settle(self, iteration: _Iteration) -> None:
        """See whether an iteration in which nothing is under way any more is over, and what follows from that."""
        while not iteration.busy:
            loop = iteration.loop
            if loop.missing_enters or loop.iterations.get(iteration.number) is not iteration:
                return
            if iteration.number - 1 in loop.iterations:
                return
            del loop.iterations[iteration.number]
            if loop.kept:
                kept, loop.kept = loop.kept, []
                following = self._begin(loop, max(loop.iterations, default=iteration.number) + 1)
                for node, value in kept:
                    self._arrive(node, following, value)
            if loop.iterations:
                iteration = loop.iterations[min(loop.iterations)]
                continue
            if loop.parent is None:
                self.is_done = True
                return
            for node in loop.frame.exits:
                if node not in loop.left:
                    self._exit(node, loop, DEAD)
            iteration = loop.parent
            del iteration.open[loop.frame]
            iteration.busy -= 1

    def validate(self) -> None:
        """Raise InternalError unless the state is consistent; tests call it after every event."""
        found = self._validated(self._root, self.is_done)
        if found != self.running:
            raise _inconsistent(f"{self.running} activations", f"{found}")
        if self._moving or self._ready:
            raise _inconsistent("no token that could move", f"{len(self._moving)}")

    def _validated(self, loop: _Loop, is_over: bool) -> int:
        """Check an opened frame; gives how many activations are out in it."""
        numbers = sorted(loop.iterations)
        if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else ()):
            raise _inconsistent("iterations without a gap", f"{numbers} of {loop.frame.name}")
        if is_over != (not numbers):
            raise _inconsistent("an open loop with iterations", f"{numbers} of '{loop.frame.name}'")
        if len(numbers) > loop.frame.parallel_iterations:
            raise _inconsistent(f"{loop.frame.parallel_iterations} iterations at once", f"{numbers}")
        running = 0
        for iteration in loop.iterations.values():
            if min(iteration.missing, default=0) < 0 or iteration.busy < len(iteration.open):
                raise _inconsistent("no edge that brings something twice", f"iteration {iteration.place}")
            running += iteration.busy - len(iteration.open)
            for inner in iteration.open.values():
                running += self._validated(inner, is_over=False)
        return running


def _choice(node: StepNode, value: Any) -> bool:
    """The value that decides a Switch."""
    if np.size(value) != 1 or np.ndim(value):
        raise ShapeError(
            "a Switch needs one truth value",
            where=node.operations[0].location,
            expected="pred of shape []",
            got=str(list(np.shape(value))),
            hint="reduce it first with hr.all or hr.any",
        )
    return bool(value)


def _inconsistent(expected: str, got: str) -> InternalError:
    return InternalError(
        "the state of a step is inconsistent", expected=expected, got=got, hint="please report this with the graph"
    )
