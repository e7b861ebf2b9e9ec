"""Adding rows up and changing rows of variables by checked indices, written as LLVM code.

Threads share the rows of the result: each goes through all indices and does those that are its own, in order. So
results do not depend on the number of threads, and a row that comes several times is added each time, or stays as the
last one says.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace import Operation
from headrace.types import Array, DType
from headrace_cpu.llvm.text import Text, combine, storage_type
from headrace_cpu.primitives.gathering import is_row
from headrace_cpu.primitives.indices import FirstRows, RangeCheck, known_below, read_index

__all__ = ["Rows", "rows_call"]

PARTS = 16
"""Pieces of work of a large result: enough to share evenly, and few, since each goes through all indices."""
LARGE = 1 << 19
"""Bytes of rows from which on they are shared out."""
CHANGES = {"ResourceScatterAdd": "add", "ResourceScatterSub": "sub", "ResourceScatterUpdate": "copy"}
DTYPES = ("float32", "float64", "int32", "int64")


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
        writer = _RowsWriter(self, lanes)
        writer.write()
        head = "define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {"
        return "\n".join([head, *writer.t.lines, "  ret void", "}"]), writer.t.functions


class _RowsWriter:
    """Writes the function of some rows. Mutable.

    Attributes:
      t: the function.
      source, indices, target: the pointers of the rows, the indices and the result.
      first, end: which rows of the result are those of this piece of work.
      begun: the pointer of bytes that say which rows of a sum have begun, or "".
    """

    def __init__(self, rows: Rows, lanes: int) -> None:
        self.rows, self.lanes, self.t = rows, lanes, Text()
        self.source, self.indices, self.target = map(self.t.argument, rows.pointers)
        self.first, self.end = (self._edge(edge) for edge in ("%begin", "%end"))
        self.begun = self.t.argument(max(rows.pointers) + 1) if rows.scratch else ""

    def write(self) -> None:
        """Write it all."""
        t = self.t
        if self.begun:
            start = t.put(f"getelementptr i8, ptr {self.begun}, i64 {self.first}")
            t.clear_bytes(start, t.put(f"sub i64 {self.end}, {self.first}"))
        t.count_up("0", str(self.rows.count), 1, self._take)
        if self.begun:
            t.count_up(self.first, self.end, 1, self._clear_unless_begun)

    def _edge(self, point: str) -> str:
        """The row of the result with which a piece of work begins."""
        return self.t.put(f"udiv i64 {self.t.put(f'mul i64 {point}, {self.rows.rows}')}, {self.rows.points}")

    def _take(self, number: str) -> None:
        """Do with a row what its index says, if that is of this piece of work."""
        t, rows = self.t, self.rows
        wraps = rows.check is not None and rows.check.wraps
        _, index = read_index(t, rows.index, self.indices, number, str(rows.rows), wraps=wraps)
        above = t.put(f"icmp sge i64 {index}, {self.first}")
        is_own = t.put(f"and i1 {above}, {t.put(f'icmp slt i64 {index}, {self.end}')}")
        t.when(is_own, lambda: self._change(self._row(self.source, number), self._row(self.target, index), index))

    def _change(self, given: str, kept: str, index: str) -> None:
        if self.rows.change == "copy":
            self.t.copy_bytes(kept, given, self._row_bytes)
        elif self.rows.change == "sum":
            self._begin_or_add(given, kept, index)
        else:
            self._combine(self.rows.change, kept, given)

    def _begin_or_add(self, given: str, kept: str, index: str) -> None:
        """The first row of a sum is copied, so that nothing has to be there before and -0.0 stays what it is."""
        t = self.t
        flag = t.put(f"getelementptr i8, ptr {self.begun}, i64 {index}")
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

    def _clear_unless_begun(self, row: str) -> None:
        t = self.t
        flag = t.put(f"load i8, ptr {t.put(f'getelementptr i8, ptr {self.begun}, i64 {row}')}")
        t.when(t.put(f"icmp eq i8 {flag}, 0"), lambda: t.clear_bytes(self._row(self.target, row), self._row_bytes))

    def _row(self, base: str, number: str) -> str:
        t = self.t
        first = t.put(f"mul i64 {number}, {self.rows.width}")
        return t.put(f"getelementptr {storage_type(self.rows.dtype)}, ptr {base}, i64 {first}")

    @property
    def _row_bytes(self) -> int:
        return self.rows.width * self.rows.dtype.size


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
        return _sum_of_one(op, shapes[4], known)
    if op.type == "UnsortedSegmentSum":
        return _sum_of_segments(op, shapes, known)
    return _change_of_variable(op, shapes)


def _sum_of_one(op: Operation, row: tuple[int, ...], strides: Array | None) -> Rows | None:
    """The gradient of a row that was taken by an index: zeros elsewhere, the sum of one row."""
    whole, index, dtype = op.outputs[0].shape.as_tuple(), op.inputs[1].dtype, op.outputs[0].dtype
    if not is_row(op, strides) or whole[1:] != row or 0 in whole or dtype.name not in DTYPES:
        return None
    check = RangeCheck(index, 1, whole[0], wraps=True)
    return Rows("sum", index, dtype, 1, whole[0], math.prod(row), check, (4, 1, 5))


def _sum_of_segments(op: Operation, shapes: Sequence[tuple[int, ...]], known: Array | None) -> Rows | None:
    """Sums of the rows of a known number of segments."""
    data, ids = shapes[:2]
    index, dtype = op.inputs[1].dtype, op.inputs[0].dtype
    segments = None if known is None or known.ndim else int(known)
    if not segments or dtype.name not in DTYPES or index.name not in ("int32", "int64"):
        return None
    count, width = math.prod(ids), math.prod(data[len(ids) :])
    check = RangeCheck(index, count, segments, negative=True)
    return Rows("sum", index, dtype, count, segments, width, check, (0, 1, 3))


def _change_of_variable(op: Operation, shapes: Sequence[tuple[int, ...]]) -> Rows | None:
    """The change of some rows of a variable, whose indices are checked before it is locked."""
    is_checked = op.type == "_ScatterRows"
    change = op.attrs["how"] if is_checked else CHANGES.get(op.type)
    if change is None or (is_checked and not known_below(op.inputs[1], shapes[0][0])):
        return None
    variable, indices, updates = shapes
    index, dtype = op.inputs[1].dtype, op.inputs[2].dtype
    if updates != (*indices, *variable[1:]) or dtype.name not in DTYPES or not variable:
        return None
    return Rows(change, index, dtype, math.prod(indices), variable[0], math.prod(variable[1:]), None, (2, 1, 0))
