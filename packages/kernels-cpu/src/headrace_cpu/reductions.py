"""Reductions: accumulators of a region, kept as vectors on the stack, and what is done with them.

Sums of floats are carried in float64. Lanes are combined by halves, so the order depends on the region alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.loops.ir import Accumulate
from headrace.types import DType, bfloat16
from headrace_cpu.scalars import extreme
from headrace_cpu.text import Text, as_float, compute_type, from_float

__all__ = ["Accumulator", "start_accumulator"]


@dataclass(slots=True)
class Accumulator:
    """A reduction under way.

    Attributes:
      item: what is reduced, and how.
      slot: where its vector or vectors are kept.
      element: the type in which it is carried.
      dtype: of what is reduced.
    """

    item: Accumulate
    slot: str
    element: str
    dtype: DType

    def neutral(self, t: Text) -> str:
        """What it starts with, in every lane."""
        dtype, op = self.dtype, self.item.op
        if op in ("sum", "any"):
            return t.number(-0.0 if dtype.is_floating else 0, self.element)
        if op in ("prod", "all"):
            return t.number(1, self.element)
        if dtype.is_floating:
            if dtype is bfloat16:
                return t.number(0xFF80 if op == "max" else 0x7F80, "i16")
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
        return extreme(t, op, a, b, self.dtype)

    def widened(self, t: Text, value: str) -> str:
        """A value in the type in which it is carried."""
        if not self.dtype.is_floating or self.item.op in ("max", "min"):
            return value
        value, element = as_float(t, value, self.dtype)
        return value if element == self.element else t.convert("fpext", value, element, "double")

    def narrowed(self, t: Text, value: str) -> str:
        """The content in the dtype of what is reduced."""
        if not self.dtype.is_floating or self.item.op in ("max", "min"):
            return value
        if self.element == "double" and self.dtype.name != "float64":
            value = t.convert("fptrunc", value, "double", "float")
        return from_float(t, value, self.dtype)

    def total(self, t: Text, lanes: int) -> str:
        """The lanes combined by halves, as a scalar of the dtype of what is reduced."""
        element = self.element
        value = t.put(f"load <{lanes} x {element}>, ptr {self.slot}")
        while lanes > 1:
            whole, half = f"<{lanes} x {element}>", lanes // 2
            halves = []
            for start in (0, half):
                picked = ", ".join(f"i32 {start + lane}" for lane in range(half))
                halves.append(t.put(f"shufflevector {whole} {value}, {whole} poison, <{half} x i32> <{picked}>"))
            t.lanes = lanes = half
            if half == 1:
                halves = [t.put(f"extractelement <1 x {element}> {item}, i64 0") for item in halves]
            value = self.combined(t, *halves)
        t.lanes = 1
        return self.narrowed(t, value)


def start_accumulator(item: Accumulate, slot: str) -> Accumulator:
    """An accumulator for a reduction, kept in a slot."""
    dtype = item.value.dtype
    if item.op == "sum" and dtype.is_floating:
        element = "double"
    elif item.op == "prod" and dtype.is_floating:
        element = "double" if dtype.name == "float64" else "float"
    else:
        element = compute_type(dtype)
    return Accumulator(item, slot, element, dtype)
