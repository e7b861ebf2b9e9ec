"""Numbering: a nest with axes and buffers as a region numbers them, and what the caller has to know of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from headrace.loops.ir import Access, Axis, Buffer, Builder, Expr, Region
from headrace.loops.nest import Nest, changed, loads_of
from headrace.types import int64

__all__ = ["LoweredRegion", "Partial", "Tile", "numbered"]

Tile = tuple[int, int]
"""The number of an axis and how many of its indices make one piece."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Memory that the first region of a group leaves for the second one.

    Attributes:
      number: of the local whose parts lie there.
    """

    number: int


@dataclass(frozen=True, slots=True)
class LoweredRegion:
    """A region and what its buffers are.

    Attributes:
      region: the loops.
      keys: for each buffer that is no row buffer the key of its memory, or a `Partial`.
      identity: keys of inputs that are read only at the place that is written: such an input may be the output.
    """

    region: Region
    keys: tuple[Hashable, ...]
    identity: frozenset[Hashable]


def numbered(nest: Nest, tile: Tile | None) -> LoweredRegion:
    """Number axes and used buffers from 0.

    Args:
      nest: the loops.
      tile: one axis that is cut into pieces, which become the last outer axis.
    """
    outer = [nest.extents[axis] for axis in nest.outer]
    if tile is not None:
        outer.append(-(-nest.extents[tile[0]] // tile[1]))
    pieces = len(outer) - 1
    order = (*nest.outer, *[-1] * (tile is not None), *nest.inner)
    numbers = {axis: position for position, axis in enumerate(order)}
    written = {store.buffer for loop in nest.loops for store in (*loop.stores, *loop.after)}
    kinds = nest.buffers.kinds
    read = {buffer for buffer, _ in loads_of(nest.loops)}
    used = sorted(written | read, key=lambda number: (kinds[number].role == "row", number))
    places = {old: new for new, old in enumerate(used)}

    def place(access: Access) -> Access:
        terms = [(numbers[axis], factor) for axis, factor in access.terms]
        if tile is not None and access.coefficient(tile[0]):
            terms.append((pieces, access.coefficient(tile[0]) * tile[1]))
        return Access(access.constant, tuple(sorted(terms)))

    def axis(item: Axis) -> Axis:
        if tile is not None and item.number == tile[0]:
            return Axis(numbers[item.number], tile[1], pieces, item.extent)
        return replace(item, number=numbers[item.number], outer=None if item.outer is None else numbers[item.outer])

    index = _index_change(nest.builder, numbers, tile, pieces)
    loops = tuple(
        replace(changed(nest.builder, loop, index, place, places), axes=tuple(map(axis, loop.axes)))
        for loop in nest.loops
    )
    region = Region(tuple(outer), tuple(_kind(kinds[old], old in written) for old in used), loops)
    keys = tuple(nest.buffers.keys[old] for old in used if kinds[old].role != "row")
    return LoweredRegion(region, keys, _identity(nest))


def _index_change(
    builder: Builder, numbers: dict[int, int], tile: Tile | None, pieces: int
) -> Callable[[Expr], Expr | None]:
    """How an index of an axis is told by the new axes; `pieces` is the one over the pieces of the tile."""

    def index(expr: Expr) -> Expr | None:
        if expr.op != "index":
            return None
        own = builder.make("index", int64, (), numbers[expr.payload])
        if tile is None or expr.payload != tile[0]:
            return own
        start = builder.make("index", int64, (), pieces), builder.make("const", int64, (), tile[1])
        return builder.make("add", int64, (builder.make("mul", int64, start), own))

    return index


def _kind(buffer: Buffer, is_written: bool) -> Buffer:
    """A buffer of the group as this region has it: what another one has written is an input."""
    return replace(buffer, role="in") if buffer.role == "out" and not is_written else buffer


def _identity(nest: Nest) -> frozenset[Hashable]:
    """See `LoweredRegion`; a row that is gone over several times may be written where it is read for the last time.

    Rows of columns are walked across, several outer points through one row.
    """
    kinds = nest.buffers.kinds
    wholes = [
        (number, store.access)
        for number, loop in enumerate(nest.loops)
        for store in loop.stores
        if loop.axes and kinds[store.buffer].role != "row"
    ]
    if nest.form == "columns" or not wholes:
        return frozenset()
    first, written = min(number for number, _ in wholes), {access for _, access in wholes}
    starts = {Access(item.constant, tuple(t for t in item.terms if t[0] not in nest.inner)) for item in written}
    accesses: dict[int, set[Access]] = {}
    last: dict[int, int] = {}
    for number, loop in enumerate(nest.loops):
        for buffer, access in loads_of([loop]):
            if number < first and access in starts:
                continue
            accesses.setdefault(buffer, set()).add(access)
            last[buffer] = number
    return frozenset(
        nest.buffers.keys[buffer]
        for buffer, found in accesses.items()
        if found == written and last[buffer] <= first and kinds[buffer].role == "in"
    )
