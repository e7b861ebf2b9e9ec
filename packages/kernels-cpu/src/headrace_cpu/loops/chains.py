"""Chains of instructions that wait for each other: registers and points that are computed side by side.

A processor looks some 60 waiting instructions ahead, hardly further than to the end of one function of a register of
numbers: there it mostly waits. So functions are computed for several registers at once, instruction by instruction, as
one value of so many lanes, and a sum at the end of such a chain is a loop of its own, over what was stored. An
accumulator waits for itself, unless there are several. In the same way what divides a row by its total waits for the
lanes to be combined, unless there is another row.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.loops.ir import Accumulate, Expr, Loop, Region, in_order
from headrace.types import float32, float64
from headrace_cpu.loops.vector_math import FUNCTIONS

__all__ = ["is_slow", "points_together", "registers_together", "sums_apart"]

REGISTERS = 8
"""Registers of float32 whose functions are computed together: what they need in between still stays near."""
WIDE_REGISTERS = 4
"""The same for functions that are computed in float64, which take two registers each, and for accumulators."""
LONG = 128
"""Elements of a row from which on it pays to read it again for its sum."""
TOGETHER = 2
"""Points that are computed together: while the lanes of one total are combined, loops of others go on."""
LONGEST = 2048
"""Elements of a row up to which that pays, and so many rows stay in the first cache."""
SHORT = 40
"""Expressions of a point up to which it is not too much code."""
FUNCTION_NAMES = frozenset(name for name, _ in FUNCTIONS) | {"pow"}


def registers_together(loop: Loop, lanes: int) -> int:
    """How many registers of elements are computed side by side along the last axis of a loop.

    Args:
      loop: what is printed.
      lanes: elements of a register.
    """
    exprs = in_order(loop.values)
    functions = [expr for expr in exprs if expr.op in FUNCTION_NAMES]
    if not loop.axes or not (functions or loop.accumulates) or _is_scattered(loop, exprs):
        return 1
    is_wide = loop.accumulates or any(map(_is_wide, functions))
    count = WIDE_REGISTERS if is_wide else REGISTERS
    while count * lanes > loop.axes[-1].extent and count > 1:
        count //= 2
    return count


def is_slow(region: Region) -> bool:
    """True for one loop in which functions take so long that it comes to new memory too seldom to be foreseen.

    Processors read ahead what is read line by line, unless the next lines are some hundred instructions away. One
    exponential function does not take so long.

    Args:
      region: what is printed.
    """
    slow = FUNCTION_NAMES - {"exp"}
    return len(region.loops) == 1 and any(expr.op in slow for expr in in_order(region.loops[0].values))


def sums_apart(region: Region, streamed: frozenset[int]) -> Region:
    """The region with sums of functions that a loop stores as well in a loop of their own, over what was stored.

    The region itself where there are none.

    Args:
      region: what is to be printed.
      streamed: buffers that should not be read again.
    """
    loops: list[Loop] = []
    for loop in region.loops:
        found = _stored_sums(loop, streamed)
        apart = {item.local for item in found}
        loops.append(replace(loop, accumulates=tuple(item for item in loop.accumulates if item.local not in apart)))
        if found:
            loops.append(Loop(loop.axes, tuple(found)))
    return replace(region, loops=tuple(loops)) if len(loops) > len(region.loops) else region


def _stored_sums(loop: Loop, streamed: frozenset[int]) -> list[Accumulate]:
    """Such sums, of what is read again."""
    if not loop.axes or loop.axes[-1].extent < LONG:
        return []
    stored = {
        id(store.value): Expr("load", store.value.dtype, (), (store.buffer, store.access))
        for store in loop.stores
        if store.access.coefficient(loop.axes[-1].number) == 1
        and all(store.access.coefficient(axis.number) for axis in loop.axes)
        and store.buffer not in streamed
    }
    return [
        replace(item, value=stored[id(item.value)])
        for item in loop.accumulates
        if item.op == "sum"
        and not item.keep_last
        and item.value.dtype is float32
        and id(item.value) in stored
        and any(expr.op in FUNCTION_NAMES for expr in in_order([item.value]))
    ]


def _is_wide(function: Expr) -> bool:
    """True if a function is computed in float64."""
    dtype = function.dtype
    return dtype is float64 or function.op == "pow" or FUNCTIONS[function.op, "float"][1]


def _is_scattered(loop: Loop, exprs: list[Expr]) -> bool:
    """True if what is read or written does not lie side by side: each lane then is an instruction anyway."""
    accesses = [store.access for store in loop.stores] + [expr.payload[1] for expr in exprs if expr.op == "load"]
    return any(access.coefficient(loop.axes[-1].number) not in (0, 1) for access in accesses)


def points_together(region: Region) -> int:
    """How many points are computed loop by loop, because what follows waits for totals of short rows.

    Args:
      region: what is printed.
    """
    values = [value for loop in region.loops for value in loop.values]
    totals = [loop for loop in region.loops[:-1] if loop.accumulates]
    alike = all(len(loop.axes) <= 1 and not any(item.keep_last for item in loop.accumulates) for loop in region.loops)
    lengths = [axis.extent for loop in region.loops for axis in loop.axes]
    many = math.prod(region.outer) >= 4 * TOGETHER
    short = alike and max(lengths, default=0) <= LONGEST and len(in_order(values)) <= SHORT
    return TOGETHER if totals and short and many else 1
