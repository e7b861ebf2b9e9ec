"""Chains: functions of a loop that are computed in two halves, a block of vectors at a time.

A processor looks some 60 waiting instructions ahead. The chain of instructions of one sigmoid is so long that it then
mostly waits, while two loops over half of the chain keep it busy: what is between them takes a store and a load.
"""

from __future__ import annotations

from headrace.loops.ir import Expr, Loop, in_order
from headrace_cpu.exponentials import HALVES
from headrace_cpu.text import compute_type
from headrace_cpu.vector_math import FUNCTIONS

__all__ = ["cut_functions"]

MOST = 8
"""Buffers of 2 KB that surely stay in the first cache beside what a loop reads and writes."""
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
