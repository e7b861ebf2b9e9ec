"""Adding rows up and changing rows of variables by checked indices, written as LLVM code.

Threads share the rows of the result: each goes through all indices and does those that are its own, in order. So
results do not depend on the number of threads, and a row that comes several times is added each time, or stays as the
last one says.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace import Operation
from headrace.types import Array, DType
from headrace_cpu.gathering import is_row, known_below
from headrace_cpu.text import Text, combine, storage_type

__all__ = ["FirstRows", "RangeCheck", "Rows", "rows_call"]

PARTS = 16
"""Pieces of work of a large result: enough to share evenly, and few, since each goes through all indices."""
LARGE = 1 << 19
"""Bytes of rows from which on they are shared out."""
HASH = 0x9E3779B97F4A7C15
"""2**64 over the golden ratio: neighbours get places far from each other (D. Knuth)."""
CHANGES = {"ResourceScatterAdd": "add", "ResourceScatterSub": "sub", "ResourceScatterUpdate": "copy"}
DTYPES = ("float32", "float64", "int32", "int64")


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

    def written(self) -> tuple[str, str, str]:
        """The symbol of a function, its definition, and what it is given beside the integers."""
        element = f"i{8 * self.index.size}"
        symbol = f"hr.outside.{element}" + ".absent" * self.absent + ".negative" * self.negative + ".wraps" * self.wraps
        lowest = -(2 ** (8 * self.index.size - 1))
        skipped = f"icmp eq {element} %narrow, {lowest}" if self.absent else f"icmp slt {element} %narrow, 0"
        body = f"""define internal i1 @{symbol}(ptr %data, i64 %count, i64 %bound) {{
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %body ]
  %seen = phi i1 [ false, %0 ], [ %any, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %place = getelementptr {element}, ptr %data, i64 %i
  %narrow = load {element}, ptr %place
  %value = {"add i64 %narrow, 0" if element == "i64" else f"sext {element} %narrow to i64"}
  %below = icmp slt i64 %value, 0
  %turned = add i64 %value, %bound
  %row = select i1 %below, i64 {"%turned" if self.wraps else "%value"}, i64 %value
  %outside = icmp uge i64 %row, %bound
  %skipped = {skipped if self.absent or self.negative else "or i1 false, false"}
  %wrong = select i1 %skipped, i1 false, i1 %outside
  %any = or i1 %seen, %wrong
  %next = add i64 %i, 1
  br label %head
end:
  ret i1 %seen
}}"""
        return symbol, body, f"i64 {self.count}, i64 {self.bound}"


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
        return f"hr.first.i{8 * self.index.size}.i{8 * self.position.size}"

    def text(self) -> str:
        """A function that gives true if an index was out of range."""
        element, position = f"i{8 * self.index.size}", f"i{8 * self.position.size}"
        lowest = -(2 ** (8 * self.index.size - 1))

        def in_position(register: str, name: str) -> str:
            wide = f"add i64 {register}, 0" if position == "i64" else f"trunc i64 {register} to i32"
            return f"{name} = {wide}"

        return f"""define internal i1 @{self.symbol}(ptr noalias %data, ptr noalias %rows, ptr noalias %first,
    ptr noalias %table, ptr noalias %places, i64 %count, i64 %bound, i64 %shift, i64 %mask) {{
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %latch ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %from = getelementptr {element}, ptr %data, i64 %i
  %narrow = load {element}, ptr %from
  %value = {"add i64 %narrow, 0" if element == "i64" else f"sext {element} %narrow to i64"}
  %fits = icmp ult i64 %value, %bound
  %to = getelementptr {element}, ptr %rows, i64 %i
  %to.first = getelementptr {position}, ptr %first, i64 %i
  %to.place = getelementptr i32, ptr %places, i64 %i
  %mixed = mul i64 %value, {HASH - 2**64}
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
  %same = icmp eq {element} %known, %narrow
  br i1 %same, label %found, label %collides
collides:
  %after = add i64 %s, 1
  %other = and i64 %after, %mask
  br label %probe
found:
  {in_position("%p", "%p.given")}
  store {position} %p.given, ptr %to.first
  store {element} {lowest}, ptr %to
  store i32 -1, ptr %to.place
  br label %latch
insert:
  store i32 %i.short, ptr %entry
  %s.stored = trunc i64 %s to i32
  store i32 %s.stored, ptr %to.place
  {in_position("%i", "%i.given")}
  store {position} %i.given, ptr %to.first
  store {element} %narrow, ptr %to
  br label %latch
latch:
  %next = add i64 %i, 1
  br label %head
end:
  ret i1 false
outside:
  ret i1 true
}}"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are added up to others, or change those of a variable.

    Attributes:
      change: sum, to a result of its own; add, sub or copy, to what there is.
      index: dtype of the indices.
      dtype: of the rows.
      count: how many rows there are.
      rows: how many there are in the result.
      width: elements of a row.
      check: of the indices, where the call makes it itself.
      pointers: which of the memories are the rows, the indices and the result.
    """

    change: str
    index: DType
    dtype: DType
    count: int
    rows: int
    width: int
    check: RangeCheck | None
    pointers: tuple[int, int, int]
    constants: tuple[()] = ()

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes that say which rows of a sum have begun."""
        return (self.rows,) if self.change == "sum" else ()

    @property
    def points(self) -> int:
        """How many pieces of work there are."""
        moved = (self.count + self.rows * (self.change == "sum")) * self.width * self.dtype.size
        return min(PARTS, self.rows) if moved >= LARGE else 1

    @property
    def nanoseconds(self) -> float:
        """A rough estimate of what it takes on one thread."""
        moved = (2 * self.count + self.rows * (self.change == "sum")) * self.width * self.dtype.size
        return 0.1 * moved + 1.0 * self.count * self.points

    def symbol(self, lanes: int) -> str:
        """The name of the function."""
        text = repr((self.change, self.index.name, self.dtype.name, self.count, self.rows, self.width, self.pointers))
        return f"rows_{lanes}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def written(self, lanes: int) -> tuple[str, dict[str, str]]:
        """A function `SYMBOL(args, begin, end)` of pieces of work, and declarations that it needs."""
        writer = _RowsText(self, lanes, Text())
        writer.write()
        head = "define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {"
        return "\n".join([head, *writer.t.lines, "  ret void", "}"]), writer.t.functions


