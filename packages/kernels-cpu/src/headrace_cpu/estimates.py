"""Estimates: what units may take, so that threads are woken where that pays and a long driver pauses now and then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from headrace.loops.ir import Region
from headrace_cpu.gathering import Gather
from headrace_cpu.layout import Unit
from headrace_cpu.lists import ListOp
from headrace_cpu.scattering import FirstRows, RangeCheck

__all__ = ["SERIAL_NANOSECONDS", "contains_blocks", "estimate", "shared_nanoseconds", "shared_points"]

SERIAL_NANOSECONDS = 15_000
"""Work below which waking other threads costs more than it saves."""
COSTLY = frozenset(
    {"cos", "div", "erf", "exp", "expm1", "log", "log1p", "philox", "pow", "rsqrt", "sigmoid", "sin", "sqrt", "tanh"}
)


def contains_blocks(unit: Unit) -> bool:
    """True for a loop or branch."""
    return hasattr(unit.call, "layouts")


def shared_points(unit: Unit) -> int:
    """How many parts the work of a unit has that threads share (`Unit.is_shared`)."""
    return math.prod(unit.region.outer) if unit.region is not None else int(unit.call.points)


def shared_nanoseconds(unit: Unit) -> float:
    """What a unit that threads share takes on one of them."""
    return _nanoseconds(unit.region) if unit.region is not None else float(unit.call.nanoseconds)


def estimate(units: Sequence[Unit], size_of: Callable[[Any], int]) -> int:
    """Nanoseconds that some units may take, loops inside left out: these count for themselves.

    Args:
      units: the units.
      size_of: gives the bytes of a memory.
    """
    total = 5.0
    for unit in units:
        if unit.is_shared:
            total += shared_nanoseconds(unit)
        elif contains_blocks(unit):
            total += 5.0
        elif isinstance(unit.call, (FirstRows, Gather, ListOp, RangeCheck)):
            total += 5.0 + 0.2 * sum(map(size_of, unit.keys))
        else:  # a product of square matrices of that many bytes takes no longer, and few things take more
            total += 100.0 + 0.001 * sum(map(size_of, unit.keys)) ** 1.5
    return math.ceil(total)


def _nanoseconds(region: Region) -> float:
    """A rough estimate of what a region takes on one thread, by the instructions of one vector and its bytes."""
    total = 0.0
    points = math.prod(region.outer)
    for loop in region.loops:
        seen: set[int] = set()
        stack = [item.value for item in loop.accumulates] + [store.value for store in (*loop.stores, *loop.after)]
        cost = 0.0
        while stack:
            expr = stack.pop()
            if id(expr) not in seen:
                seen.add(id(expr))
                stack.extend(expr.args)
                cost += 1.0 if expr.op in COSTLY else 0.15 if expr.op == "load" else 0.03
        total += points * math.prod(axis.extent for axis in loop.axes) * (cost + 0.15 * len(loop.stores))
    return total
