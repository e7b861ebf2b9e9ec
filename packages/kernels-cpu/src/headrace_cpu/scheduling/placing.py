"""Placing: products that read their factors where these lie, and write their results where these go.

Attention splits and transposes what a product gave, multiplies the parts, and transposes and joins what comes out.
Libraries take any strides, so none of that has to be written: the factors are views of the memory at the beginning of
such a chain, the results views of that at its end. Convolutions find some images of a batch in the same way.
`HEADRACE_VIEWS=off` writes it all.

A chain is left out only if nothing else reads what lies on it, for then all of it goes. What is read is not kept much
longer for it: it may be at most twice as large as the factors that are views of it, unless the step keeps it anyway.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.loops.registry import LoopContext, find_loops
from headrace.loops.value import Value
from headrace.plan import Line, Program
from headrace.types import bfloat16, float32
from headrace_cpu.onednn import Request
from headrace_cpu.onednn.views import View, piece_of, read_through, source_of, written_through
from headrace_cpu.scheduling.absorbing import Absorbed, Call
from headrace_cpu.scheduling.requests import Requests
from headrace_cpu.scheduling.values import VIEWS, byte_count, is_native

__all__ = ["place"]

PRODUCTS = frozenset({"BatchMatMul", "BatchMatMulV2", "Conv2D", "MatMul"})
"""Types whose factors and results a library finds anywhere, of convolutions images that follow each other."""

Factor = tuple[int, int]
"""A factor of a product: the line where that runs, and which of its inputs."""


@dataclass(frozen=True, slots=True)
class _Move:
    """A value that has the elements of another one.

    Attributes:
      line: the position of the line that makes it.
      source, target: the values.
      value: what becomes of the source, or None if the elements stay in order.
    """

    line: int
    source: int
    target: int
    value: Value | None


@dataclass(frozen=True, slots=True)
class _Base:
    """Where a factor may be read.

    Attributes:
      number: the value in memory.
      view: where the factor lies in it.
      lines: the positions of the lines between.
    """

    number: int
    view: View
    lines: frozenset[int]


def place(program: Program, found: Absorbed, library: Callable[[Request], Any], requests: Requests) -> None:
    """Let products read and write views.

    Args:
      program: the lines.
      found: the calls that do the work of several lines; products that read or write views are added to these.
      library: called with a request; gives what a library would do, or None.
      requests: makes the requests.
    """
    if os.environ.get("HEADRACE_VIEWS") != "off":
        placing = _Placing(program, found, library, requests)
        if placing.products:
            placing.read()
            placing.write()


@dataclass(slots=True)
class _Placing:
    """Mutable, used once.

    Attributes:
      products: the calls of these types, by the position at which they run.
      dead: positions of lines of which nothing is read any more.
    """

    program: Program
    found: Absorbed
    library: Callable[[Request], Any]
    requests: Requests
    products: dict[int, Call] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    _makers: dict[int, int] = field(default_factory=dict)
    _moves: dict[int, _Move | None] = field(default_factory=dict)
    _steps: dict[tuple[int, tuple[View | None, ...]], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        calls = {call.line: (position, call) for position, call in self.found.calls.items()}
        for position, line in enumerate(self.program.lines):
            self._makers.update(dict.fromkeys(line.outputs, position))
            if line.op.type not in PRODUCTS or not self._all_native((*line.inputs, *line.outputs)):
                continue
            if position in calls:
                at, call = calls[position]
                if call.packing is None and call.variable is None:
                    self.products[at] = call
            elif position not in self.found.lines:
                request = self.requests.of(line)
                self.products[position] = Call(None, position, (position,), line.inputs, (), line.outputs, request)

    def read(self) -> None:
        """Let factors be views, as many as possible."""
        bases = {(at, place): self._bases(call.inputs[place]) for at, call in self.products.items() for place in (0, 1)}
        changed = True
        while changed:
            taken = {factor: found[0] for factor, found in bases.items() if found}
            self._find_dead({factor: base.number for factor, base in taken.items()})
            refused = [factor for factor, base in taken.items() if not base.lines <= self.dead]
            refused = refused or self._kept_too_long(taken) or self._impossible(taken)
            for factor in refused:
                del bases[factor][0]
            changed = bool(refused)
        for at in {at for at, _ in taken}:
            call, request = self.products[at], self._viewing(at, taken)
            inputs = list(call.inputs)
            for number in range(len(inputs)):
                if (at, number) in taken:
                    inputs[number] = taken[at, number].number
            step = self._asked(at, request)
            made = replace(call, step=step, inputs=tuple(inputs), request=request)
            self.products[at] = self.found.calls[at] = made
        self.found.lines |= self.dead

    def write(self) -> None:
        """Let results be views of what they become, parts of what is joined first."""
        readers = self._readers()
        joined: dict[int, list[tuple[int, list[_Move]]]] = {}
        alone = []
        for at in self.products:
            moves, end = self._onwards(at, readers)
            if end is None:
                alone.append((at, moves))
            else:
                joined.setdefault(end, []).append((at, moves))
        for end, parts in joined.items():
            if not self._join(end, parts):
                alone += parts
        for at, moves in alone:
            while moves and moves[-1].value is None:  # what keeps the order shares memory anyway
                moves = moves[:-1]
            if moves:
                target = self._shape(moves[-1].target)
                request = self._filling(at, moves, View.whole(target))
                if request is not None:
                    self._take(at, moves[-1].line, moves, moves[-1].target, request)

    def _all_native(self, numbers: Sequence[int]) -> bool:
        return all(is_native(self.program.tensors[number]) for number in numbers)

    def _constant(self, number: int) -> Any:
        value = self.program.constants.get(number)
        return value if isinstance(value, np.ndarray) else None

    def _shape(self, number: int) -> tuple[int, ...]:
        return self.program.tensors[number].shape.as_tuple()

    def _loops(self, line: Line) -> tuple[Value, ...] | None:
        """What a line makes of its inputs, which are named by their numbers."""
        tensors = [self.program.tensors[number] for number in line.inputs]
        if not self._all_native((*line.inputs, *line.outputs)):
            return None
        values = [
            Value("input", tensor.dtype, tensor.shape.as_tuple(), (), number)
            for tensor, number in zip(tensors, line.inputs, strict=True)
        ]
        return find_loops(LoopContext(line.op, [self._constant(number) for number in line.inputs]), values)

    def _move(self, number: int) -> _Move | None:
        """How a value has the elements of another one, where it has."""
        if number not in self._moves:
            self._moves[number] = self._moved(number)
        return self._moves[number]

    def _moved(self, number: int) -> _Move | None:
        position = self._makers.get(number)
        if position is None:
            return None
        line, tensors = self.program.lines[position], self.program.tensors
        if line.op.type in VIEWS or self._casts(line):
            source = line.inputs[0]
            same = line.op.type not in VIEWS or tensors[source].dtype is tensors[number].dtype
            if not same or source in self.program.constants or not self._all_native((source, number)):
                return None
            return _Move(position, source, number, None)
        values = self._loops(line)
        if values is None or len(values) != len(line.outputs):
            return None
        value = values[line.outputs.index(number)]
        origin = source_of(value)
        if origin is None or value.shape != self._shape(number) or origin.payload in self.program.constants:
            return None
        return _Move(position, origin.payload, number, value)

    def _casts(self, line: Line) -> bool:
        """True for a change between the dtypes whose products a library sums alike."""
        tensors = (*line.op.inputs, *line.op.outputs)
        return line.op.type == "Cast" and all(tensor.dtype in (float32, bfloat16) for tensor in tensors)

    def _bases(self, number: int) -> list[_Base]:
        """Where a factor may be read, the beginning of its chain first."""
        dtype = self.program.tensors[number].dtype
        moves: list[_Move] = []
        bases: list[_Base] = []
        move = self._move(number)
        while move is not None and move.line not in self.found.lines:
            if self._casts(self.program.lines[move.line]) and dtype is not bfloat16:
                break  # narrow numbers are the same when they were wide for a while, but not the other way round
            moves.append(move)
            writes = any(self.program.lines[step.line].op.type not in VIEWS for step in moves)
            if writes and self.program.tensors[move.source].dtype is dtype:
                view = self._viewed(moves)
                if view is not None:
                    bases.append(_Base(move.source, view, frozenset(step.line for step in moves)))
            move = self._move(move.source)
        return bases[::-1]

    def _viewed(self, moves: Sequence[_Move]) -> View | None:
        """Where the value at the beginning of some moves, the last one first, lies in that at their end."""
        view: View | None = View.whole(self._shape(moves[-1].source))
        for move in reversed(moves):
            if view is not None:
                view = view.reshaped(self._shape(move.target)) if move.value is None else read_through(move.value, view)
        return view

    def _find_dead(self, read: dict[Factor, int]) -> None:
        """Find the lines that only move what nothing reads."""
        needed = set(self.program.results)
        self.dead = set()
        for position in range(len(self.program.lines) - 1, -1, -1):
            line = self.program.lines[position]
            if position in self.products:
                call = self.products[position]
                needed.update(read.get((position, place), number) for place, number in enumerate(call.inputs))
                needed.update(call.extras)
            elif position in self.found.calls:
                needed.update((*self.found.calls[position].inputs, *self.found.calls[position].extras))
            elif position in self.found.lines:
                continue
            elif needed.isdisjoint(line.outputs) and line.outputs and all(map(self._move, line.outputs)):
                self.dead.add(position)
            else:
                needed.update(line.inputs)

    def _kept_too_long(self, taken: dict[Factor, _Base]) -> list[Factor]:
        """Factors for which too much would be kept in memory."""
        tensors = self.program.tensors
        parts: dict[int, set[int]] = {}
        for (at, place), base in taken.items():
            parts.setdefault(base.number, set()).add(self.products[at].inputs[place])
        large = {
            number
            for number, read in parts.items()
            if byte_count(tensors[number]) > 2 * sum(byte_count(tensors[part]) for part in read)
            and number not in self.program.results
            and number in self._makers
            and self.program.lines[self._makers[number]].op.type != "ReadVariableOp"
        }
        return [factor for factor, base in taken.items() if base.number in large]

    def _impossible(self, taken: dict[Factor, _Base]) -> list[Factor]:
        """Factors that the library does not read where they lie."""
        refused: list[Factor] = []
        for at in {at for at, _ in taken}:
            factors = [factor for factor in taken if factor[0] == at]
            if self._asked(at, self._viewing(at, taken)) is None:
                alone = [item for item in factors if self._asked(at, self._viewing(at, {item: taken[item]})) is None]
                refused += alone or factors
        return refused

    def _viewing(self, at: int, taken: dict[Factor, _Base]) -> Request:
        """What is asked of the library if some factors are views."""
        request = self.products[at].request
        views = [taken[at, place].view if (at, place) in taken else None for place in (0, 1)]
        constants = tuple(value if view is None else None for value, view in zip(request.constants, views, strict=True))
        return replace(request, constants=constants, places=(*views, None))

    def _asked(self, at: int, request: Request) -> Any:
        key = at, request.places
        if key not in self._steps:
            self._steps[key] = self.library(request)
        return self._steps[key]

    def _readers(self) -> dict[int, list[int]]:
        """For each value the positions of the lines that read it; that after the last one stands for results."""
        readers: dict[int, list[int]] = {}
        for position, line in enumerate(self.program.lines):
            call = self.found.calls.get(position)
            if call is None and position in self.found.lines:
                continue
            for number in line.inputs if call is None else (*call.inputs, *call.extras):
                readers.setdefault(number, []).append(position)
        for number in self.program.results:
            readers.setdefault(number, []).append(len(self.program.lines))
        return readers

    def _onwards(self, at: int, readers: dict[int, list[int]]) -> tuple[list[_Move], int | None]:
        """How the result of a product moves on, and the line where it is joined with others, if it is."""
        moves: list[_Move] = []
        current = self.products[at].outputs[0]
        while len(reading := readers.get(current, [])) == 1:
            position = reading[0]
            if position in self.found.calls or position in self.products or position == len(self.program.lines):
                break
            line = self.program.lines[position]
            if line.op.type in ("ConcatV2", "Pack"):
                return moves, position
            move = self._move(line.outputs[0]) if len(line.outputs) == 1 and not self._casts(line) else None
            if move is None or move.source != current:
                break
            moves.append(move)
            current = move.target
        return moves, None

    def _filling(self, at: int, moves: Sequence[_Move], target: View) -> Request | None:
        """What is asked of the library if the value at the end of some moves goes to a view; None if it does not."""
        view: View | None = target
        for move in reversed(moves):
            if view is not None and move.value is not None:
                view = written_through(move.value, view)
            elif view is not None:
                view = view.reshaped(self._shape(move.source))
        if view is None:
            return None
        request = self.products[at].request
        request = replace(request, places=(*(request.places or (None,) * 3)[:2], view))
        return None if self._asked(at, request) is None else request

    def _join(self, end: int, parts: Sequence[tuple[int, list[_Move]]]) -> bool:
        """Let products write the parts of what a line joins, if all of its parts are such."""
        line = self.program.lines[end]
        values = self._loops(line)
        if values is None or values[0].op != "assemble" or values[0].payload[1] is not None:
            return False
        ends = {(moves[-1].target if moves else self.products[at].outputs[0]): (at, moves) for at, moves in parts}
        target = View.whole(values[0].shape)
        wanted = []
        for value, piece in zip(values[0].args, values[0].payload[0], strict=True):
            origin = source_of(value)
            at, moves = ends.pop(origin.payload, (-1, [])) if origin is not None else (-1, [])
            goal = written_through(value, piece_of(target, piece, value.shape)) if at >= 0 else None
            request = None if goal is None else self._filling(at, moves, goal)
            if request is None:
                return False
            wanted.append((at, moves, request))
        # a line that keeps the order shares memory, and runs nothing
        places = [next((move.line for move in reversed(moves) if move.value), at) for at, moves, _ in wanted]
        for place, (at, moves, request) in zip(places, wanted, strict=True):
            last = end if place == max(places) else place
            self._take(at, last, moves, line.outputs[0], request, partial=True)
        return True

    def _take(
        self, at: int, last: int, moves: Sequence[_Move], target: int, request: Request, *, partial: bool = False
    ) -> None:
        """Let a call write another value, at the position of the last line whose work it does."""
        call = self.products[at]
        lines = tuple(sorted({*call.lines, *(move.line for move in moves), last}))
        self.found.calls.pop(at, None)
        self.found.lines |= set(lines) - {last}
        self.found.calls[last] = replace(
            call,
            step=self._asked(at, request),
            lines=lines,
            outputs=(target, *call.outputs[1:]),
            request=request,
            partial=partial,
        )
