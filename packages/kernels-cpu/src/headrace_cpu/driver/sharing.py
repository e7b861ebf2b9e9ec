"""Sharing: which units of a block threads do side by side, and what part of them each thread does.

Waking threads and waiting for them costs some 5 us. So units that follow each other and do not depend on each other run
in one go: each thread does its part of the first one, then its part of the second one, and does not wait between them.
Whether they depend on each other is decided by the memory that they touch, not by the values that it holds: what dies
before a value is made may lie where this one does.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace_cpu.driver.block import Block
from headrace_cpu.driver.estimates import SERIAL_NANOSECONDS, shared_nanoseconds
from headrace_cpu.layout import Unit
from headrace_cpu.primitives.scattering import Rows

__all__ = ["ROW", "SHARE", "Share", "shares", "side_by_side"]

LONGEST_NANOSECONDS = 10_000_000
"""Work that units do side by side at most: within it a driver does not pause, and a trace has one time for it."""
MOST_UNITS = 512
"""So many units at most: the table of what they touch lies on the stack."""

CONSTANT = frozenset({"constant", "pointer"})
"""Kinds of places that nobody writes to."""
Span = tuple[str, int, int]
"""A kind of place (see `block.Place`) with its first byte and the one after its last; of a slot its number counts."""


def side_by_side(block: Block) -> tuple[range, ...]:
    """Which units run side by side: positions of units that follow each other, none of which needs another one.

    No unit of a range reads or writes memory that another one of it writes. A range has two units or more, and together
    they are worth waking threads. `HEADRACE_SIDE_BY_SIDE=off` finds none.

    Args:
      block: the units and where their memory is.
    """
    if os.environ.get("HEADRACE_SIDE_BY_SIDE") == "off":
        return ()
    found: list[range] = []
    begin, total = 0, 0.0
    read, written = _Spans(), _Spans()

    def end(position: int) -> None:
        if position - begin > 1 and total >= SERIAL_NANOSECONDS:
            found.append(range(begin, position))

    for position, unit in enumerate(block.units):
        alone = not _may_join(unit)
        reads, writes = ([], []) if alone else _touched(block, position)
        cost = 0.0 if alone else shared_nanoseconds(unit)
        full = position - begin >= MOST_UNITS or total + cost > LONGEST_NANOSECONDS
        if alone or full or written.meet(reads) or written.meet(writes) or read.meet(writes):
            end(position)
            begin, total = position + alone, 0.0
            read, written = _Spans(), _Spans()
        if not alone:
            total += cost
            read.add(reads)
            written.add(writes)
    end(len(block.units))
    return tuple(found)


def _may_join(unit: Unit) -> bool:
    """True if all that the unit does is shared: nothing is checked beforehand. That a part failed shows afterwards."""
    return unit.is_shared and not (isinstance(unit.call, Rows) and unit.call.check is not None)


def _touched(block: Block, position: int) -> tuple[list[Span], list[Span]]:
    """The memory that a unit reads, and that which it writes."""
    unit = block.units[position]
    made = set(unit.outputs)
    reads = [_span(block, key) for key in unit.keys if key not in made and block.places[key][0] not in CONSTANT]
    writes = [_span(block, key) for key in made]
    sizes = unit.call.scratch if unit.call is not None else ()
    writes += [("arena", start, start + size) for (_, start), size in zip(block.scratch[position], sizes, strict=False)]
    return reads, writes


def _span(block: Block, key: object) -> Span:
    kind, start = block.places[key]
    return kind, start, start + (block.sizes[key] if kind == "arena" else 1)


class _Spans:
    """Memory, as spans that do not touch each other, in order. Mutable."""

    def __init__(self) -> None:
        self._begins: dict[str, list[int]] = {}
        self._ends: dict[str, list[int]] = {}

    def meet(self, spans: Iterable[Span]) -> bool:
        """Whether one of some spans has a byte of this memory."""
        for kind, begin, end in spans:
            ends = self._ends.get(kind, [])
            place = bisect.bisect_right(ends, begin)
            if place < len(ends) and self._begins[kind][place] < end:
                return True
        return False

    def add(self, spans: Iterable[Span]) -> None:
        """Add some spans; those that meet become one."""
        for kind, begin, end in spans:
            begins, ends = self._begins.setdefault(kind, []), self._ends.setdefault(kind, [])
            first, after = bisect.bisect_left(ends, begin), bisect.bisect_right(begins, end)
            if first < after:
                begin, end = min(begin, begins[first]), max(end, ends[after - 1])
            begins[first:after], ends[first:after] = [begin], [end]


@dataclass(frozen=True, slots=True)
class Share:
    """How the points of a unit go to threads.

    The thread `t` of `count` does those whose work begins from `total * t / count` on, but before
    `total * (t + 1) / count`.

    Attributes:
      points: how many there are.
      start: the work that comes before the first point.
      cost: the work of a point.
      total: the work that is shared.
    """

    points: int
    start: int
    cost: int
    total: int


def shares(units: Sequence[tuple[int, float]]) -> list[Share]:
    """How units that run side by side go to threads: large ones in equal parts, small ones most of them whole.

    A large unit is cut, however wrong the estimates are that would balance several of these. Which thread computes a
    point changes no bit of it.

    Args:
      units: points and nanoseconds of each.
    """
    costs = [max(1, round(1000 * nanoseconds / max(points, 1))) for points, nanoseconds in units]
    is_small = [nanoseconds < SERIAL_NANOSECONDS for _, nanoseconds in units]
    total = sum(points * cost for (points, _), cost, small in zip(units, costs, is_small, strict=True) if small)
    found = []
    start = 0
    for (points, _), cost, small in zip(units, costs, is_small, strict=True):
        found.append(Share(points, start, cost, total) if small else Share(points, 0, 1, points))
        start += points * cost if small else 0
    return found


ROW = "{ ptr, i64, i64, i64, i64, i64 }"
"""What `SHARE` needs of a unit: its function, its first pointer, and its `Share`."""

SHARE = f"""define internal void @share(ptr %job) {{
begin:
  %rows = load ptr, ptr %job
  %job.count = getelementptr i64, ptr %job, i64 1
  %units = load i64, ptr %job.count
  %job.args = getelementptr i64, ptr %job, i64 2
  %args = load ptr, ptr %job.args
  %t = call i32 @omp_get_thread_num()
  %c = call i32 @omp_get_num_threads()
  %thread = zext i32 %t to i64
  %after = add i64 %thread, 1
  %count = zext i32 %c to i64
  %is.first = icmp eq i32 %t, 0
  br i1 %is.first, label %unit, label %other
other:
  call void @hold_signals(ptr null)
  %job.processor = getelementptr i64, ptr %job, i64 3
  call void @look_around(ptr %job.processor)
  br label %unit
unit:
  %number = phi i64 [ 0, %begin ], [ 0, %other ], [ %next, %over ]
  %row = getelementptr {ROW}, ptr %rows, i64 %number
  %function = load ptr, ptr %row
  %first.at = getelementptr i64, ptr %row, i64 1
  %first = load i64, ptr %first.at
  %points.at = getelementptr i64, ptr %row, i64 2
  %points = load i64, ptr %points.at
  %start.at = getelementptr i64, ptr %row, i64 3
  %start = load i64, ptr %start.at
  %cost.at = getelementptr i64, ptr %row, i64 4
  %cost = load i64, ptr %cost.at
  %total.at = getelementptr i64, ptr %row, i64 5
  %total = load i64, ptr %total.at
  %less = sub i64 %cost, 1
  %a = mul i64 %total, %thread
  %from = udiv i64 %a, %count
  %a.before = sub i64 %from, %start
  %a.inside = call i64 @llvm.smax.i64(i64 %a.before, i64 0)
  %a.up = add i64 %a.inside, %less
  %a.points = udiv i64 %a.up, %cost
  %low = call i64 @llvm.smin.i64(i64 %a.points, i64 %points)
  %b = mul i64 %total, %after
  %to = udiv i64 %b, %count
  %b.before = sub i64 %to, %start
  %b.inside = call i64 @llvm.smax.i64(i64 %b.before, i64 0)
  %b.up = add i64 %b.inside, %less
  %b.points = udiv i64 %b.up, %cost
  %high = call i64 @llvm.smin.i64(i64 %b.points, i64 %points)
  %some = icmp slt i64 %low, %high
  br i1 %some, label %work, label %over
work:
  %pointers = getelementptr ptr, ptr %args, i64 %first
  call void %function(ptr %pointers, i64 %low, i64 %high)
  br label %over
over:
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, %units
  br i1 %more, label %unit, label %end
end:
  ret void
}}"""
"""What each thread of the pool runs: its part of each of some units, given their rows, how many, their pointers, where
the first thread is, and which one that is (see `processors`). Other threads let signals wait (see `signals`)."""
