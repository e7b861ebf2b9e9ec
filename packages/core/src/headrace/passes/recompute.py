"""Recompute: values of the forward pass are computed again for the backward pass instead of being kept that long.

A step needs most memory where the forward pass has ended: what the backward pass will read is alive then. A value that
follows from others that are alive anyway need not be: it is computed again right before its first later use. What is
chosen first saves the most bytes for the arithmetic that it repeats, so normalisations, activations and softmax come
before products and convolutions.

What is computed again reads the same values by the same kernel, so every result is the same to the last bit. Operations
with state, random numbers among them, are never repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.errors import NotFoundError
from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.kernels.registry import find_kernel
from headrace.passes.cost import arithmetic, tensor_bytes
from headrace.passes.rewrite import copy_op, is_pure
from headrace.types import Array

__all__ = ["most_alive", "recompute"]

LONGEST = 24
"""Operations that are repeated for one value at most."""

SMALL = 8
"""A value that is so many times smaller than what follows from it is rather kept than repeated too."""


def recompute(graph: Graph, limit: int) -> Graph:
    """A graph with the same results whose values need less memory at once.

    Args:
      graph: a bounded graph with known shapes; it is not changed.
      limit: bytes that may be alive at once, by shapes and the order of operations; where that cannot be, as few as
        this finds.
    Returns:
      `graph` itself if nothing is gained.
    """
    if has_tokens(graph):
        return graph
    search = _Search(graph)
    search.run(limit)
    return search.rebuilt() if search.copies else graph


def most_alive(graph: Graph) -> int:
    """The most bytes that are alive at once when a bounded graph without loops of primitives runs in its order."""
    return _score(_Search(graph).lives())[0]


@dataclass(slots=True, eq=False)
class _Value:
    """A tensor of the new graph. Mutable while the search goes on.

    Attributes:
      tensor: the one of the old graph that it equals.
      size: bytes; 0 for a view, and for what is there anyway.
      root: the value whose memory it has.
      permanent: it lives through the whole step whatever is done.
    """

    tensor: Tensor
    size: int
    root: _Value | None = None
    permanent: bool = False

    @property
    def owner(self) -> _Value:
        return self if self.root is None else self.root


@dataclass(slots=True, eq=False)
class _Run:
    """An operation of the new graph: one of the old graph, or a repetition of one."""

    op: Operation
    inputs: list[_Value]
    outputs: list[_Value] = field(default_factory=list)
    repeated: bool = False


@dataclass(slots=True)
class _Lives:
    """Positions at which values are made and needed and variables written, and the bytes that are alive at each."""

    born: dict[_Value, int]
    uses: dict[_Value, list[int]]
    writes: dict[_Value, list[int]]
    alive: Array


class _Search:
    """The new graph while it is found. Mutable, used once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.copies = 0
        values: dict[Tensor, _Value] = {}
        self._runs: list[_Run] = []
        self._maker: dict[_Value, _Run] = {}
        self._may_repeat: dict[Operation, bool] = {}
        for op in graph.operations:
            run = _Run(op, [values[tensor] for tensor in op.inputs])
            self._give_outputs(run)
            values.update(zip(op.outputs, run.outputs, strict=True))
            self._runs.append(run)

    def _give_outputs(self, run: _Run) -> None:
        op = run.op
        for tensor in op.outputs:
            if op.type in ("_Arg", "Const") or not tensor.dtype.size:
                value = _Value(tensor, 0, permanent=True)
            else:
                value = _Value(tensor, tensor_bytes(tensor) if tensor.shape.is_fully_defined else 0)
            run.outputs.append(value)
            self._maker[value] = run
        _root(run)

    def run(self, limit: int) -> None:
        """Drop values until the rest fits, or until no one more helps."""
        lives = self.lives()
        refused: set[tuple[_Value, int]] = set()
        while lives.alive.max(initial=0) > limit:
            found = self._improved(lives, refused)
            if found is None:
                return
            lives = found

    def _improved(self, lives: _Lives, refused: set[tuple[_Value, int]]) -> _Lives | None:
        """Repeat the value that is worth most, and helps; None if none does."""
        moment = int(np.argmax(lives.alive))
        before = _score(lives)
        chances = []
        for value, uses in lives.uses.items():
            later = [use for use in uses if use > moment]
            if not later or not value.size or moment in uses or lives.born[value] >= moment:
                continue
            if (value, later[0]) in refused:
                continue
            chain = self._chain(value, later[0], lives)
            if chain is not None:
                gain = value.size - sum(kept.size for kept in chain[1])
                work = sum(arithmetic(run.op) for run in chain[0])
                chances.append((gain / (work + 1.0), -later[0], value, later[0], chain[0]))
        for _, _, value, use, chain_runs in sorted(chances, key=lambda chance: chance[:2], reverse=True):
            runs = self._runs
            changed = self._repeat(value, use, chain_runs)
            after = self.lives()
            if _score(after) < before:
                self.copies += 1
                return after
            self._runs = runs
            for run, old in changed:
                run.inputs = old
            for run in runs[use:]:
                _root(run)
            refused.add((value, use))
        return None

    def _chain(self, value: _Value, use: int, lives: _Lives) -> tuple[list[_Run], set[_Value]] | None:
        """What has to be repeated for a value, in order, and what has to live longer; None if that cannot be."""
        found: dict[_Run, None] = {}
        kept: set[_Value] = set()
        stack = [value]
        while stack:
            run = self._maker[stack.pop()]
            if run in found:
                continue
            if len(found) >= LONGEST or not self._repeats(run.op):
                return None
            found[run] = None
            for given in run.inputs:
                owner = given.owner
                if any(lives.born[given] < write < use for write in lives.writes.get(owner, ())):
                    return None  # to keep an old value of a variable takes as much memory as the variable
                if owner.permanent or lives.uses[owner][-1] >= use:
                    continue
                if owner.size * SMALL <= value.size:
                    kept.add(owner)
                else:
                    stack.append(given)
        return sorted(found, key=lambda run: lives.born[run.outputs[0]]), kept

    def _repeats(self, op: Operation) -> bool:
        if op not in self._may_repeat:
            known = all(tensor.shape.is_fully_defined for tensor in op.outputs)
            self._may_repeat[op] = is_pure(op) and known and op.type != "Const" and not op.op_def.function_attrs
        return self._may_repeat[op]

    def _repeat(self, value: _Value, use: int, chain: Sequence[_Run]) -> list[tuple[_Run, list[_Value]]]:
        """Put repetitions before a use, and let it and all later ones read them.

        Returns:
          The runs that read something else now, with what they read before.
        """
        instead: dict[_Value, _Value] = {}
        added: list[_Run] = []

        def again(run: _Run) -> None:
            copy = _Run(run.op, [instead.get(given, given) for given in run.inputs], repeated=True)
            self._give_outputs(copy)
            instead.update(zip(run.outputs, copy.outputs, strict=True))
            added.append(copy)

        for run in chain:
            again(run)
        changed: list[tuple[_Run, list[_Value]]] = []
        for run in self._runs[use:]:
            for given in run.inputs:
                if given.owner is value and given not in instead:
                    for view in self._views_to(given, instead):
                        again(view)
            if any(given in instead and given.owner is value for given in run.inputs):
                changed.append((run, run.inputs))
                run.inputs = [
                    instead[given] if given.owner is value and given in instead else given for given in run.inputs
                ]
            _root(run)
        self._runs = [*self._runs[:use], *added, *self._runs[use:]]
        return changed

    def _views_to(self, value: _Value, instead: dict[_Value, _Value]) -> list[_Run]:
        """The runs that make a view of what is there in `instead`, in order."""
        found: list[_Run] = []
        while value not in instead:
            run = self._maker[value]
            found.append(run)
            value = run.inputs[_views(run.op)[0]]
        return found[::-1]

    def lives(self) -> _Lives:
        """What is alive when, as the graph is now."""
        born: dict[_Value, int] = {}
        uses: dict[_Value, list[int]] = {}
        writes: dict[_Value, list[int]] = {}
        for position, run in enumerate(self._runs):
            for value in run.outputs:
                born[value] = position
                if not value.permanent and value.root is None:
                    uses[value] = [position]
            for value in run.inputs:
                owner = value.owner
                if not owner.permanent:
                    uses[owner].append(position)
                elif run.op.has_effect and owner.tensor.dtype.kind == "resource":
                    writes.setdefault(owner, []).append(position)
        changes = np.zeros(len(self._runs) + 1, np.int64)
        for value, positions in uses.items():
            changes[born[value]] += value.size
            changes[positions[-1] + 1] -= value.size
        for position, run in enumerate(self._runs):
            reused = _overwritten(run, uses, position)
            changes[position] -= reused
            changes[position + 1] += reused
        return _Lives(born, uses, writes, np.cumsum(changes[:-1]))

    def rebuilt(self) -> Graph:
        """The graph that was found. What is repeated waits for what runs before it, so that it stays late."""
        result = Graph(seed=self._graph.seed, extend=True, functions=self._graph.functions)
        tensors: dict[_Value, Tensor] = {}
        made: dict[Operation, Operation] = {}
        latest: Operation | None = None
        count = 0
        for run in self._runs:
            inputs = [tensors[value] for value in run.inputs]
            if run.repeated:
                count += 1
                after = [latest] if latest is not None else []
                copied = copy_op(run.op, inputs, result, after, prefix=f"again_{count}/")
            else:
                copied = copy_op(run.op, inputs, result, [made[op] for op in run.op.control_inputs])
                made[run.op] = copied
                if run.op.type not in ("_Arg", "Const", "_Retval") and not _views(run.op):
                    latest = copied
            tensors.update(zip(run.outputs, copied.outputs, strict=True))
        return result


