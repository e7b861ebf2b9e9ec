"""Indices: how native code reads the integers that choose rows, checks them, and finds where each comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace import Tensor
from headrace.types import DType
from headrace_cpu.llvm.text import Text, storage_type

__all__ = ["FirstRows", "IndexCall", "RangeCheck", "absent_index", "known_below", "read_index"]

HASH = 0x9E3779B97F4A7C15
"""2**64 over the golden ratio: neighbours get places far from each other (D. Knuth)."""


class IndexCall(Protocol):
    """A call of a function that goes through indices, and gives true if it meets one that is out of range."""

    @property
    def symbol(self) -> str:
        """The name of the function."""

    def functions(self) -> dict[str, str]:
        """Its definition, and the declarations that it needs, by name."""

    def arguments(self, pointers: Sequence[str]) -> str:
        """What it is given: some of the memories of its unit, and numbers."""


def read_index(t: Text, dtype: DType, indices: str, number: str, bound: str, *, wraps: bool) -> tuple[str, str]:
    """Read the index at a position: as it lies in memory, and as the number of a row.

    Args:
      t: the function.
      dtype: of the indices.
      indices: their pointer.
      number: the position.
      bound: how many rows there are.
      wraps: whether negative indices count from there.
    """
    element = storage_type(dtype)
    narrow = t.put(f"load {element}, ptr {t.put(f'getelementptr {element}, ptr {indices}, i64 {number}')}")
    row = narrow if element == "i64" else t.put(f"sext {element} {narrow} to i64")
    if wraps:
        below = t.put(f"icmp slt i64 {row}, 0")
        turned = t.put(f"add i64 {row}, {bound}")
        row = t.put(f"select i1 {below}, i64 {turned}, i64 {row}")
    return narrow, row


def absent_index(dtype: DType) -> int:
    """The index that stands for no row: the lowest integer."""
    lowest: int = -(2 ** (8 * dtype.size - 1))
    return lowest


def known_below(indices: Tensor, bound: int) -> bool:
    """True if whoever made the indices has checked that none reaches a bound."""
    return indices.op.type == "_FirstRows" and indices.op.attrs["bound"] <= bound


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """Fail unless all integers of the one input are in `[0, bound)` or, where some may be absent, the lowest integer.

    Attributes:
      index: their dtype.
      count: how many there are.
      bound: what they must be below.
      absent: True if the lowest integer stands for no index.
      negative: True if every negative integer does.
      wraps: True if negative integers count from the bound.
      scratch: none.
    """

    index: DType
    count: int
    bound: int
    absent: bool = False
    negative: bool = False
    wraps: bool = False
    scratch: tuple[int, ...] = ()

    @property
    def symbol(self) -> str:
        """The name of the function."""
        kind = ".absent" * self.absent + ".negative" * self.negative + ".wraps" * self.wraps
        return f"hr.outside.{storage_type(self.index)}{kind}"

    def arguments(self, pointers: Sequence[str]) -> str:
        """The integers, how many there are, and the bound."""
        return f"ptr {pointers[0]}, i64 {self.count}, i64 {self.bound}"

    def functions(self) -> dict[str, str]:
        """A function that looks at all integers before it answers: there is most often nothing to find."""
        t, element = Text(), storage_type(self.index)
        narrow, row = read_index(t, self.index, "%data", "%i", "%bound", wraps=self.wraps)
        wrong = t.put(f"icmp uge i64 {row}, %bound")
        if self.absent or self.negative:
            test = f"eq {element} {narrow}, {absent_index(self.index)}" if self.absent else f"slt {element} {narrow}, 0"
            wrong = t.put(f"select i1 {t.put(f'icmp {test}')}, i1 false, i1 {wrong}")
        look = "\n".join(t.lines)
        body = f"""define internal i1 @{self.symbol}(ptr %data, i64 %count, i64 %bound) {{
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %body ]
  %seen = phi i1 [ false, %0 ], [ %any, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
{look}
  %any = or i1 %seen, {wrong}
  %next = add i64 %i, 1
  br label %head
end:
  ret i1 %seen
}}"""
        return {self.symbol: body}


@dataclass(frozen=True, slots=True)
class FirstRows:
    """For each index of input 0: the index if it stands there for the first time, and the position where it does.

    A hash table holds positions. It need not be cleared: an entry counts only if the position lies before the one at
    hand and says of itself that it is in that place.

    Attributes:
      index: dtype of the indices.
      position: dtype of the positions.
      count: how many indices there are.
      bound: what they must be below.
    """

    index: DType
    position: DType
    count: int
    bound: int

    @property
    def bits(self) -> int:
        """The logarithm to base 2 of the size of the table."""
        return max(4, (2 * self.count - 1).bit_length())

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of the table, and of the places of the positions in it."""
        return 4 << self.bits, 4 * self.count

    @property
    def symbol(self) -> str:
        """The name of the function."""
        return f"hr.first.{storage_type(self.index)}.{storage_type(self.position)}"

    def arguments(self, pointers: Sequence[str]) -> str:
        """All memories, how many indices there are, the bound, and how a number becomes a place of the table."""
        given = ", ".join(f"ptr {pointer}" for pointer in pointers)
        return f"{given}, i64 {self.count}, i64 {self.bound}, i64 {64 - self.bits}, i64 {(1 << self.bits) - 1}"

    def functions(self) -> dict[str, str]:
        """A function that ends at the first index that is out of range."""
        t, element, position = Text(), storage_type(self.index), storage_type(self.position)
        narrow, row = read_index(t, self.index, "%data", "%i", "%bound", wraps=False)
        look = "\n".join(t.lines)

        def in_position(register: str, name: str) -> str:
            wide = f"add i64 {register}, 0" if position == "i64" else f"trunc i64 {register} to i32"
            return f"{name} = {wide}"

        body = f"""define internal i1 @{self.symbol}(ptr noalias %data, ptr noalias %rows, ptr noalias %first,
    ptr noalias %table, ptr noalias %places, i64 %count, i64 %bound, i64 %shift, i64 %mask) {{
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %latch ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
{look}
  %fits = icmp ult i64 {row}, %bound
  %to = getelementptr {element}, ptr %rows, i64 %i
  %to.first = getelementptr {position}, ptr %first, i64 %i
  %to.place = getelementptr i32, ptr %places, i64 %i
  %mixed = mul i64 {row}, {HASH - 2**64}
  %start = lshr i64 %mixed, %shift
  %i.short = trunc i64 %i to i32
  br i1 %fits, label %probe, label %outside
probe:
  %s = phi i64 [ %start, %body ], [ %other, %collides ]
  %entry = getelementptr i32, ptr %table, i64 %s
  %p.short = load i32, ptr %entry
  %earlier = icmp ult i32 %p.short, %i.short
  br i1 %earlier, label %claims, label %insert
claims:
  %p = zext i32 %p.short to i64
  %claimed = getelementptr i32, ptr %places, i64 %p
  %place = load i32, ptr %claimed
  %s.short = trunc i64 %s to i32
  %holds = icmp eq i32 %place, %s.short
  br i1 %holds, label %compare, label %insert
compare:
  %before = getelementptr {element}, ptr %data, i64 %p
  %known = load {element}, ptr %before
  %same = icmp eq {element} %known, {narrow}
  br i1 %same, label %found, label %collides
collides:
  %after = add i64 %s, 1
  %other = and i64 %after, %mask
  br label %probe
found:
  {in_position("%p", "%p.given")}
  store {position} %p.given, ptr %to.first
  store {element} {absent_index(self.index)}, ptr %to
  store i32 -1, ptr %to.place
  br label %latch
insert:
  store i32 %i.short, ptr %entry
  %s.stored = trunc i64 %s to i32
  store i32 %s.stored, ptr %to.place
  {in_position("%i", "%i.given")}
  store {position} %i.given, ptr %to.first
  store {element} {narrow}, ptr %to
  br label %latch
latch:
  %next = add i64 %i, 1
  br label %head
end:
  ret i1 false
outside:
  ret i1 true
}}"""
        return {self.symbol: body}