@dataclass(slots=True)
class _RowsText:
    rows: Rows
    lanes: int
    t: Text

    def write(self) -> None:
        t, rows = self.t, self.rows
        source, indices, target = (self._pointer(place) for place in rows.pointers)
        bounds = [
            t.put(f"udiv i64 {t.put(f'mul i64 %{edge}, {rows.rows}')}, {rows.points}") for edge in ("begin", "end")
        ]
        begun = self._pointer(max(rows.pointers) + 1) if rows.scratch else ""
        if begun:
            t.clear_bytes(
                t.put(f"getelementptr i8, ptr {begun}, i64 {bounds[0]}"), t.put(f"sub i64 {bounds[1]}, {bounds[0]}")
            )
        element = f"i{8 * rows.index.size}"

        def one(number: str) -> None:
            narrow = t.put(f"load {element}, ptr {t.put(f'getelementptr {element}, ptr {indices}, i64 {number}')}")
            index = narrow if element == "i64" else t.put(f"sext i32 {narrow} to i64")
            if rows.check is not None and rows.check.wraps:
                below = t.put(f"icmp slt i64 {index}, 0")
                turned = t.put(f"add i64 {index}, {rows.rows}")
                index = t.put(f"select i1 {below}, i64 {turned}, i64 {index}")
            above = t.put(f"icmp sge i64 {index}, {bounds[0]}")
            own = t.put(f"and i1 {above}, {t.put(f'icmp slt i64 {index}, {bounds[1]}')}")
            self._if(own, lambda: self._change(source, number, target, index, begun))

        t.count_up("0", str(rows.count), 1, one)
        if begun:
            t.count_up(bounds[0], bounds[1], 1, lambda row: self._empty(target, row, begun))

    def _pointer(self, place: int) -> str:
        return self.t.put(f"load ptr, ptr {self.t.put(f'getelementptr ptr, ptr %args, i64 {place}')}")

    def _if(self, condition: str, body: Callable[[], None]) -> None:
        t = self.t
        inside, after = t.label("inside"), t.label("after")
        t.line(f"br i1 {condition}, label %{inside}, label %{after}")
        t.start(inside)
        body()
        t.line(f"br label %{after}")
        t.start(after)

    def _row(self, base: str, number: str) -> str:
        t = self.t
        first = t.put(f"mul i64 {number}, {self.rows.width}")
        return t.put(f"getelementptr {storage_type(self.rows.dtype)}, ptr {base}, i64 {first}")

    @property
    def _row_bytes(self) -> int:
        return self.rows.width * self.rows.dtype.size

    def _change(self, source: str, number: str, target: str, index: str, begun: str) -> None:
        t, change = self.t, self.rows.change
        given, kept = self._row(source, number), self._row(target, index)
        if change == "copy":
            t.copy_bytes(kept, given, self._row_bytes)
            return
        if change != "sum":
            self._combine(change, kept, given)
            return
        flag = t.put(f"getelementptr i8, ptr {begun}, i64 {index}")
        seen = t.put(f"icmp ne i8 {t.put(f'load i8, ptr {flag}')}, 0")
        again, first, after = t.label("again"), t.label("first"), t.label("done")
        t.line(f"br i1 {seen}, label %{again}, label %{first}")
        t.start(again)
        self._combine("add", kept, given)
        t.line(f"br label %{after}")
        t.start(first)
        t.line(f"store i8 1, ptr {flag}")
        t.copy_bytes(kept, given, self._row_bytes)
        t.line(f"br label %{after}")
        t.start(after)

    def _combine(self, operator: str, kept: str, given: str) -> None:
        combine(self.t, operator, self.rows.dtype, self.rows.width, self.lanes, kept, (kept, given))

    def _empty(self, target: str, row: str, begun: str) -> None:
        t = self.t
        flag = t.put(f"load i8, ptr {t.put(f'getelementptr i8, ptr {begun}, i64 {row}')}")
        self._if(t.put(f"icmp eq i8 {flag}, 0"), lambda: t.clear_bytes(self._row(target, row), self._row_bytes))


