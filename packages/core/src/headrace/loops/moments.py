"""Moments: a sum of squared distances from a mean, found in the same loop as the sum that the mean comes from. Pure.

`sum((x - m) ** 2)`, where m depends on `sum(x)` only, needs a second walk over x. In float64, and with distances from
one element k of the row, one walk is enough: with d = x - k and e = m - k it is
`sum(d ** 2) - 2 e sum(d) + n e ** 2`. Little is lost to cancellation, since k is an element: n + 1 times the variance
bounds the mean square of d, so that of the 53 bits of the sums some log2(n) go, where the result keeps 24.

Source: T. Chan, G. Golub, R. LeVeque, "Algorithms for computing the sample variance", The American Statistician 37
(1983), on shifted data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from headrace.loops.ir import Access, Accumulate, Builder, Expr, Loop, in_order
from headrace.types import bool as boolean
from headrace.types import float32, float64

__all__ = ["join_moments"]


@dataclass(frozen=True, slots=True)
class _Moments:
    """Two reductions that one loop can do.

    Attributes:
      first, total: the loop that sums x, and that sum.
      second, squares: the loop that sums squared distances, and that sum.
      mean: what the distances are from.
    """

    first: int
    total: Accumulate
    second: int
    squares: Accumulate
    mean: Expr


def join_moments(builder: Builder, loops: Sequence[Loop], inner: Collection[int], count: int) -> list[Loop]:
    """The loops with sums of squared distances moved to where the sum of the same values is.

    Args:
      builder: what their expressions were made with.
      loops: over rows: each runs over all the inner axes or none.
      inner: the axes of a row.
      count: how many elements a row has.
    """
    result = list(loops)
    while (found := _found(result, inner)) is not None:
        result = _joined(builder, result, found, inner, count)
    return result


def _found(loops: Sequence[Loop], inner: Collection[int]) -> _Moments | None:
    sums = {
        id(item.value): (position, item)
        for position, loop in enumerate(loops)
        for item in loop.accumulates
        if loop.axes and item.op == "sum" and item.value.dtype is float32 and _has_first(item.value, inner)
    }
    for position, loop in enumerate(loops):
        for item in loop.accumulates:
            for x, mean in _distances(item):
                first, total = sums.get(id(x), (position, item))
                if first < position and _depends_on(mean, total.local):
                    return _Moments(first, total, position, item, mean)
    return None


def _distances(item: Accumulate) -> list[tuple[Expr, Expr]]:
    """The pairs whose squared difference is summed, in both orders."""
    value = item.value
    if item.op != "sum" or value.op != "mul" or value.args[0] is not value.args[1] or value.args[0].op != "sub":
        return []
    a, b = value.args[0].args
    return [(a, b), (b, a)]


def _depends_on(mean: Expr, local: int) -> bool:
    """True if an expression is made of numbers and one local."""
    leaves = [expr for expr in in_order([mean]) if not expr.args]
    return all(expr.op == "const" or (expr.op == "local" and expr.payload == local) for expr in leaves)


def _has_first(value: Expr, inner: Collection[int]) -> bool:
    """True if the value at the first place of a row can be written down."""
    return all(
        expr.payload not in inner if expr.op == "index" else expr.op not in ("philox", "position")
        for expr in in_order([value])
    )


def _joined(builder: Builder, loops: Sequence[Loop], found: _Moments, inner: Collection[int], count: int) -> list[Loop]:
    def wide(value: Expr) -> Expr:
        return builder.make("cast", float64, (value,))

    def number(value: float) -> Expr:
        return builder.make("const", float64, (), value)

    def two(op: str, a: Expr, b: Expr) -> Expr:
        return builder.make(op, float64, (a, b))

    x, fresh = found.total.value, 1 + max(item.local for loop in loops for item in loop.accumulates)
    shift, sum_of, squares_of = (builder.make("local", float64, (), fresh + place) for place in range(3))
    distance = two("sub", wide(x), shift)
    total = two("add", sum_of, two("mul", number(count), shift))
    moved = two("sub", wide(found.mean), shift)
    cross = two("mul", moved, two("sub", two("mul", number(count), moved), two("add", sum_of, sum_of)))
    squares = two("max", two("add", squares_of, cross), number(0.0))  # rounding may bring it just below

    def narrow(value: Expr) -> Expr:
        return builder.make("cast", float32, (value,))

    def without(position: int, item: Accumulate, *instead: Accumulate) -> Loop:
        kept = tuple(other for other in loops[position].accumulates if other is not item)
        return replace(loops[position], accumulates=kept + instead)

    first = without(
        found.first,
        found.total,
        Accumulate(sum_of.payload, "sum", distance),
        Accumulate(squares_of.payload, "sum", two("mul", distance, distance)),
    )
    second = without(found.second, found.squares)
    left = [second] if second.accumulates or second.stores else []
    return [
        *loops[: found.first],
        Loop((), (Accumulate(shift.payload, "sum", wide(_first_finite(builder, x, inner))),)),
        first,
        Loop((), (Accumulate(found.total.local, "sum", narrow(total)),)),
        Loop((), (Accumulate(found.squares.local, "sum", narrow(squares)),)),
        *loops[found.first + 1 : found.second],
        *left,
        *loops[found.second + 1 :],
    ]


def _first_finite(builder: Builder, x: Expr, inner: Collection[int]) -> Expr:
    """The first value of a row, or 0 if it is no number: the sum of infinities must not become NaN."""

    def at_first(expr: Expr) -> Expr | None:
        if expr.op != "load":
            return None
        buffer, access = expr.payload
        kept = tuple(term for term in access.terms if term[0] not in inner)
        return builder.make("load", expr.dtype, (), (buffer, Access(access.constant, kept)))

    first = builder.rewritten(x, at_first)
    finite = builder.make("isfinite", boolean, (first,))
    return builder.make("select", float32, (finite, first, builder.make("const", float32, (), 0.0)))
