"""One loop of a region as LLVM instructions: whole vectors, the rest of a row under a mask, and what is reduced."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.loops.ir import Accumulate, Axis, Loop, Store, in_order
from headrace.types import float64
from headrace_cpu.llvm.text import Text
from headrace_cpu.loops.chains import registers_together
from headrace_cpu.loops.point import Point, Row
from headrace_cpu.loops.reductions import Accumulator, start_accumulator

__all__ = ["LoopCode"]

ROWS = 4
"""Rows that are added to the accumulators of columns at a time."""
SHORT = 40
"""Expressions of a row up to which that is done."""


@dataclass(frozen=True, slots=True)
class LoopCode:
    """Writes loops for the outer point that `at` says.

    Attributes:
      at: where the loop is.
    """

    at: Point

    @property
    def text(self) -> Text:
        """What is written to."""
        return self.at.text

    @property
    def lanes(self) -> int:
        """Elements of a vector: those of float32 that a register holds."""
        return self.text.width

    def write(self, loop: Loop) -> None:
        """A loop for the row at hand, which gets the totals.

        Args:
          loop: the loop.
        """
        if not loop.axes:
            self.at.vector_axis, self.at.mask, self.at.done = None, None, {}
            self.text.lanes = 1
            self.at.row.locals |= {item.local: self.at.value(item.value) for item in loop.accumulates}
            self._store_all(loop.stores)
            return
        if any(item.keep_last for item in loop.accumulates):
            self._columns(loop)
            return
        self.write_together([(loop, self.at.row)])

    def write_together(self, loops: Sequence[tuple[Loop, Row]]) -> None:
        """Loops over the same axes, each for a row of its own: a vector of the first one, then one of the second one.

        Args:
          loops: each with its row, which gets the totals.
        """
        axes = loops[0][0].axes
        joined = Loop(
            axes,
            tuple(item for loop, _ in loops for item in loop.accumulates),
            tuple(store for loop, _ in loops for store in loop.stores),
        )
        together = registers_together(joined, self.lanes)
        started = [[self._of_row(item, together) for item in loop.accumulates] for loop, _ in loops]
        for accumulator in itertools.chain(*started):
            accumulator.reset(self.text)

        def vector() -> None:
            places = {axis.number: self.at.row.index[axis.number] for axis in axes}
            for (loop, row), accumulators in zip(loops, started, strict=True):
                self.at.row = row
                row.index |= places
                self._point(loop, accumulators)

        self._sequence(axes[:-1], lambda: self._vectors(axes[-1], vector, together))
        for (_, row), accumulators in zip(loops, started, strict=True):
            for accumulator in accumulators:
                row.locals[accumulator.item.local] = accumulator.total(self.text)

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
                start = f"getelementptr {whole.element}, ptr {whole.slot}, i64 {self.at.row.index[last.number]}"
                body(replace(whole, slot=self.text.put(start), width=self.lanes))

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
            places = t.next_to(first, ROWS)

            def points() -> None:
                for place in places:
                    self.at.row.index[number] = place
                    point()

            self._vectors(last, points)

        def alone(place: str) -> None:
            self.at.row.index[number] = place
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
            self.at.row.index[axis.number] = place
            self._sequence(axes[1:], body)

        self.text.count_up("0", self._extent(axis), 1, inside)

    def _extent(self, axis: Axis) -> str:
        """How far an axis goes; the last piece of one that is cut may be shorter."""
        if axis.outer is None:
            return str(axis.extent)
        t = self.text
        start = t.put(f"mul i64 {self.at.row.index[axis.outer]}, {axis.extent}")
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
        self.at.row.index[axis.number] = first
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
        self.text.allocas.append(f"  {slot} = alloca i64, align 8")
        t.line(f"store volatile i64 {number}, ptr {slot}")
        return t.put(f"load volatile i64, ptr {slot}")

    def _of_row(self, item: Accumulate, together: int) -> Accumulator:
        """One register, where what comes in can be combined first; products and sum are one instruction."""
        return self._accumulator(item, self.lanes * (together if _adds_products(item) else 1), of_row=True)

    def _accumulator(self, item: Accumulate, width: int, *, of_row: bool) -> Accumulator:
        made = start_accumulator(self.text, item, width, of_row=of_row)
        self.text.allocas += made.reserved()
        return made

    def _accumulate(self, accumulator: Accumulator) -> None:
        t, item = self.text, accumulator.item
        if self.at.mask is None and _adds_products(item):
            accumulator.add_product(t, *map(self.at.value, item.value.args))
            return
        value = accumulator.widened(t, self.at.value(item.value))
        if self.at.mask is not None:
            value = t.select(self.at.mask, value, accumulator.neutral(t), accumulator.element)
        accumulator.add(t, value)


def _adds_products(item: Accumulate) -> bool:
    return item.op == "sum" and item.value.op == "mul" and item.value.dtype is float64
