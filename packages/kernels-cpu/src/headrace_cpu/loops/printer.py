"""From a region of the loop IR to an LLVM function with explicit vectors.

`void region(ptr args, i64 begin, i64 end)` computes the outer points from `begin` to `end`; `args` is a table of
pointers, one for each buffer that is no row buffer. A vector has as many lanes as the host's registers hold float32;
wider elements take several registers. The last, shorter piece of a loop is the same code under a mask, so that its
elements have the same bits. Sums of floats are carried in float64. The order of a reduction depends on the region only.
What is decided about a region stands in `chains`, `pipelining` and `streaming`, what is written for one loop in
`loop_code`; here is what goes around loops: the outer points.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.loops.ir import Region
from headrace.loops.verifier import verify_region
from headrace_cpu.llvm.text import Text
from headrace_cpu.loops import pipelining, streaming
from headrace_cpu.loops.chains import is_slow, points_together, sums_apart
from headrace_cpu.loops.loop_code import LoopCode
from headrace_cpu.loops.pipelining import Pipeline, pipeline_of
from headrace_cpu.loops.point import Point, Row
from headrace_cpu.loops.stages import Stages, row_buffer_bytes, spare_bytes
from headrace_cpu.loops.streaming import LINE, Ahead, next_lines, next_rows, streamed_buffers, write_fence

__all__ = ["KEPT_REGIONS", "PrintedRegion", "print_region", "printed_once"]

KEPT_REGIONS = 256
"""Regions of which is kept what was found out about them, such as their text of some ten kilobytes."""
SWITCHES = (pipelining.SWITCH, streaming.SWITCH)
"""What the text of a region depends on besides it and the lanes."""


@dataclass(frozen=True, slots=True)
class PrintedRegion:
    """The text of a region.

    Attributes:
      body: the function, with `SYMBOL` where its name goes.
      functions: definitions and declarations it needs, by name.
    """

    body: str
    functions: dict[str, str]


def printed_once(region: Region, lanes: int) -> PrintedRegion:
    """What `print_region` gives, which is kept: groups of one pattern have one region (see `loops.patterns`)."""
    return _printed(region, lanes, tuple(map(os.environ.get, SWITCHES)))


@functools.lru_cache(KEPT_REGIONS)
def _printed(region: Region, lanes: int, switches: tuple[str | None, ...]) -> PrintedRegion:
    return print_region(region, lanes)


def print_region(region: Region, lanes: int) -> PrintedRegion:
    """Print one region for vectors of that many lanes.

    Raises:
      InternalError: it breaks a rule of the loop IR.
    """
    verify_region(region)
    streamed = streamed_buffers(region, lanes)
    form, pipeline = _chosen(region, streamed)
    ahead = next_rows(form) if pipeline is None and not is_slow(form) else next_lines(form, streamed)
    text = Text(width=lanes)
    code = LoopCode(Point(text, form.buffers, Row({}, [])))
    _Printer(form, streamed, ahead, pipeline, code).write()
    return PrintedRegion("\n".join(text.lines) + "\n", text.functions)


def _chosen(region: Region, streamed: frozenset[int]) -> tuple[Region, Pipeline | None]:
    """The form in which a region is printed, with sums apart where that goes, and how its rows are pipelined."""
    apart = sums_apart(region, streamed)
    for form in dict.fromkeys((apart, region)):
        pipeline = pipeline_of(form)
        if pipeline is not None:
            return form, pipeline
    return apart, None


@dataclass(slots=True)
class _Printer:
    region: Region
    streamed: frozenset[int]  # buffers to write past the caches
    ahead: tuple[Ahead, ...]
    pipeline: Pipeline | None
    code: LoopCode
    pointers: list[str] = field(default_factory=list)

    @property
    def text(self) -> Text:
        return self.code.text

    def write(self) -> None:
        t = self.text
        begin = len(t.lines)
        given = itertools.count()
        for number, buffer in enumerate(self.region.buffers):
            self.pointers.append(f"%row{number}" if buffer.role == "row" else t.argument(next(given)))
        together = points_together(self.region) if self.pipeline is None else 1
        memories = [self._memory_of_point(number) for number in range(together)]
        if self.pipeline is not None:
            self._reserve("%spare", spare_bytes(self.region, self.pipeline))
        if self.streamed:
            self._past_caches(memories)
        self._every_point(memories)
        t.line("ret void")
        t.lines[begin:begin] = [
            "define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {",
            *t.allocas,
        ]
        t.lines.append("}")

    def _memory_of_point(self, point: int) -> list[str]:
        """Where the buffers are for one of the points that are computed together."""
        pointers = list(self.pointers)
        for number, buffer in enumerate(self.region.buffers):
            if buffer.role == "row":
                copies = self.pipeline.oldest["row", number] if self.pipeline is not None else 1
                pointers[number] = f"%row{number}.{point}"
                self._reserve(pointers[number], row_buffer_bytes(self.region, number) * copies)
        return pointers

    def _reserve(self, name: str, size: int) -> None:
        self.text.allocas.append(f"  {name} = alloca [{size} x i8], align {LINE}")

    def _past_caches(self, memories: Sequence[Sequence[str]]) -> None:
        """All of it for buffers that begin with a line of the cache and are not read; what follows is for others."""
        t = self.text
        stream, store = t.label("stream"), t.label("store")
        begins = [t.put(f"ptrtoint ptr {self.pointers[number]} to i64") for number in sorted(self.streamed)]
        joined = functools.reduce(lambda a, b: t.two("or", a, b, "i64"), begins)
        fits = t.put(f"icmp eq i64 {t.two('and', joined, str(LINE - 1), 'i64')}, 0")
        for number, buffer in itertools.product(sorted(self.streamed), range(len(self.pointers))):
            if self.region.buffers[buffer].role != "row" and buffer != number:
                apart = t.put(f"icmp ne ptr {self.pointers[number]}, {self.pointers[buffer]}")
                fits = t.two("and", fits, apart, "i1")
        t.line(f"br i1 {fits}, label %{stream}, label %{store}")
        t.start(stream)
        self.code.at.past = self.streamed
        self._every_point(memories)
        self.code.at.past = frozenset()
        write_fence(t)
        t.line("ret void")
        t.start(store)

    def _every_point(self, memories: Sequence[Sequence[str]]) -> None:
        t, together = self.text, len(memories)
        if self.pipeline is not None:
            ahead = [asked for loop, asked in zip(self.region.loops, self.ahead, strict=True) if loop.axes]
            Stages(self.region, self.pipeline, self.code, memories[0], "%spare", self._indices, ahead).write()
            return
        if together == 1:
            t.count_up("%begin", "%end", 1, lambda point: self._points([point], memories))
            return
        count = t.two("and", t.two("sub", "%end", "%begin", "i64"), str(-together), "i64")
        whole = t.two("add", "%begin", count, "i64")
        t.count_up("%begin", whole, together, lambda first: self._points(t.next_to(first, together), memories))
        t.count_up(whole, "%end", 1, lambda point: self._points([point], memories))

    def _points(self, points: Sequence[str], memories: Sequence[Sequence[str]]) -> None:
        """Each loop for one point after the other: while one waits for the total of its row, the next one goes on."""
        rows = [Row(self._indices(point), pointers) for point, pointers in zip(points, memories, strict=False)]
        for loop, asked in zip(self.region.loops, self.ahead, strict=True):
            for row in rows:
                row.ahead = {load: step * len(points) for load, step in asked}
                self.code.at.row = row
                self.code.write(loop)

    def _indices(self, point: str) -> dict[int, str]:
        """The indices of an outer point."""
        t, rest = self.text, point
        found: dict[int, str] = {}
        for axis in reversed(range(len(self.region.outer))):
            if axis == 0:
                found[axis] = rest
                continue
            size = self.region.outer[axis]
            found[axis] = t.put(f"urem i64 {rest}, {size}")
            rest = t.put(f"udiv i64 {rest}, {size}")
        return found