def _of_one_row(op: Operation, row: tuple[int, ...], strides: Array | None) -> Rows | None:
    """The gradient of a row that was taken by an index: zeros elsewhere, the sum of one row."""
    whole, index, dtype = op.outputs[0].shape.as_tuple(), op.inputs[1].dtype, op.outputs[0].dtype
    if not is_row(op, strides) or whole[1:] != row or 0 in whole or dtype.name not in DTYPES:
        return None
    check = RangeCheck(index, 1, whole[0], wraps=True)
    return Rows("sum", index, dtype, 1, whole[0], math.prod(row), check, (4, 1, 5))


def rows_call(op: Operation, shapes: Sequence[tuple[int, ...]], known: Array | None) -> Rows | FirstRows | None:
    """The work on rows that an operation is, or None if it is another kind, or there is nothing to do.

    Args:
      op: the operation.
      shapes: of its inputs, and of the variable where the first one is a handle.
      known: what of its constants matters: the number of segments, or the strides of a slice.
    """
    if any(0 in shape for shape in shapes):
        return None
    if op.type == "_FirstRows":
        return FirstRows(op.inputs[0].dtype, op.outputs[1].dtype, shapes[0][0], op.attrs["bound"])
    if op.type == "StridedSliceGrad":
        return _of_one_row(op, shapes[4], known)
    if op.type == "UnsortedSegmentSum":
        data, ids = shapes[:2]
        index, dtype = op.inputs[1].dtype, op.inputs[0].dtype
        segments = None if known is None or known.ndim else int(known)
        if not segments or dtype.name not in DTYPES or index.name not in ("int32", "int64"):
            return None
        count, width = math.prod(ids), math.prod(data[len(ids) :])
        check = RangeCheck(index, count, segments, negative=True)
        return Rows("sum", index, dtype, count, segments, width, check, (0, 1, 3))
    is_checked = op.type == "_ScatterRows"
    change = op.attrs["how"] if is_checked else CHANGES.get(op.type)
    if change is None or (is_checked and not known_below(op.inputs[1], shapes[0][0])):
        return None
    variable, indices, updates = shapes
    index, dtype = op.inputs[1].dtype, op.inputs[2].dtype
    if updates != (*indices, *variable[1:]) or dtype.name not in DTYPES or not variable:
        return None
    return Rows(change, index, dtype, math.prod(indices), variable[0], math.prod(variable[1:]), None, (2, 1, 0))
