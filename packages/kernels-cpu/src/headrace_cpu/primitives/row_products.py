"""What the two ways of multiplying few rows by a matrix have in common, written as LLVM code."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.types import float32
from headrace_cpu.llvm.text import Text
from headrace_cpu.loops.scalars import extreme

__all__ = ["RowProducts"]

TOGETHER = 4
"""Rows of results at a time: what they need of the first factor, or their sums, fits in registers."""


@dataclass(slots=True)
class RowProducts:
    """Writes the function. Mutable.

    Attributes:
      tile: columns that are one piece of work.
      rows, inner, columns: sizes.
      added: of each thing that is added to the result whether it is a row, for all rows, or as large as the result.
      has_relu: what is negative then becomes 0.
      lanes: elements of a vector.
      t: what is written.
      pointers: registers of the pointers to the factors, the result and what is added.
    """

    tile: ClassVar[int]

    rows: int
    inner: int
    columns: int
    added: tuple[bool, ...]
    has_relu: bool
    lanes: int
    t: Text = field(default_factory=Text)
    pointers: list[str] = field(default_factory=list)

    def write(self) -> None:
        """Write `SYMBOL(args, begin, end)` of tiles of columns."""
        t = self.t
        t.lines.append("define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {")
        self.pointers = [t.argument(number) for number in range(3 + len(self.added))]
        self._reserve()
        t.count_up("%begin", "%end", 1, self._tile)
        t.line("ret void")
        t.lines.append("}")

    @abstractmethod
    def _reserve(self) -> None:
        """Take room on the stack."""

    @abstractmethod
    def _tile(self, number: str) -> None:
        """Write a tile of all rows."""

    def _in_groups(self, body: Callable[[str, int], None]) -> None:
        """Do something for some rows of results at a time: from which one on, and for how many."""
        whole = self.rows // TOGETHER * TOGETHER
        if whole:
            self.t.count_up("0", str(whole), TOGETHER, lambda first: body(first, TOGETHER))
        if whole < self.rows:
            body(str(whole), self.rows - whole)

    def _finished(self, value: str) -> str:
        """A result to which all is added, as it is written."""
        return extreme(self.t, "max", value, self.t.number(0.0, "float"), float32) if self.has_relu else value

    def _next_to(self, first: str, count: int) -> list[str]:
        """So many numbers one after the other."""
        return [self._moved(first, place) for place in range(count)]

    def _moved(self, number: str, count: int) -> str:
        return self.t.put(f"add i64 {number}, {count}")

    def _place(self, pointer: str, row: str, size: int, column: str) -> str:
        """The place of a column in a row of so many."""
        offset = self.t.put(f"add i64 {self.t.put(f'mul i64 {row}, {size}')}, {column}")
        return self.t.put(f"getelementptr float, ptr {pointer}, i64 {offset}")
