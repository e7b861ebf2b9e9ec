"""Reductions: accumulators of a region, kept as vectors on the stack, and what is done with them.

Sums of floats are carried in float64. Lanes are combined by halves, so the order depends on the region alone. The
extreme of two floats is one instruction where it may forget NaN: of a long row the largest bits without sign are kept
beside the extreme, and tell at its end whether there was one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.loops.ir import Accumulate
from headrace.types import DType, float32, float64
from headrace_cpu.llvm.text import Text, as_float, compute_type, from_float
from headrace_cpu.loops.scalars import extreme

__all__ = ["Accumulator", "start_accumulator"]


@dataclass(slots=True)
class Accumulator:
    """A reduction under way.

    Attributes:
      item: what is reduced, and how.
      slot: where its vector or vectors are kept.
      element: the type in which it is carried.
      dtype: of what is reduced.
      marks: where the largest bits are kept, if extremes are to forget NaN.
    """

    item: Accumulate
    slot: str
    element: str
    dtype: DType
    marks: str | None = None

    @property
    def _bits(self) -> str:
        return "i64" if self.element == "double" else "i32"

    def reserved(self, size: int) -> list[str]:
        """The room on the stack for so many elements, a whole number of vectors."""
        rooms = [(self.slot, self.element)] + ([(self.marks, self._bits)] if self.marks else [])
        return [f"  {slot} = alloca [{size} x {element}], align 64" for slot, element in rooms]

    def reset(self, t: Text) -> None:
        """Begin anew."""
        t.line(f"store {t.type(self.element)} {self.neutral(t)}, ptr {self.slot}")
        if self.marks:
            t.line(f"store {t.type(self._bits)} {t.number(0, self._bits)}, ptr {self.marks}")

    def add(self, t: Text, value: str) -> None:
        """Combine a value, as wide as it is carried, with what there is."""
        whole = t.type(self.element)
        old = t.put(f"load {whole}, ptr {self.slot}")
        if self.marks is None:
            t.line(f"store {whole} {self.combined(t, old, value)}, ptr {self.slot}")
            return
        t.line(f"store {whole} {self._beyond(t, old, value)}, ptr {self.slot}")
        bits, integers = self._bits, t.type(self._bits)
        size = t.convert("bitcast", t.call("fabs", self.element, value), self.element, bits)
        largest = t.call("smax", bits, t.put(f"load {integers}, ptr {self.marks}"), size)
        t.line(f"store {integers} {largest}, ptr {self.marks}")

    def add_product(self, t: Text, a: str, b: str) -> None:
        """Add a product of float64 to a sum, rounded once."""
        whole = t.type(self.element)
        old = t.put(f"load {whole}, ptr {self.slot}")
        t.line(f"store {whole} {t.fma(a, b, old, self.element)}, ptr {self.slot}")

    def _beyond(self, t: Text, a: str, b: str) -> str:
        """The extreme of two floats; the second one if there is NaN."""
        relation = "ogt" if self.item.op == "max" else "olt"
        return t.select(t.put(f"fcmp {relation} {t.type(self.element)} {a}, {b}"), a, b, self.element)

    def neutral(self, t: Text) -> str:
        """What it starts with, in every lane."""
        dtype, op = self.dtype, self.item.op
        if op in ("sum", "any"):
            return t.number(-0.0 if dtype.is_floating else 0, self.element)
        if op in ("prod", "all"):
            return t.number(1, self.element)
        if dtype.is_floating:
            return t.number(-math.inf if op == "max" else math.inf, self.element)
        bits = 8 * dtype.size
        low = 0 if dtype.kind == "uint" else -(2 ** (bits - 1))
        return t.number(low if op == "max" else low + 2**bits - 1, self.element)

    def combined(self, t: Text, a: str, b: str) -> str:
        """Two parts as one."""
        op = self.item.op
        if op in ("sum", "prod"):
            instruction = {"sum": "add", "prod": "mul"}[op]
            return t.two(f"f{instruction}" if self.dtype.is_floating else instruction, a, b, self.element)
        if op in ("any", "all"):
            return t.two("or" if op == "any" else "and", a, b, "i1")
        return extreme(t, op, a, b, {"float": float32, "double": float64}.get(self.element, self.dtype))

    def widened(self, t: Text, value: str) -> str:
        """A value in the type in which it is carried."""
        if not self.dtype.is_floating:
            return value
        value, element = as_float(t, value, self.dtype)
        return value if element == self.element else t.convert("fpext", value, element, "double")

    def narrowed(self, t: Text, value: str) -> str:
        """The content in the dtype of what is reduced."""
        if not self.dtype.is_floating:
            return value
        if self.element == "double" and self.dtype.name != "float64":
            value = t.convert("fptrunc", value, "double", "float")
        return from_float(t, value, self.dtype)

    def total(self, t: Text, lanes: int) -> str:
        """The lanes combined by halves, as a scalar of the dtype of what is reduced."""
        bits, combined = self._bits, self._beyond if self.marks else self.combined
        t.lanes = lanes
        held = t.put(f"load {t.type(self.element)}, ptr {self.slot}")
        value = t.halved(held, self.element, lambda a, b: combined(t, a, b))
        if self.marks:
            t.lanes = lanes
            marks = t.put(f"load {t.type(bits)}, ptr {self.marks}")
            largest = t.halved(marks, bits, lambda a, b: t.call("smax", bits, a, b))
            unordered = t.put(f"icmp sgt {bits} {largest}, {INFINITE[bits]}")
            value = t.select(unordered, t.convert("bitcast", largest, bits, self.element), value, self.element)
        return self.narrowed(t, value)


INFINITE = {"i32": 0x7F800000, "i64": 0x7FF0 << 48}
"""The bits of infinity: above them is NaN."""


def start_accumulator(t: Text, item: Accumulate, *, marked: bool) -> Accumulator:
    """An accumulator for a reduction, for which there is no room yet.

    Args:
      t: what is written to.
      item: what is reduced, and how.
      marked: extremes are to forget NaN: one after the other takes less time, and each more room.
    """
    dtype = item.value.dtype
    if not dtype.is_floating:
        return Accumulator(item, t.name(), compute_type(dtype), dtype)
    element = "double" if item.op == "sum" or dtype.name == "float64" else "float"
    is_extreme = item.op in ("max", "min")
    return Accumulator(item, t.name(), element, dtype, t.name() if marked and is_extreme else None)
