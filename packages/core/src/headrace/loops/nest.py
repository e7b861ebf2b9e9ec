"""Nests: the loops of one group over the axes of its space, before they become regions.

`lowering` makes a nest, whose axes are numbered as the space numbers them. `row_buffers` saves it work, `joined` leaves
it as few axes as the accesses allow, `cutting` cuts it for the caches and the threads, and `numbering` makes it a
region.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.loops.ir import Access, Axis, Buffer, Builder, Expr, Loop, Role, Store, in_order
from headrace.types import DType

__all__ = ["Buffers", "Nest", "NestForm", "changed", "loads_of"]

NestForm = Literal["map", "rows", "columns"]
"""What is reduced: nothing, the last axes, or axes before the last one (see `lowering`)."""


@dataclass(slots=True)
class Buffers:
    """The memory that the loops of one group read and write, numbered as it is first asked for. Mutable.

    Attributes:
      kinds: the buffers by number.
      keys: by number too, what the memory is known by.
    """

    kinds: list[Buffer] = field(default_factory=list)
    keys: list[Hashable] = field(default_factory=list)
    _numbers: dict[tuple[Hashable, Role], int] = field(default_factory=dict)

    def number(self, key: Hashable, dtype: DType, size: int, role: Role) -> int:
        """The number of what is known by a key; memory that is read and written has one for each role."""
        found = self._numbers.get((key, role))
        if found is None:
            found = self._numbers[key, role] = len(self.kinds)
            self.kinds.append(Buffer(dtype, size, role))
            self.keys.append(key)
        return found


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops over axes of the space.

    Attributes:
      builder: what the expressions were made with.
      buffers: what the loops read and write.
      form: what is reduced.
      extents: of each axis.
      outer, inner: the axes by number, from the outermost to the innermost.
      loops: the loops; those with axes have all of `inner`.
    """

    builder: Builder
    buffers: Buffers
    form: NestForm
    extents: Mapping[int, int]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    loops: tuple[Loop, ...]

    def axes(self) -> tuple[Axis, ...]:
        """The axes of each loop that has some."""
        return tuple(Axis(axis, self.extents[axis]) for axis in self.inner)

    def joined(self) -> Nest:
        """The nest without axes of one index, and with neighbours joined that all accesses walk as one."""
        places = [access for _, access in loads_of(self.loops)]
        places += [store.access for loop in self.loops for store in (*loop.stores, *loop.after)]
        exprs = in_order([value for loop in self.loops for value in loop.values])
        places += [expr.payload for expr in exprs if expr.op == "position"]
        fixed = {expr.payload for expr in exprs if expr.op == "index"}
        vectorised = set(self.inner[-1:]) if self.form == "columns" else set()
        extents = dict(self.extents)
        outer, gone = _joined_axes(self.outer, extents, places, fixed)
        inner, inner_gone = _joined_axes(self.inner, extents, places, fixed | vectorised)
        gone |= inner_gone

        def place(access: Access) -> Access:
            return Access(access.constant, tuple(term for term in access.terms if term[0] not in gone))

        result = replace(self, extents=extents, outer=outer, inner=inner)
        loops = [changed(self.builder, loop, place=place) for loop in self.loops]
        return replace(result, loops=tuple(replace(loop, axes=result.axes() if loop.axes else ()) for loop in loops))


def _joined_axes(
    axes: Sequence[int], extents: dict[int, int], places: Sequence[Access], pinned: set[int]
) -> tuple[tuple[int, ...], set[int]]:
    """The axes that are left, whose extents are brought up to date, and those that are gone; the pinned ones stay."""

    def walks_as_one(first: int, second: int) -> bool:
        size = extents[second]
        return all(item.coefficient(first) == item.coefficient(second) * size for item in places)

    left: list[int] = []
    gone: set[int] = set()
    for axis in axes:
        if extents[axis] == 1 and axis not in pinned:
            gone.add(axis)
            continue
        last = left[-1] if left else None
        if last is not None and not {last, axis} & pinned and walks_as_one(last, axis):
            gone.add(left.pop())
            extents[axis] *= extents[last]
        left.append(axis)
    if axes and not left:  # a loop has an axis, if only for one index
        left = [axes[-1]]
        gone.discard(axes[-1])
    return tuple(left), gone


def loads_of(loops: Sequence[Loop]) -> list[tuple[int, Access]]:
    """What loops read: the buffer and the place of each load."""
    values = [value for loop in loops for value in loop.values]
    return [expr.payload for expr in in_order(values) if expr.op == "load"]


def changed(
    builder: Builder,
    loop: Loop,
    change: Callable[[Expr], Expr | None] | None = None,
    place: Callable[[Access], Access] | None = None,
    buffers: Mapping[int, int] | None = None,
) -> Loop:
    """A loop with its expressions rewritten, and where it reads and writes.

    Args:
      builder: what its expressions were made with.
      loop: the loop.
      change: what to put for an expression, where that is not None.
      place: the new place for a place; none moves if it is None.
      buffers: the new number for the number of a buffer; all stay if it is None.
    """

    def access_of(access: Access) -> Access:
        return access if place is None else place(access)

    def buffer_of(number: int) -> int:
        return number if buffers is None else buffers[number]

    def full(expr: Expr) -> Expr | None:
        other = None if change is None else change(expr)
        if other is None and expr.op == "load":
            buffer, access = expr.payload
            return builder.make("load", expr.dtype, (), (buffer_of(buffer), access_of(access)))
        if other is None and expr.op == "position":
            return builder.make("position", expr.dtype, (), access_of(expr.payload))
        return other

    def store(item: Store) -> Store:
        return Store(buffer_of(item.buffer), access_of(item.access), builder.rewritten(item.value, full))

    return replace(
        loop,
        accumulates=tuple(replace(item, value=builder.rewritten(item.value, full)) for item in loop.accumulates),
        stores=tuple(map(store, loop.stores)),
        after=tuple(map(store, loop.after)),
    )
