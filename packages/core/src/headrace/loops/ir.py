"""The loop IR: what a fused region of a segment computes, as loops over memory. No operation types and no devices.

A region has an outer iteration space, whose points are independent of each other, and for each point a sequence of
inner loops that share the outer indices, local scalars and row buffers:

```
Region  outer: extents of the parallel axes; axes are numbered, the outer ones first
 Loop   axes: the numbers of its own axes, the last of which is the one to vectorise
        accumulate: local = op over axes of an expression    store: buffer[affine offset] = expression
```

Expressions are hash-consed DAGs of typed scalars. An offset counts elements of a buffer: a constant plus a coefficient
for each axis. `verifier.py` says what is legal, `interpreter.py` what it means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.types import DType

__all__ = [
    "BINARY",
    "COMPARISONS",
    "REDUCTIONS",
    "UNARY",
    "Access",
    "Accumulate",
    "Axis",
    "Buffer",
    "Builder",
    "Expr",
    "Loop",
    "Region",
    "Role",
    "Store",
    "comparable",
    "in_order",
]

UNARY = (
    "abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "isfinite", "log", "log1p", "neg", "not", "rint", "rsqrt",
    "sigmoid", "sign", "sin", "sqrt", "tanh",
)  # fmt: skip
BINARY = ("add", "and", "div", "max", "min", "mul", "or", "pow", "quot", "rem", "sub", "xor")
COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
REDUCTIONS = ("all", "any", "max", "min", "prod", "sum")

Role = Literal["in", "out", "row"]
"""Read only; written (and maybe read) by the region; or private to one outer point."""


@dataclass(frozen=True, slots=True)
class Access:
    """Which element of a buffer: `constant`, and for each of `terms` (axis, coefficient) coefficient times index."""

    constant: int
    terms: tuple[tuple[int, int], ...]

    def coefficient(self, axis: int) -> int:
        """By how many elements the place moves with an axis."""
        return next((factor for number, factor in self.terms if number == axis), 0)


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """A typed scalar; equal ones are one object within a region (see `Builder`).

    Attributes:
      op: const, index, position, load, local, select, cast, philox, or one of UNARY, BINARY, COMPARISONS.
      dtype: the type of the value.
      args: the operands; select takes (condition, then, else), philox (key, low and high half of the counter, number):
        the word of that number in the stream that begins there (see `headrace.kernels.philox`).
      payload: const: the number; index: the axis; position: an Access, whose int64 place is the value; load: (buffer
        number, Access); local: its number.
    """

    op: str
    dtype: DType
    args: tuple[Expr, ...] = ()
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that a region works on: `size` elements of a dtype."""

    dtype: DType
    size: int
    role: Role


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a loop.

    Attributes:
      number: its number in the region.
      extent: how many indices it has.
      outer, total: if `outer` is not None the axis is one tile of a longer one: it ends where
        index(outer) * extent + index reaches `total`.
    """

    number: int
    extent: int
    outer: int | None = None
    total: int = 0


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Reduce an expression to a local.

    Attributes:
      local: the local's number; it holds the result from the end of the loop on.
      op: one of REDUCTIONS.
      value: what is reduced. Sums of floats are carried in float64, products in the value's own dtype.
      keep_last: reduce over all axes of the loop but the last; the local may then only be stored by the loop's `after`.
    """

    local: int
    op: str
    value: Expr
    keep_last: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """Write an expression to an element of a buffer, at each point of the loop."""

    buffer: int
    access: Access
    value: Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """Statements for each point of the axes; without axes they are run once.

    Attributes:
      axes: from the outermost to the innermost.
      accumulates: the reductions.
      stores: the writes, in order.
      after: writes for each index of the last axis, when the other axes are done (`Accumulate.keep_last`).
    """

    axes: tuple[Axis, ...]
    accumulates: tuple[Accumulate, ...] = ()
    stores: tuple[Store, ...] = ()
    after: tuple[Store, ...] = ()

    @property
    def values(self) -> tuple[Expr, ...]:
        """What the loop computes: the values that it reduces, and those that it writes."""
        return *(item.value for item in self.accumulates), *(store.value for store in (*self.stores, *self.after))


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """One parallel nest of loops. Equal only to itself: what is known of regions is kept by that (see `patterns`).

    Attributes:
      outer: extents of axes 0, 1, ...: the independent points.
      buffers: what it reads and writes; the caller passes one pointer for each that is no row buffer.
      loops: run in order for each outer point.
    """

    outer: tuple[int, ...]
    buffers: tuple[Buffer, ...]
    loops: tuple[Loop, ...]


@dataclass(slots=True)
class Builder:
    """Makes expressions, each only once. Mutable."""

    known: dict[tuple[object, ...], Expr] = field(default_factory=dict)

    def make(self, op: str, dtype: DType, args: tuple[Expr, ...] = (), payload: Any = None) -> Expr:
        """The expression; the same object for the same request."""
        key = (op, dtype.name, tuple([id(arg) for arg in args]), comparable(payload))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Expr(op, dtype, args, payload)
        return found

    def rewritten(self, root: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
        """A copy of an expression in which `change` replaced what it gave an answer for."""
        done: dict[int, Expr] = {}
        stack = [root]
        while stack:
            expr = stack[-1]
            if id(expr) in done:
                stack.pop()
                continue
            replaced = change(expr)
            if replaced is None:
                missing = [arg for arg in expr.args if id(arg) not in done]
                if missing:
                    stack.extend(missing)
                    continue
                args = tuple([done[id(arg)] for arg in expr.args])
                changed = any(new is not old for new, old in zip(args, expr.args, strict=True))
                replaced = self.make(expr.op, expr.dtype, args, expr.payload) if changed else expr
            done[id(expr)] = replaced
            stack.pop()
        return done[id(root)]


def in_order(roots: Sequence[Expr]) -> list[Expr]:
    """Every expression under some roots, once, after its operands; graphs are deeper than Python recurses."""
    found: dict[int, Expr] = {}
    stack = list(roots)
    while stack:
        expr = stack[-1]
        missing = [arg for arg in expr.args if id(arg) not in found]
        if missing:
            stack.extend(missing)
            continue
        found.setdefault(id(expr), expr)
        stack.pop()
    return list(found.values())


def comparable(payload: Any) -> Hashable:
    """The payload of an expression or value as what it is equal to: 0.0 is not -0.0, NaN is NaN, and True is not 1.

    Signs of NaN differ, too. In tuples there are only places.
    """
    if isinstance(payload, float):
        return float, repr(payload), math.copysign(1.0, payload)
    return (bool, payload) if isinstance(payload, bool) else payload
