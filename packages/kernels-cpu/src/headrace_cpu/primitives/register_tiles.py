"""Register tiles: a few rows of a product, two vectors wide, whose sums stay in registers while the inner axis goes by.

The matrix lies in panels: the numbers of so many columns for the first place of the inner axis, then for the next one.
So each step of the loop reads one line after the other of the panel, and one number of each row; what the next panel
holds is asked for meanwhile, so that a matrix that comes from memory costs little more than one from a cache. The form
is that of Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34 (2008), section 6.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from headrace.types import float32
from headrace_cpu.llvm.text import Text
from headrace_cpu.loops.scalars import extreme

__all__ = ["VECTORS", "Given", "RegisterTile", "most_rows"]

VECTORS = 2
"""Vectors of columns in a tile."""


def most_rows(lanes: int) -> int:
    """Rows of a tile whose sums fit in the registers: 28 of the 32 of AVX-512, 12 of 16 elsewhere."""
    return 14 if lanes == 16 else 6


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """A function that adds what some places of the inner axis give to a tile of the result.

    The first call for a tile begins with zeros, the last one finishes it; where there are no parts, each call is both.

    Attributes:
      rows: of the tile.
      stride: numbers from one row of the first factor to the next.
      ahead: bytes of what comes next that are asked for at each place of the inner axis.
      in_parts: the inner axis may be left to several calls.
      added: of each thing that is added in the end whether it is a row, for all rows, or lies as the result does.
      has_relu: what is negative then becomes 0.
      is_partial: a tile may reach beyond the last column.
      lanes: elements of a vector.
    """

    rows: int
    stride: int
    ahead: int
    in_parts: bool
    added: tuple[bool, ...]
    has_relu: bool
    is_partial: bool
    lanes: int

    @property
    def symbol(self) -> str:
        """The name of the function."""
        return f"register_tile_{hashlib.sha256(repr(self).encode()).hexdigest()[:16]}"

    def call(self, t: Text, given: Given) -> None:
        """Call the function, and add it to those that are needed.

        Args:
          t: what calls.
          given: what it is given.
        """
        if self.symbol not in t.functions:
            writer = _Writer(self)
            t.functions[self.symbol] = writer.written()
            t.functions |= writer.t.functions
        t.line(f"call void @{self.symbol}({given.text()})")


@dataclass(frozen=True, slots=True)
class Given:
    """What the function of a tile is given: registers.

    Attributes:
      rows: the pointer of the rows of the first factor.
      panel: that of the panel.
      following: that of what to ask for.
      result: that of the tile in the result.
      columns: of the result.
      left: how many of these there are from the first one of the tile on.
      depth: places of the inner axis.
      is_first, is_last: whether this is the first call for the tile, and the last one.
      added: the pointers of what is added in the end.
    """

    rows: str
    panel: str
    following: str
    result: str
    columns: str
    left: str
    depth: str
    is_first: str
    is_last: str
    added: tuple[str, ...]

    def text(self) -> str:
        """Arguments, or parameters, in the order of the function."""
        pointers, integers = (self.rows, self.panel, self.following, self.result), (self.columns, self.left, self.depth)
        return ", ".join(
            [
                *(f"ptr {name}" for name in pointers),
                *(f"i64 {name}" for name in integers),
                *(f"i1 {name}" for name in (self.is_first, self.is_last)),
                *(f"ptr {name}" for name in self.added),
            ]
        )


class _Writer:
    """Writes the function. Mutable."""

    def __init__(self, tile: RegisterTile) -> None:
        self.tile = tile
        self.t = Text(lanes=tile.lanes, width=tile.lanes)
        self.vector = self.t.type("float")
        self.places = [(row, number) for row in range(tile.rows) for number in range(VECTORS)]
        self.masks: list[str] = []

    def written(self) -> str:
        """The text of the function."""
        t, tile = self.t, self.tile
        added = tuple(f"%added{number}" for number in range(len(tile.added)))
        given = Given(
            "%rows", "%panel", "%next", "%result", "%columns", "%left", "%depth", "%first", "%last", added
        )  # fmt: skip
        t.lines.append(f"define internal void @{tile.symbol}({given.text()}) noinline {{")
        t.start("entry")
        if tile.is_partial:
            self.masks = [self._mask(number) for number in range(VECTORS)]
        sums = self._loop(self._begun())
        if tile.in_parts:
            t.line("br i1 %last, label %finish, label %keep")
            t.start("keep")
            self._store(sums)
            t.line("ret void")
            t.start("finish")
        self._store(self._finished(sums))
        t.lines += ["  ret void", "}"]
        return "\n".join(t.lines) + "\n"

    def _mask(self, number: int) -> str:
        """Which lanes of a vector are columns of the result."""
        t = self.t
        lanes = "<" + ", ".join(f"i64 {number * t.lanes + lane}" for lane in range(t.lanes)) + ">"
        return t.put(f"icmp slt {t.type('i64')} {lanes}, {t.splat('%left', 'i64')}")

    def _begun(self) -> list[str]:
        """The sums before the first place of the inner axis; the block `start` ends with them."""
        t = self.t
        if not self.tile.in_parts:
            t.line("br label %start")
            t.start("start")
            return ["zeroinitializer"] * len(self.places)
        t.line("br i1 %first, label %start, label %more")
        t.start("more")
        before = [self._load(self._place("%result", *place), place[1]) for place in self.places]
        t.line("br label %start")
        t.start("start")
        return [t.put(f"phi {self.vector} [ zeroinitializer, %entry ], [ {total}, %more ]") for total in before]

    def _loop(self, begun: list[str]) -> list[str]:
        """The sums after all places of the inner axis."""
        t, tile = self.t, self.tile
        place, following, ahead, beyond = (t.name() for _ in range(4))
        sums, later = [t.name() for _ in begun], [""] * len(begun)
        t.line("br label %loop")
        t.start("loop")
        t.line(f"{place} = phi i64 [ 0, %start ], [ {following}, %loop ]")
        t.line(f"{ahead} = phi ptr [ %next, %start ], [ {beyond}, %loop ]")
        head = len(t.lines)  # where the sums begin, which is written when it is known where they come from
        line = self._moved("%panel", t.put(f"mul i64 {place}, {VECTORS * t.lanes}"))
        factors = [
            t.put(f"load {self.vector}, ptr {self._moved(line, number * t.lanes)}, align {4 * t.lanes}")
            for number in range(VECTORS)
        ]
        t.prefetch(ahead, 2)
        column = self._moved("%rows", place)
        for row in range(tile.rows):
            number = t.splat(t.put(f"load float, ptr {self._moved(column, row * tile.stride)}, align 4"), "float")
            for vector, factor in enumerate(factors):
                at = row * VECTORS + vector
                later[at] = t.fma(number, factor, sums[at], "float")
        t.lines[head:head] = [
            f"  {total} = phi {self.vector} [ {first}, %start ], [ {new}, %loop ]"
            for total, first, new in zip(sums, begun, later, strict=True)
        ]
        t.line(f"{beyond} = getelementptr i8, ptr {ahead}, i64 {tile.ahead}")
        t.line(f"{following} = add i64 {place}, 1")
        t.line(f"br i1 {t.put(f'icmp slt i64 {following}, %depth')}, label %loop, label %done")
        t.start("done")
        return later

    def _finished(self, sums: list[str]) -> list[str]:
        """The sums with what is added to them."""
        t, found = self.t, list(sums)
        for number, is_row in enumerate(self.tile.added):
            base = f"%added{number}"
            row = (
                [self._load(self._moved(base, vector * t.lanes), vector) for vector in range(VECTORS)] if is_row else []
            )
            for at, place in enumerate(self.places):
                other = row[place[1]] if is_row else self._load(self._place(base, *place), place[1])
                found[at] = t.two("fadd", found[at], other, "float")
        if self.tile.has_relu:
            found = [extreme(t, "max", value, t.number(0.0, "float"), float32) for value in found]
        return found

    def _store(self, values: list[str]) -> None:
        t = self.t
        for (row, vector), value in zip(self.places, values, strict=True):
            place = self._place("%result", row, vector)
            if self.masks:
                t.masked_store("float", 4, value, place, self.masks[vector])
            else:
                t.line(f"store {self.vector} {value}, ptr {place}, align 4")

    def _load(self, place: str, vector: int) -> str:
        if self.masks:
            return self.t.masked_load("float", 4, place, self.masks[vector])
        return self.t.put(f"load {self.vector}, ptr {place}, align 4")

    def _place(self, base: str, row: int, vector: int) -> str:
        """The place of a vector in what lies as the result does."""
        return self._moved(self._moved(base, self.t.put(f"mul i64 %columns, {row}")), vector * self.t.lanes)

    def _moved(self, pointer: str, count: int | str) -> str:
        return self.t.put(f"getelementptr float, ptr {pointer}, i64 {count}") if count else pointer