def _root(run: _Run) -> None:
    """Let what an operation makes have the memory of an input, if it is a view."""
    views = _views(run.op)
    for value in run.outputs if views else ():
        if value.tensor.dtype.size:
            value.size, value.root = 0, run.inputs[views[0]].owner
            value.permanent = value.root.permanent


def _views(op: Operation) -> tuple[int, ...]:
    """Inputs that the outputs are views of."""
    if op.type in ("_Arg", "_Retval", "Const", "NoOp"):
        return ()
    try:
        return find_kernel(op.type, op.attrs).aliases[: len(op.inputs)]
    except NotFoundError:
        return ()


def _overwritten(run: _Run, uses: dict[_Value, list[int]], position: int) -> int:
    """Bytes of an input that dies here and over which the output is written."""
    op = run.op
    if len(run.outputs) != 1 or op.type in ("_Arg", "_Retval", "Const", "NoOp") or not run.outputs[0].size:
        return 0
    try:
        in_place = find_kernel(op.type, op.attrs).in_place
    except NotFoundError:
        return 0
    size = run.outputs[0].size
    for value in run.inputs if in_place else ():
        if value.root is None and value.size == size and uses[value][-1] == position:
            return size
    return 0


def _score(lives: _Lives) -> tuple[int, int]:
    """The most bytes alive, and for how long."""
    most = int(lives.alive.max(initial=0))
    return most, int((lives.alive == most).sum())
