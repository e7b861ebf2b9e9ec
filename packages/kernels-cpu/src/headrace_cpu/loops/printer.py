"""From a region of the loop IR to an LLVM function with explicit vectors.

`void region(ptr args, i64 begin, i64 end)` computes the outer points from `begin` to `end`; `args` is a table of
pointers, one for each buffer that is no row buffer. A vector has as many lanes as the host's registers hold float32;
wider elements take several registers. The last, shorter piece of a loop is the same code under a mask, so that its
elements have the same bits. Sums of floats are carried in float64. The order of a reduction depends on the region only.
What is decided about a region stands in `chains`, what is written for one vector of points in `point`; here are the
loops around that.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from headrace.loops.ir import Accumulate, Axis, Loop, Region, Store, form_of, in_order
from headrace.types import float64
from headrace_cpu.llvm.text import Text
from headrace_cpu.loops.chains import points_together, registers_together, sums_apart
from headrace_cpu.loops.point import Point
from headrace_cpu.loops.reductions import Accumulator, start_accumulator
from headrace_cpu.loops.streaming import LINE, ReadAhead, read_ahead, streamed_buffers, write_fence

__all__ = ["PrintedRegion", "print_region"]


ROWS = 4
"""Rows that are added to the accumulators of columns at a time."""
SHORT = 40
"""Expressions of a row up to which that is done."""
KEPT_FORMS = 128
"""Forms whose text is kept: some ten kilobytes each."""


@dataclass(frozen=True, slots=True)
class PrintedRegion:
    """The text of a region.

    Attributes:
      body: the function, with `SYMBOL` where its name goes.
      functions: definitions and declarations it needs, by name.
    """

    body: str
    functions: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Form:
    """A region, equal to those of the same form."""

    form: Hashable
    region: Region = field(compare=False)


def print_region(region: Region, lanes: int) -> PrintedRegion:
    """Print one region for vectors of that many lanes; layers of a network have many of one form."""
    streamed = streamed_buffers(region, lanes)
    region = sums_apart(region, streamed)
    return _printed(_Form(form_of(region), region), lanes, streamed, read_ahead(region))


@functools.lru_cache(KEPT_FORMS)
def _printed(item: _Form, lanes: int, streamed: frozenset[int], ahead: ReadAhead) -> PrintedRegion:
    text = Text(width=lanes)
    _Printer(item.region, lanes, streamed, ahead, text, Point(text, item.region.buffers)).write()
    return PrintedRegion("\n".join(text.lines) + "\n", text.functions)


@dataclass(slots=True)
class _Printer:
    region: Region
    lanes: int
    streamed: frozenset[int]  # buffers to write past the caches
    ahead: ReadAhead
    text: Text
    at: Point
    allocas: list[str] = field(default_factory=list)

    def write(self) -> None:
        t = self.text
        begin = len(t.lines)
        together = points_together(self.region)
        given = 0
        for number, buffer in enumerate(self.region.buffers):
            if buffer.role == "row":
                self.at.pointers.append(f"%row{number}")
                continue
            place = t.put(f"getelementptr ptr, ptr %args, i64 {given}")
            self.at.pointers.append(t.put(f"load ptr, ptr {place}"))
            given += 1
        rows = [self._pointers_of_row(number) for number in range(together)]
        if self.streamed:
            self._past_caches(rows)
        self._every_point(rows)
        t.line("ret void")
        t.lines[begin:begin] = [
            "define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {",
            *self.allocas,
        ]
        t.lines.append("}")

    def _every_point(self, rows: Sequence[list[str]]) -> None:
        t, together = self.text, len(rows)
        if together == 1:
            t.count_up("%begin", "%end", 1, lambda point: self._points([point], rows))
            return
        count = t.two("and", t.two("sub", "%end", "%begin", "i64"), str(-together), "i64")
        whole = t.two("add", "%begin", count, "i64")
        t.count_up("%begin", whole, together, lambda first: self._points(self._next_to(first, together), rows))
        t.count_up(whole, "%end", 1, lambda point: self._points([point], rows))

    def _past_caches(self, rows: Sequence[list[str]]) -> None:
        """All of it for buffers that begin with a line of the cache and are not read; what follows is for others."""
        t = self.text
        stream, store = t.label("stream"), t.label("store")
        begins = [t.put(f"ptrtoint ptr {self.at.pointers[number]} to i64") for number in sorted(self.streamed)]
        joined = functools.reduce(lambda a, b: t.two("or", a, b, "i64"), begins)
        fits = t.put(f"icmp eq i64 {t.two('and', joined, str(LINE - 1), 'i64')}, 0")
        for number, buffer in itertools.product(sorted(self.streamed), range(len(self.at.pointers))):
            if self.region.buffers[buffer].role != "row" and buffer != number:
                apart = t.put(f"icmp ne ptr {self.at.pointers[number]}, {self.at.pointers[buffer]}")
                fits = t.two("and", fits, apart, "i1")
        t.line(f"br i1 {fits}, label %{stream}, label %{store}")
        t.start(stream)
        self.at.past = self.streamed
        self._every_point(rows)
        self.at.past = frozenset()
        write_fence(t)
        t.line("ret void")
        t.start(store)

    def _pointers_of_row(self, row: int) -> list[str]:
        """Where the buffers are for one of the points that are computed together."""
        pointers = list(self.at.pointers)
        for number, buffer in enumerate(self.region.buffers):
            if buffer.role == "row":
                size = max(buffer.size, 1) * max(buffer.dtype.size, 1) + 64
                pointers[number] = f"%row{number}.{row}"
                self.allocas.append(f"  {pointers[number]} = alloca [{size} x i8], align 64")
        return pointers

    def _next_to(self, first: str, count: int) -> list[str]:
        return [first, *(self.text.put(f"add i64 {first}, {place}") for place in range(1, count))]

    def _points(self, points: Sequence[str], rows: Sequence[list[str]]) -> None:
        """Each loop for one point after the other: while one waits for the total of its row, the next one goes on."""
        indices: list[dict[int, str]] = []
        locals_: list[dict[int, str]] = [{} for _ in points]
        for point in points:
            self.at.index = {}
            self._outer_index(point)
            indices.append(self.at.index)
        for number, loop in enumerate(self.region.loops):
            asking = self.ahead.loads if number == self.ahead.loop else ()
            self.at.ahead = {load: step * len(points) for load, step in asking}
            for index, pointers, known in zip(indices, rows, locals_, strict=False):
                self.at.index, self.at.pointers, self.at.locals = index, pointers, known
                self._loop(loop)

    def _outer_index(self, point: str) -> None:
        t, rest = self.text, point
        for axis in reversed(range(len(self.region.outer))):
            if axis == 0:
                self.at.index[axis] = rest
                continue
            size = self.region.outer[axis]
            self.at.index[axis] = t.put(f"urem i64 {rest}, {size}")
            rest = t.put(f"udiv i64 {rest}, {size}")

    # loops

    def _loop(self, loop: Loop) -> None:
        if not loop.axes:
            self.at.vector_axis, self.at.mask, self.at.done = None, None, {}
            self.text.lanes = 1
            self.at.locals |= {item.local: self.at.value(item.value) for item in loop.accumulates}
            self._store_all(loop.stores)
            return
        if any(item.keep_last for item in loop.accumulates):
            self._columns(loop)
            return
        together = registers_together(loop, self.lanes)
        size = together * self.lanes
        accumulators = [self._accumulator(item, size, of_row=True) for item in loop.accumulates]
        self.text.lanes = size
        for accumulator in accumulators:
            accumulator.reset(self.text)

        def along() -> None:
            self._vectors(loop.axes[-1], lambda: self._point(loop, accumulators), together)

        self._sequence(loop.axes[:-1], along)
        for accumulator in accumulators:
            self.at.locals[accumulator.item.local] = accumulator.total(self.text, size)

    def _columns(self, loop: Loop) -> None:
        """Row after row into accumulators for all columns, as memory has them, then what is stored for each column."""
        *rows, last = loop.axes
        accumulators = [
            self._accumulator(item, -(-last.extent // self.lanes) * self.lanes, of_row=False)
            for item in loop.accumulates
        ]

        def for_each(body: Callable[[Accumulator], None]) -> None:
            self.at.done = {}
            for whole in accumulators:
                start = f"getelementptr {whole.element}, ptr {whole.slot}, i64 {self.at.index[last.number]}"
                body(replace(whole, slot=self.text.put(start)))

        def point() -> None:
            for_each(self._accumulate)
            self._store_all(loop.stores)

        def sum_up(accumulator: Accumulator) -> None:
            value = self.text.put(f"load {self.text.type(accumulator.element)}, ptr {accumulator.slot}")
            self.at.columns[accumulator.item.local] = accumulator.narrowed(self.text, value)

        def finish() -> None:
            for_each(sum_up)
            self._store_all(loop.after)
            self.at.columns = {}

        self._vectors(last, lambda: for_each(lambda accumulator: accumulator.reset(self.text)))
        self._several(loop, rows, last, point)
        self._vectors(last, finish)

    def _several(self, loop: Loop, rows: Sequence[Axis], last: Axis, point: Callable[[], None]) -> None:
        """Rows one after the other, or ROWS at a time where that is not much code: accumulators move less often.

        Each column is added up in the same order either way.
        """
        values = [item.value for item in loop.accumulates] + [store.value for store in loop.stores]
        if not rows or len(in_order(values)) > SHORT:
            self._sequence(rows, lambda: self._vectors(last, point))
            return
        t, number = self.text, rows[-1].number

        def together(first: str) -> None:
            places = self._next_to(first, ROWS)

            def points() -> None:
                for place in places:
                    self.at.index[number] = place
                    point()

            self._vectors(last, points)

        def alone(place: str) -> None:
            self.at.index[number] = place
            self._vectors(last, point)

        def every() -> None:
            count = self._extent(rows[-1])
            whole = t.put(f"and i64 {count}, {-ROWS}")
            t.count_up("0", whole, ROWS, together)
            t.count_up(whole, count, 1, alone)

        self._sequence(rows[:-1], every)

    def _point(self, loop: Loop, accumulators: list[Accumulator]) -> None:
        self.at.done = {}
        for accumulator in accumulators:
            self._accumulate(accumulator)
        self._store_all(loop.stores)

    def _store_all(self, stores: Sequence[Store]) -> None:
        """Everything is computed before anything is written: an output may lie where an input does."""
        for store in stores:
            self.at.value(store.value)
        for store in stores:
            self.at.store(store)

    def _sequence(self, axes: Sequence[Axis], body: Callable[[], None]) -> None:
        if not axes:
            body()
            return
        axis = axes[0]

        def inside(place: str) -> None:
            self.at.index[axis.number] = place
            self._sequence(axes[1:], body)

        self.text.count_up("0", self._extent(axis), 1, inside)

    def _extent(self, axis: Axis) -> str:
        """How far an axis goes; the last piece of one that is cut may be shorter."""
        if axis.outer is None:
            return str(axis.extent)
        t = self.text
        start = t.put(f"mul i64 {self.at.index[axis.outer]}, {axis.extent}")
        left = t.put(f"sub i64 {axis.total}, {start}")
        shorter = t.put(f"icmp slt i64 {left}, {axis.extent}")
        return t.put(f"select i1 {shorter}, i64 {left}, i64 {axis.extent}")

    def _vectors(self, axis: Axis, body: Callable[[], None], together: int = 1) -> None:
        """A loop over whole vectors, then the rest under a mask.

        Args:
          axis: what it goes along.
          body: writes all that is done for a vector.
          together: how many registers a vector fills where so many are left.
        """
        t, lanes = self.text, self.lanes
        self.at.vector_axis, self.at.mask = axis.number, None
        count, first = self._extent(axis), "0"
        static = axis.outer is None
        for size in (lanes,) if together == 1 else (together * lanes, lanes):
            whole = str(axis.extent // size * size) if static else t.put(f"and i64 {count}, {-size}")
            if first != whole:
                t.lanes = size
                t.count_up(first, whole, size, functools.partial(self._vector, axis, body))
            first = whole
        t.lanes = lanes
        if not static or axis.extent % lanes:
            self._rest(axis, first, count, body)
        t.lanes = 1

    def _vector(self, axis: Axis, body: Callable[[], None], first: str) -> None:
        self.at.index[axis.number] = first
        body()

    def _rest(self, axis: Axis, whole: str, count: str, body: Callable[[], None]) -> None:
        """What is left of a row behind its whole vectors, under a mask."""
        t, static = self.text, axis.outer is None
        rest, done = t.label("rest"), t.label("done")
        some = t.put(f"icmp slt i64 {whole}, {count}")
        t.line(f"br i1 {some}, label %{rest}, label %{done}")
        t.start(rest)
        left = t.put(f"sub i64 {count}, {whole}")
        if not static or axis.extent % self.lanes == 1:
            left = self._hidden(left)
        self.at.mask = t.two("icmp ult", self.at.lane_numbers(), t.splat(left, "i64"), "i64")
        self._vector(axis, body, whole)
        self.at.mask = None
        t.line(f"br label %{done}")
        t.start(done)

    def _hidden(self, number: str) -> str:
        """The same number where LLVM cannot foresee it.

        Of a masked store that surely has one lane it makes a scalar one, as wide as the value was before being narrowed
        (seen in LLVM 22): that writes over what comes behind the array.
        """
        t = self.text
        slot = t.name()
        self.allocas.append(f"  {slot} = alloca i64, align 8")
        t.line(f"store volatile i64 {number}, ptr {slot}")
        return t.put(f"load volatile i64, ptr {slot}")

    # reductions

    def _accumulator(self, item: Accumulate, size: int, *, of_row: bool) -> Accumulator:
        made = start_accumulator(self.text, item, of_row=of_row)
        self.allocas += made.reserved(size)
        return made

    def _accumulate(self, accumulator: Accumulator) -> None:
        t, item = self.text, accumulator.item
        if self.at.mask is None and item.op == "sum" and item.value.op == "mul" and item.value.dtype is float64:
            accumulator.add_product(t, *map(self.at.value, item.value.args))
            return
        value = accumulator.widened(t, self.at.value(item.value))
        if self.at.mask is not None:
            value = t.select(self.at.mask, value, accumulator.neutral(t), accumulator.element)
        accumulator.add(t, value)
