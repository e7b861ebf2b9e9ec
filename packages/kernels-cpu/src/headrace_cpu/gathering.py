"""Gathering rows: copies of whole rows by checked indices, written as LLVM code; nothing is fused with it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headrace import Operation
from headrace.types import Array, DType

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
        return f"gather.i{8 * self.index.size}{'.absent' * self.absent}{'.wraps' * self.wraps}"

    def text(self) -> str:
        """A function that gives true if an index was out of range; rows after it are not copied."""
        element = f"i{8 * self.index.size}"
        widen = "add i64 %narrow, 0" if element == "i64" else f"sext {element} %narrow to i64"
        missing = f"""missing:
  %absent = icmp eq {element} %narrow, {-(2 ** (8 * self.index.size - 1))}
  br i1 %absent, label %zeros, label %outside
zeros:
  call void @llvm.memset.p0.i64(ptr %target, i8 0, i64 %bytes, i1 false)
  br label %latch
"""
        missing = missing if self.absent else ""
        given = "ptr %data, ptr %index, ptr %out, i64 %count, i64 %rows, i64 %bytes"
        return f"""define internal i1 @{self.symbol}({given}) {{
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %latch ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %place = getelementptr {element}, ptr %index, i64 %i
  %narrow = load {element}, ptr %place
  %wide = {widen}
  %negative = icmp slt i64 %wide, 0
  %turned = add i64 %wide, %rows
  %row = select i1 %negative, i64 {"%turned" if self.wraps else "%wide"}, i64 %wide
  %fits = icmp ult i64 %row, %rows
  %to = mul i64 %i, %bytes
  %target = getelementptr i8, ptr %out, i64 %to
  br i1 %fits, label %copy, label %{"missing" if self.absent else "outside"}
copy:
  %from = mul i64 %row, %bytes
  %source = getelementptr i8, ptr %data, i64 %from
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  br label %latch
{missing}latch:
  %next = add i64 %i, 1
  br label %head
end:
  ret i1 false
outside:
  ret i1 true
}}"""


def is_row(op: Operation, strides: Array | None) -> bool:
    """True if a strided slice, or its gradient, is of the one row of an index that is no constant."""
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask")
    alone = op.inputs[1].shape.num_elements == 1 and op.inputs[1].dtype.name in ("int32", "int64")
    one = strides is not None and strides.reshape(-1).tolist() == [1]
    return alone and one and op.attrs["shrink_axis_mask"] == 1 and not any(op.attrs[mask] for mask in masks)


def gather_call(op: Operation, axis: Array | None, shape: tuple[int, ...]) -> Gather | None:
    """The gather of rows that an operation is, or None if it is another kind.

    Args:
      op: the operation.
      axis: the constant axis of GatherV2; the constant strides of StridedSlice.
      shape: of what is gathered from.
    """
    if op.type == "GatherV2":
        if axis is None or int(np.asarray(axis).reshape(-1)[0]) != 0:
            return None
    elif op.type == "StridedSlice":
        if not is_row(op, axis):
            return None
    elif op.type not in ("ResourceGather", "_GatherRows"):
        return None
    indices = op.inputs[1]
    if op.attrs.get("batch_dims") or not shape or indices.dtype.name not in ("int32", "int64") or 0 in shape:
        return None
    size: int = op.outputs[0].dtype.size
    count = indices.shape.num_elements or 0
    if not count:
        return None
    row_bytes = math.prod(shape[1:]) * size
    return Gather(indices.dtype, count, shape[0], row_bytes, op.type == "_GatherRows", op.type == "StridedSlice")
