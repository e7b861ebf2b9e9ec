"""Row buffers: costly values of a row are kept for later loops over the same row instead of computed again. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.loops.forms import along, flat_access
from headrace.loops.ir import Expr, Loop, Store, in_order
from headrace.loops.nest import Nest, changed

__all__ = ["COSTLY", "with_row_buffers"]

ROW_BYTES = 1 << 18
"""Bytes of row buffers that one outer point may have: they live on the stack and should stay in the second cache,
beside as much that is read."""
COSTLY = frozenset(
    {"cos", "div", "erf", "exp", "expm1", "log", "log1p", "philox", "pow", "rsqrt", "sigmoid", "sin", "sqrt", "tanh"}
)
"""Operators that cost more than reading their result from a cache."""


def with_row_buffers(nest: Nest) -> Nest:
    """Keep costly expressions that a later loop over the row needs again, as far as row buffers may grow.

    Args:
      nest: loops over rows.
    """
    sizes = [nest.extents[axis] for axis in nest.inner]
    place = flat_access(sizes, [along(axis, nest.extents[axis]) for axis in nest.inner])
    budget = ROW_BYTES
    result = list(nest.loops)
    seen: dict[int, int] = {}  # expression -> the first loop that computes it
    kept: dict[int, Expr] = {}  # expression -> its load
    for position, loop in enumerate(nest.loops):
        if not loop.axes:
            continue
        for expr in _repeated(loop.values, seen, kept):
            needed = math.prod(sizes) * max(expr.dtype.size, 1)
            maker = seen[id(expr)]
            stored = _store_of(nest.loops[maker], expr)
            if stored is None and needed <= budget:
                budget -= needed
                key = (len(nest.buffers.kinds), "row")
                stored = Store(nest.buffers.number(key, expr.dtype, math.prod(sizes), "row"), place, expr)
                result[maker] = replace(result[maker], stores=(*result[maker].stores, stored))
            if stored is not None:
                kept[id(expr)] = nest.builder.make("load", expr.dtype, (), (stored.buffer, stored.access))
        for expr in in_order(loop.values):
            seen.setdefault(id(expr), position)
        result[position] = changed(nest.builder, result[position], lambda expr: kept.get(id(expr)))
    return replace(nest, loops=tuple(result))


def _store_of(loop: Loop, expr: Expr) -> Store | None:
    """The store of an expression that a loop has anyway."""
    return next((store for store in loop.stores if store.value is expr), None)


def _repeated(roots: Sequence[Expr], seen: Mapping[int, int], kept: Mapping[int, Expr]) -> list[Expr]:
    """The largest expressions that an earlier loop computed too and that are not cheap to repeat."""
    found: dict[int, Expr] = {}
    visited: set[int] = set()
    stack = list(roots)
    while stack:
        expr = stack.pop()
        if id(expr) in visited or id(expr) in kept:
            continue
        visited.add(id(expr))
        if id(expr) in seen and _is_costly(expr):
            found[id(expr)] = expr
        else:
            stack.extend(expr.args)
    return list(found.values())


def _is_costly(root: Expr) -> bool:
    """True if something that differs along the row goes through a costly operator."""
    varying: set[int] = set()
    for expr in in_order([root]):
        if expr.op in ("load", "index", "position") or any(id(arg) in varying for arg in expr.args):
            varying.add(id(expr))
            if expr.op in COSTLY:
                return True
    return False
