"""Chains of instructions that wait for each other: functions to compute in two halves, points to compute together.

A processor looks some 60 waiting instructions ahead. The chain of one sigmoid is so long that it then mostly waits,
while two loops over half of the chain keep it busy: what is between them takes a store and a load. A sum at the end of
such a chain is a loop of its own too, over what was stored. In the same way what divides a row by its total waits for
the lanes to be combined, unless there is another row.
"""

from __future__ import annotations

import math

from headrace.loops.ir import Accumulate, Expr, Loop, Region, Store, in_order
from headrace.types import float32
from headrace_cpu.llvm.text import compute_type
from headrace_cpu.loops.exponentials import HALVES
from headrace_cpu.loops.vector_math import FUNCTIONS

__all__ = ["cut_functions", "points_together", "stored_sums"]

MOST = 8
"""Buffers of 2 KB that surely stay in the first cache beside what a loop reads and writes."""
TOGETHER = 2
"""Points that are computed together: while the lanes of one total are combined, loops of others go on."""
LONGEST = 2048
"""Elements of a row up to which that pays, and so many rows stay in the first cache."""
LONG = 128
"""Elements of a row from which on it pays to read it again for its sum."""
SHORT = 40
"""Expressions of a point up to which it is not too much code."""
FUNCTION_NAMES = frozenset(name for name, _ in FUNCTIONS) | {"philox", "pow"}


def cut_functions(loop: Loop) -> list[Expr]:
    """The functions to cut in two.

    Operands are computed in the first loop, and those that are needed in the second are computed there again: so they
    must be cheap, without functions.

    Args:
      loop: what is printed.
    """
    values = [item.value for item in loop.accumulates] + [store.value for store in loop.stores]
    costly: set[int] = set()
    found = []
    for expr in in_order(values):
        if _is_cut(expr) and id(expr.args[0]) not in costly:
            found.append(expr)
        if expr.op in FUNCTION_NAMES or any(id(arg) in costly for arg in expr.args):
            costly.add(id(expr))
    return found[:MOST]


def _is_cut(expr: Expr) -> bool:
    return expr.op in HALVES and compute_type(expr.dtype) != "double"


def stored_sums(loop: Loop) -> list[tuple[Accumulate, Store]]:
    """The sums of functions that the loop stores as well, with these stores: sums that can be taken from there.

    Args:
      loop: what is printed.
    """
    if not loop.axes or loop.axes[-1].extent < LONG:
        return []
    last = loop.axes[-1].number
    stores = {id(store.value): store for store in loop.stores if store.access.coefficient(last) == 1}
    sums = [item for item in loop.accumulates if item.op == "sum" and item.value.dtype is float32]
    return [
        (item, stores[id(item.value)])
        for item in sums
        if id(item.value) in stores and any(expr.op in FUNCTION_NAMES for expr in in_order([item.value]))
    ]


def points_together(region: Region) -> int:
    """How many points are computed loop by loop, because what follows waits for totals of short rows.

    Args:
      region: what is printed.
    """
    values: list[Expr] = []
    for loop in region.loops:
        values += [item.value for item in loop.accumulates] + [item.value for item in (*loop.stores, *loop.after)]
    totals = [loop for loop in region.loops[:-1] if loop.accumulates]
    alike = all(len(loop.axes) <= 1 and not any(item.keep_last for item in loop.accumulates) for loop in region.loops)
    lengths = [axis.extent for loop in region.loops for axis in loop.axes]
    many = math.prod(region.outer) >= 4 * TOGETHER
    short = alike and max(lengths, default=0) <= LONGEST and len(in_order(values)) <= SHORT
    return TOGETHER if totals and short and many else 1
