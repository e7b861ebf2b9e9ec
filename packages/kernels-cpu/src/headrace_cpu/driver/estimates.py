"""Estimates: what units may take, so that threads are woken where that pays and a long driver pauses now and then."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from headrace.loops.ir import Loop, Region, in_order
from headrace_cpu.layout import Unit
from headrace_cpu.loops.printer import KEPT_REGIONS
from headrace_cpu.primitives.gathering import Gather
from headrace_cpu.primitives.indices import FirstRows, RangeCheck
from headrace_cpu.scheduling.lists import ListOp

__all__ = ["SERIAL_NANOSECONDS", "contains_blocks", "estimate", "shared_nanoseconds", "shared_points"]

SERIAL_NANOSECONDS = 8_000
"""Work from which on waking other threads pays, though that takes 5 us where they sleep: each then also finds in its
own cache what it has written. With 20 us a step of mlp takes 7 % longer, ResNet-50 2 %."""
LANES = 16
"""Elements of the vector whose costs these are; others differ less than memory does."""
VECTOR_NANOSECONDS = {
    "cos": 6.0, "div": 0.7, "erf": 8.0, "exp": 2.5, "expm1": 8.0, "load": 0.3, "log": 4.0, "log1p": 14.0, "philox": 8.0,
    "pow": 26.0, "rsqrt": 1.7, "sigmoid": 4.5, "sin": 6.0, "sqrt": 1.2, "tanh": 4.5,
}  # fmt: skip
"""What takes more than plain arithmetic, of four bytes an element and from the cache, on a processor of 2024."""
ARITHMETIC, STORE, SPREAD, LOOP = 0.08, 0.3, 6.0, 2.0
"""Nanoseconds of a vector of plain arithmetic, of a store, of a load from places apart, of setting out on a loop."""
FREE = frozenset({"const", "index", "local", "position"})


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


@functools.lru_cache(KEPT_REGIONS)
def _nanoseconds(region: Region) -> float:
    """A rough estimate of what a region takes on one thread, by its vectors."""
    points = math.prod(region.outer)
    return sum(points * _times(loop) * _vector(loop) for loop in region.loops) + LOOP * points * len(region.loops)


def _times(loop: Loop) -> int:
    """How many vectors a loop computes one after the other."""
    *around, last = [axis.extent for axis in loop.axes] or [1]
    return math.prod(around) * -(-last // LANES)


def _vector(loop: Loop) -> float:
    """What one vector of a loop takes."""
    stores = (*loop.stores, *loop.after)
    along = loop.axes[-1].number if loop.axes else -1
    total = STORE * len(stores) + ARITHMETIC * 4 * len(loop.accumulates)  # sums are widened
    for expr in in_order(loop.values):
        if expr.op not in FREE:
            cost = VECTOR_NANOSECONDS.get(expr.op, ARITHMETIC) * max(expr.dtype.size, 4) / 4
            is_spread = expr.op == "load" and expr.payload[1].coefficient(along) not in (0, 1)
            total += SPREAD if is_spread else cost
    return total + SPREAD * sum(store.access.coefficient(along) not in (0, 1) for store in loop.stores)
