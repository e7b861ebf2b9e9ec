"""Pipelining: rows whose loops run side by side, each for another row (software pipelining, Lam, PLDI 1988).

Loops over a row that follow each other use one thing at a time: the first one waits for memory, the second one
computes, the last one writes. So while the last loop goes along a row, the one before it goes along the next row and
the first one along the row after that, vector by vector in one loop. Memory then is read and written all the time, the
arithmetic of one row fills the gaps of another one, and totals have a whole row's time to be combined. The bits are
the same, but for the sign of a NaN. `HEADRACE_PIPELINING=off` runs loops one after the other.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.loops.ir import Access, Loop, Region, in_order
from headrace.plan import available_threads

__all__ = ["Made", "Pipeline", "Stage", "pipeline_of", "touched"]

Made = tuple[Literal["local", "row"], int]
"""What a stage makes for others: a local or a row buffer, with its number."""

SWITCH = "HEADRACE_PIPELINING"
MANY = 128
"""Rows of each thread from which on it pays: each computes up to six in vain at the beginning and the end."""
LONG = 128
"""Elements of a row from which on that pays."""
LARGEST = 1 << 18
"""Bytes of a row up to which caches hold those that are under way, and stacks one that is written in vain."""
NEAR = 512
"""Elements of a row up to which totals have the time of another row to be combined: of longer ones it is short."""
SHORT = 64
"""Expressions of a point up to which what is computed side by side is not too much code."""
KEPT = 32 << 10
"""Bytes of further copies of row buffers that may be kept."""
CALLS = frozenset({"philox", "pow"})
"""Operators that are functions of the module: what is kept in registers would be saved around them."""
TRAPS = frozenset({"quot", "rem"})
"""Operators that must not be given what a row that is not there has."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What is done to one row at a time.

    Attributes:
      before: loops without axes, for the row as a whole.
      loop: the loop along it.
      after: loops without axes that follow the last stage's loop.
      ages: for each local and each row buffer that it uses in how many steps before it was made.
    """

    before: tuple[Loop, ...]
    loop: Loop
    after: tuple[Loop, ...] = ()
    ages: Mapping[Made, int] = field(default_factory=dict)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All of it, in order."""
        return *self.before, self.loop, *self.after


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How the rows of a region are pipelined.

    Attributes:
      stages: in the order in which they see a row.
      distance: how many rows a stage is behind the one before it.
      oldest: for each local and each row buffer in how many steps after it was made it is used last.
    """

    stages: tuple[Stage, ...]
    distance: int
    oldest: Mapping[Made, int]

    @property
    def behind(self) -> int:
        """How many rows the last stage is behind the first one."""
        return (len(self.stages) - 1) * self.distance


def pipeline_of(region: Region) -> Pipeline | None:
    """How to pipeline a region, or None where that is impossible or does not pay.

    Each stage may only touch, of what another stage or row writes, the same element of a row buffer.

    Args:
      region: what is printed.
    """
    stages = _stages(region)
    rows = math.prod(region.outer)
    if len(stages) < 2 or rows < MANY or not _are_alike(stages) or os.environ.get(SWITCH) == "off":
        return None
    axis = stages[0].loop.axes[0]
    widest = max(buffer.dtype.size for buffer in region.buffers)
    if axis.extent < LONG or axis.extent * widest > LARGEST:
        return None
    exprs = in_order([value for loop in region.loops for value in loop.values])
    is_small = len(exprs) <= SHORT and not any(expr.op in CALLS | TRAPS for expr in exprs)
    if not is_small or not all(_is_apart(region, stage, axis.number) for stage in stages):
        return None
    distance = 2 if axis.extent <= NEAR else 1
    timed = _timed(region, stages, distance)
    oldest = {made: max(stage.ages.get(made, 0) for stage in timed) for made in _made(region, stages)}
    copies = {number: age for (kind, number), age in oldest.items() if kind == "row"}
    further = sum(_bytes(region, number) * (count - 1) for number, count in copies.items())
    if 0 in copies.values() or further > KEPT or rows < MANY * _threads():
        return None
    return Pipeline(timed, distance, oldest)


@functools.cache
def _threads() -> int:
    """How many may share rows, asked once: that takes longer than all else here."""
    return available_threads()


def _stages(region: Region) -> tuple[Stage, ...]:
    """Each loop that has an axis, with those without axes before it."""
    found: list[Stage] = []
    waiting: list[Loop] = []
    for loop in region.loops:
        if loop.axes:
            found.append(Stage(tuple(waiting), loop))
            waiting = []
        else:
            waiting.append(loop)
    if waiting and found:
        found[-1] = replace(found[-1], after=tuple(waiting))
    return tuple(found)


def _are_alike(stages: Sequence[Stage]) -> bool:
    """True if all go along one axis of one piece, and leave totals of rows."""
    axes = {stage.loop.axes for stage in stages}
    plain = not any(stage.loop.after or any(item.keep_last for item in stage.loop.accumulates) for stage in stages)
    return len(axes) == 1 and plain and all(len(found) == 1 and found[0].outer is None for found in axes)


def touched(loops: Sequence[Loop]) -> Iterator[tuple[Loop, int, Access]]:
    """What loops read and write: the loop, the buffer and the place.

    Args:
      loops: of a region.
    """
    for loop in loops:
        for expr in in_order(loop.values):
            if expr.op == "load":
                yield loop, *expr.payload
        for store in loop.stores:
            yield loop, store.buffer, store.access


def _is_apart(region: Region, stage: Stage, axis: int) -> bool:
    """True if a stage goes through row buffers side by side, and through each other buffer that is written one way."""
    ways: dict[int, Access] = {}
    for loop, buffer, access in touched(stage.loops):
        role = region.buffers[buffer].role
        if role == "row" and (not loop.axes or access != Access(0, ((axis, 1),))):
            return False
        if role == "out" and ways.setdefault(buffer, access) != access:
            return False
        if loop.axes and access.coefficient(axis) not in (0, 1):
            return False
    return True


def _made(region: Region, stages: Sequence[Stage]) -> dict[Made, int]:
    """Which stage makes each local and each row buffer."""
    found: dict[Made, int] = {}
    for number, stage in enumerate(stages):
        for loop in stage.loops:
            found |= {("local", item.local): number for item in loop.accumulates}
            found |= {("row", store.buffer): number for store in loop.stores if _is_row(region, store.buffer)}
    return found


def _timed(region: Region, stages: Sequence[Stage], distance: int) -> tuple[Stage, ...]:
    """The stages with the ages of what they use."""
    made = _made(region, stages)
    return tuple(
        replace(stage, ages={key: (number - made[key]) * distance for key in _used(region, stage)})
        for number, stage in enumerate(stages)
    )


def _used(region: Region, stage: Stage) -> set[Made]:
    exprs = in_order([value for loop in stage.loops for value in loop.values])
    loads = {expr.payload[0] for expr in exprs if expr.op == "load"}
    rows: set[Made] = {("row", buffer) for buffer in loads if _is_row(region, buffer)}
    return rows | {("local", expr.payload) for expr in exprs if expr.op == "local"}


def _is_row(region: Region, buffer: int) -> bool:
    return region.buffers[buffer].role == "row"


def _bytes(region: Region, number: int) -> int:
    buffer = region.buffers[number]
    return buffer.size * max(buffer.dtype.size, 1)
