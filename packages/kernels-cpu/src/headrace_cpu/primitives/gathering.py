"""Gathering rows: copies of whole rows by checked indices, written as LLVM code; nothing is fused with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace import Operation
from headrace.types import Array, DType
from headrace_cpu.llvm.text import Text, storage_type
from headrace_cpu.primitives.indices import absent_index, known_below, read_index

__all__ = ["Gather", "gather_call", "is_row"]


@dataclass(frozen=True, slots=True)
class Gather:
    """Copy row `indices[i]` of input 0 to row i of the output.

    Attributes:
      index: dtype of the indices.
      count: how many there are.
      rows: how many rows there are to choose from.
      row_bytes: bytes of a row.
      absent: True if the lowest integer stands for no row, and gives zeros.
      wraps: True if negative indices count from the end.
      scratch: none.
    """

    index: DType
    count: int
    rows: int
    row_bytes: int
    absent: bool = False
    wraps: bool = False
    scratch: tuple[int, ...] = ()

    @property
    def symbol(self) -> str:
        """The name of the function."""
        return f"gather.{storage_type(self.index)}{'.absent' * self.absent}{'.wraps' * self.wraps}"

    def arguments(self, pointers: Sequence[str]) -> str:
        """The rows, the indices, the output, how many there are of each, and the size of a row."""
        given = f"ptr {pointers[0]}, ptr {pointers[1]}, ptr {pointers[-1]}"
        return f"{given}, i64 {self.count}, i64 {self.rows}, i64 {self.row_bytes}"

    def functions(self) -> dict[str, str]:
        """A function that ends at the first index that is out of range: rows after it are not copied."""
        look, copy, clear = Text(), Text(), Text()
        narrow, row = read_index(look, self.index, "%indices", "%i", "%bound", wraps=self.wraps)
        copy.copy_bytes("%target", "%source", "%bytes")
        clear.clear_bytes("%target", "%bytes")
        missing = f"""missing:
  %absent = icmp eq {storage_type(self.index)} {narrow}, {absent_index(self.index)}
  br i1 %absent, label %zeros, label %outside
zeros:
{clear.lines[0]}
  br label %latch
"""
        given = "ptr %data, ptr %indices, ptr %out, i64 %count, i64 %bound, i64 %bytes"
        look_text = "\n".join(look.lines)
        body = f"""define internal i1 @{self.symbol}({given}) {{
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %latch ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
{look_text}
  %fits = icmp ult i64 {row}, %bound
  %to = mul i64 %i, %bytes
  %target = getelementptr i8, ptr %out, i64 %to
  br i1 %fits, label %copy, label %{"missing" if self.absent else "outside"}
copy:
  %from = mul i64 {row}, %bytes
  %source = getelementptr i8, ptr %data, i64 %from
{copy.lines[0]}
  br label %latch
{missing if self.absent else ""}latch:
  %next = add i64 %i, 1
  br label %head
end:
  ret i1 false
outside:
  ret i1 true
}}"""
        return {self.symbol: body} | copy.functions | clear.functions


def is_row(op: Operation, strides: Array | None) -> bool:
    """True if a strided slice, or its gradient, is of the one row of an index that is no constant."""
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask")
    alone = op.inputs[1].shape.num_elements == 1 and op.inputs[1].dtype.name in ("int32", "int64")
    one = strides is not None and strides.reshape(-1).tolist() == [1]
    return alone and one and op.attrs["shrink_axis_mask"] == 1 and not any(op.attrs[mask] for mask in masks)


def gather_call(op: Operation, shapes: Sequence[tuple[int, ...]], known: Array | None) -> Gather | None:
    """The gather of rows that an operation is, or None if it is another kind, or there is nothing to do.

    Args:
      op: the operation.
      shapes: of its inputs, and of the variable where the first one is a handle.
      known: what of its constants matters: the axis, or the strides of a slice.
    """
    if not _gathers_rows(op, shapes, known):
        return None
    whole, indices = shapes[0], op.inputs[1]
    count = indices.shape.num_elements or 0
    is_empty = not whole or 0 in whole or not count
    if is_empty or op.attrs.get("batch_dims") or indices.dtype.name not in ("int32", "int64"):
        return None
    row_bytes = math.prod(whole[1:]) * op.outputs[0].dtype.size
    return Gather(indices.dtype, count, whole[0], row_bytes, op.type == "_GatherRows", op.type == "StridedSlice")


def _gathers_rows(op: Operation, shapes: Sequence[tuple[int, ...]], known: Array | None) -> bool:
    """True if an operation chooses among whole rows, by indices that are checked or that native code can check."""
    if op.type == "GatherV2":
        return known is not None and int(np.asarray(known).reshape(-1)[0]) == 0
    if op.type == "StridedSlice":
        return is_row(op, known)
    if op.type == "_GatherRows":
        return known_below(op.inputs[1], shapes[0][0])
    return op.type == "ResourceGather"
