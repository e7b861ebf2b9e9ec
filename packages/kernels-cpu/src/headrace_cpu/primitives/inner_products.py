"""Products of few rows with a matrix that is turned, as inner products, written as LLVM code.

The rows of the matrix are what results are inner products with. Some of them and some rows of the first factor are read
together, vector by vector, and have a vector of sums for each pair, whose lanes are combined by halves at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

from headrace_cpu.primitives.row_products import TOGETHER, RowProducts

__all__ = ["InnerProducts"]

TILE = 64
"""Columns of the result that are one piece of work."""
BESIDE = 4
"""Columns whose sums, for some rows, are in registers at a time."""


@dataclass(slots=True)
class InnerProducts(RowProducts):
    """Writes the function of a matrix that lies turned. Mutable."""

    tile: ClassVar[int] = TILE

    sums: list[str] = field(default_factory=list)  # a vector for each pair of a column and a row

    def _reserve(self) -> None:
        room = f"alloca <{self.lanes} x float>, align 64"
        self.sums = [self.t.put(room) for _ in range(BESIDE * TOGETHER)]

    def _tile(self, number: str) -> None:
        t = self.t
        first = t.put(f"mul i64 {number}, {TILE}")
        beyond = t.put(f"add i64 {first}, {TILE}")
        shorter = t.put(f"icmp slt i64 {beyond}, {self.columns}")
        end = t.put(f"select i1 {shorter}, i64 {beyond}, i64 {self.columns}")
        width = t.put(f"sub i64 {end}, {first}")
        whole = t.put(f"add i64 {first}, {t.put(f'and i64 {width}, {-BESIDE}')}")
        t.count_up(first, whole, BESIDE, lambda column: self._columns(column, BESIDE))
        t.count_up(whole, end, 1, lambda column: self._columns(column, 1))

    def _columns(self, column: str, columns: int) -> None:
        """Some columns of all rows of results."""
        self._in_groups(lambda row, rows: self._block(column, columns, row, rows))

    def _block(self, column: str, columns: int, row: str, rows: int) -> None:
        """Some columns of some rows of results."""
        t = self.t
        places, lines = self._next_to(column, columns), self._next_to(row, rows)
        pairs = [(line, place, self.sums[number]) for number, (line, place) in enumerate(product(lines, places))]

        def add(start: str, mask: str | None = None) -> None:
            t.lanes = self.lanes
            given = {line: self._vector(0, line, start, mask) for line in lines}
            factors = {place: self._vector(1, place, start, mask) for place in places}
            for line, place, slot in pairs:
                total = t.put(f"load {t.type('float')}, ptr {slot}")
                total = t.fma(given[line], factors[place], total, "float")
                t.line(f"store {t.type('float')} {total}, ptr {slot}")
            t.lanes = 1

        t.lanes = self.lanes
        for _, _, slot in pairs:
            t.line(f"store {t.type('float')} {t.number(0.0, 'float')}, ptr {slot}")
        t.lanes = 1
        whole = self.inner // self.lanes * self.lanes
        t.count_up("0", str(whole), self.lanes, add)
        if whole < self.inner:
            add(str(whole), self._first_lanes(self.inner - whole))
        for line, place, slot in pairs:
            self._finish(line, place, slot)

    def _finish(self, row: str, column: str, slot: str) -> None:
        t = self.t
        t.lanes = self.lanes
        value = t.halved(
            t.put(f"load {t.type('float')}, ptr {slot}"), "float", lambda a, b: t.two("fadd", a, b, "float")
        )
        for number, is_row in enumerate(self.added):
            place = self._place(self.pointers[3 + number], "0" if is_row else row, self.columns, column)
            value = t.two("fadd", value, t.put(f"load float, ptr {place}"), "float")
        value = self._finished(value)
        t.line(f"store float {value}, ptr {self._place(self.pointers[2], row, self.columns, column)}")

    def _first_lanes(self, count: int) -> str:
        return "<" + ", ".join(f"i1 {'true' if lane < count else 'false'}" for lane in range(self.lanes)) + ">"

    def _vector(self, pointer: int, row: str, start: str, mask: str | None) -> str:
        """A vector of a row of a factor."""
        place = self._place(self.pointers[pointer], row, self.inner, start)
        if mask is None:
            return self.t.put(f"load {self.t.type('float')}, ptr {place}, align 4")
        return self.t.masked_load("float", 4, place, mask)
