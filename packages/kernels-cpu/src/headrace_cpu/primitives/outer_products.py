"""Products of few rows with a matrix as outer products, written as LLVM code: the matrix is read once, row by row.

A tile of columns of all results stays in the first cache. Some rows of the matrix at a time are added to it, each times
its number of the first factor. Every element is summed in the order of the inner axis, whatever threads do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from headrace_cpu.primitives.row_products import RowProducts

__all__ = ["OuterProducts"]

TILE = 256
"""Columns that are computed together: 1 KB of each row of the matrix, and 32 KB of results at most."""
SECOND_CACHE = 1 << 20
"""Bytes of a matrix beyond which the rows that come next are asked for, unless reading is all there is to do anyway."""
FEW, MANY = 4, 8
"""Rows of the matrix that are added at a time: many for one or two rows of results, which then move less."""


@dataclass(slots=True)
class OuterProducts(RowProducts):
    """Writes the function of a matrix as it lies. Mutable."""

    tile: ClassVar[int] = TILE

    results: str = ""  # a tile of each row of results, one after the other
    first: str = ""  # column of the tile
    width: str = ""  # columns of the tile
    whole: str = ""  # of these, those that are whole vectors
    mask: str | None = None

    def _reserve(self) -> None:
        self.results = self.t.put(f"alloca [{self.rows * TILE} x float], align 64")

    def _tile(self, number: str) -> None:
        t = self.t
        self.first = t.put(f"mul i64 {number}, {TILE}")
        left = t.put(f"sub i64 {self.columns}, {self.first}")
        shorter = t.put(f"icmp slt i64 {left}, {TILE}")
        self.width = t.put(f"select i1 {shorter}, i64 {left}, i64 {TILE}")
        self.whole = t.put(f"and i64 {self.width}, {-self.lanes}")
        self._each_row(self._clear)
        count = MANY if self.rows <= 2 else FEW
        end = self.inner // count * count
        if end:
            t.count_up("0", str(end), count, lambda start: self._add(start, count))
        if end < self.inner:
            self._add(str(end), self.inner - end)
        self._each_row(self._finish)

    def _each_row(self, body: Callable[[str, str], None]) -> None:
        """Do something for each vector of each row of results."""
        rows = str(self.rows)
        self.t.count_up("0", rows, 1, lambda row: self._vectors(lambda column: body(row, column)))

    def _vectors(self, body: Callable[[str], None]) -> None:
        """Do something for each vector of the tile, and for the columns that are left over under a mask."""
        t = self.t

        def vector(column: str) -> None:
            t.lanes = self.lanes
            body(column)
            t.lanes = 1

        t.count_up("0", self.whole, self.lanes, vector)
        rest = self.columns % self.lanes
        if not rest:
            return

        def masked() -> None:
            self.mask = "<" + ", ".join(f"i1 {'true' if lane < rest else 'false'}" for lane in range(self.lanes)) + ">"
            vector(self.whole)
            self.mask = None

        t.when(t.put(f"icmp slt i64 {self.whole}, {self.width}"), masked)

    def _add(self, start: str, count: int) -> None:
        """Add some rows of the matrix, times numbers of each row of the first factor, to the results."""
        self._in_groups(lambda first, rows: self._add_to(first, rows, start, count))

    def _add_to(self, first: str, rows: int, start: str, count: int) -> None:
        """Add `count` rows of the matrix from `start` on to `rows` rows of results from `first` on."""
        t = self.t
        targets, places = self._next_to(first, rows), self._next_to(start, count)
        numbers = [[self._number(row, place) for place in places] for row in targets]

        def vector(column: str) -> None:
            factors = [self._load(1, place, column) for place in places]
            if self.rows > 2 and 4 * self.inner * self.columns > SECOND_CACHE:
                for place in places:
                    t.prefetch(self._outside(1, self._moved(place, 2 * count), column), 3)
            for row, scalars in zip(targets, numbers, strict=True):
                place = self._result(row, column)
                total = t.put(f"load {t.type('float')}, ptr {place}")
                for scalar, factor in zip(scalars, factors, strict=True):
                    total = t.fma(t.splat(scalar, "float"), factor, total, "float")
                t.line(f"store {t.type('float')} {total}, ptr {place}")

        self._vectors(vector)

    def _result(self, row: str, column: str) -> str:
        return self._place(self.results, row, TILE, column)

    def _number(self, row: str, place: str) -> str:
        return self.t.put(f"load float, ptr {self._place(self.pointers[0], row, self.inner, place)}")

    def _outside(self, pointer: int, row: str, column: str) -> str:
        """The place of a column of the tile in an array as wide as the result."""
        column = self.t.put(f"add i64 {self.first}, {column}")
        return self._place(self.pointers[pointer], row, self.columns, column)

    def _clear(self, row: str, column: str) -> None:
        t = self.t
        t.line(f"store {t.type('float')} {t.number(0.0, 'float')}, ptr {self._result(row, column)}")

    def _finish(self, row: str, column: str) -> None:
        t = self.t
        value = t.put(f"load {t.type('float')}, ptr {self._result(row, column)}")
        for number, is_row in enumerate(self.added):
            value = t.two("fadd", value, self._load(3 + number, "0" if is_row else row, column), "float")
        value, place = self._finished(value), self._outside(2, row, column)
        if self.mask is None:
            t.line(f"store {t.type('float')} {value}, ptr {place}, align 4")
        else:
            t.masked_store("float", 4, value, place, self.mask)

    def _load(self, pointer: int, row: str, column: str) -> str:
        t, place = self.t, self._outside(pointer, row, column)
        if self.mask is None:
            return t.put(f"load {t.type('float')}, ptr {place}, align 4")
        return t.masked_load("float", 4, place, self.mask)
