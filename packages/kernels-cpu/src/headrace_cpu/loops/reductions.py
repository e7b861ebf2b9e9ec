"""Reductions: accumulators of a region, kept as vectors on the stack, and what is done with them.

Sums of floats are carried in float64. Lanes are combined by halves, so the order depends on the region alone. The
extreme of two floats is one instruction where it may forget NaN: of a long row it is kept beside the extreme in which
lanes there was none.
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
      width: elements that it keeps; what is added may have fewer, or more, of which halves are combined first.
    """

    item: Accumulate
    slot: str
    element: str
    dtype: DType
    width: int

    def reserved(self) -> list[str]:
        """The room on the stack."""
        return [_room(self.slot, self.width, self.element)]

    def reset(self, t: Text) -> None:
        """Begin anew."""
        lanes, t.lanes = t.lanes, self.width
        _put(t, self.neutral(t), self.element, self.slot)
        t.lanes = lanes

    def add(self, t: Text, value: str) -> None:
        """Combine a value, as wide as it is carried, with what there is."""
        lanes = t.lanes
        value = t.halved(value, self.element, lambda a, b: self._combined(t, a, b), self.width)
        _put(t, self._combined(t, _kept(t, self.element, self.slot), value), self.element, self.slot)
        t.lanes = lanes

    def add_product(self, t: Text, a: str, b: str) -> None:
        """Add a product of float64 to a sum, rounded once."""
        _put(t, t.fma(a, b, _kept(t, self.element, self.slot), self.element), self.element, self.slot)

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

    def _combined(self, t: Text, a: str, b: str) -> str:
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

    def total(self, t: Text) -> str:
        """The lanes combined by halves, as a scalar of the dtype of what is reduced."""
        t.lanes = self.width
        held = _kept(t, self.element, self.slot)
        return self.narrowed(t, t.halved(held, self.element, lambda a, b: self._combined(t, a, b)))


@dataclass(slots=True)
class MarkedExtreme(Accumulator):
    """The extreme of floats that forgets NaN.

    Attributes:
      ordered: where it is kept for each lane that there was none.
    """

    ordered: str

    def reserved(self) -> list[str]:
        """Room for the marks too."""
        return [_room(self.slot, self.width, self.element), f"  {self.ordered} = alloca <{self.width} x i1>, align 64"]

    def reset(self, t: Text) -> None:
        """Begin anew."""
        lanes, t.lanes = t.lanes, self.width
        _put(t, self.neutral(t), self.element, self.slot)
        _put(t, t.number(1, "i1"), "i1", self.ordered)
        t.lanes = lanes

    def add(self, t: Text, value: str) -> None:
        """Combine a value with what there is, and note where it is NaN: of two registers in one comparison."""
        lanes = t.lanes
        halves = [value, value]
        if lanes > self.width:
            halves = [t.lanes_of(value, self.element, first, lanes // 2) for first in (0, lanes // 2)]
            t.lanes = lanes // 2
        ordered = t.put(f"fcmp ord {t.type(self.element)} {', '.join(halves)}")
        ordered = t.halved(ordered, "i1", lambda a, b: t.two("and", a, b, "i1"), self.width)
        _put(t, t.two("and", _kept(t, "i1", self.ordered), ordered, "i1"), "i1", self.ordered)
        t.lanes = lanes
        value = t.halved(value, self.element, lambda a, b: self._combined(t, a, b), self.width)
        _put(t, self._combined(t, _kept(t, self.element, self.slot), value), self.element, self.slot)
        t.lanes = lanes

    def _combined(self, t: Text, a: str, b: str) -> str:
        """The extreme of two floats; the second one if there is NaN."""
        relation = "ogt" if self.item.op == "max" else "olt"
        return t.select(t.put(f"fcmp {relation} {t.type(self.element)} {a}, {b}"), a, b, self.element)

    def total(self, t: Text) -> str:
        """The extreme of all lanes, or NaN where the marks tell of one."""
        t.lanes = self.width
        marks = t.put(f"bitcast {t.type('i1')} {_kept(t, 'i1', self.ordered)} to i{self.width}")
        held = _kept(t, self.element, self.slot)
        value = t.halved(held, self.element, lambda a, b: self._combined(t, a, b))
        is_ordered = t.put(f"icmp eq i{self.width} {marks}, -1")
        return self.narrowed(t, t.select(is_ordered, value, t.number(math.nan, self.element), self.element))


def _room(slot: str, size: int, element: str) -> str:
    return f"  {slot} = alloca [{size} x {element}], align 64"


def _kept(t: Text, element: str, slot: str) -> str:
    return t.put(f"load {t.type(element)}, ptr {slot}")


def _put(t: Text, value: str, element: str, slot: str) -> None:
    t.line(f"store {t.type(element)} {value}, ptr {slot}")


def start_accumulator(t: Text, item: Accumulate, width: int, *, of_row: bool) -> Accumulator:
    """An accumulator for a reduction, for which there is no room yet.

    Args:
      t: what is written to.
      item: what is reduced, and how.
      width: elements to keep.
      of_row: it is for one row, where something may be kept beside it: that takes less time, and room.
    """
    dtype = item.value.dtype
    if not dtype.is_floating:
        return Accumulator(item, t.name(), compute_type(dtype), dtype, width)
    element = "double" if item.op == "sum" or dtype.name == "float64" else "float"
    if of_row and item.op in ("max", "min"):
        return MarkedExtreme(item, t.name(), element, dtype, width, t.name())
    return Accumulator(item, t.name(), element, dtype, width)
