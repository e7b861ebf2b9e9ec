"""Cutting: a nest as one region or two, with long axes in pieces that caches hold and threads share. Pure.

A reduction of much to little is cut in two regions with partial results, whose number depends on the shape only, so
that the order of additions does not depend on the number of threads.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.loops.ir import Access, Accumulate, Axis, Loop, Store, in_order
from headrace.loops.nest import Nest, changed
from headrace.loops.numbering import LoweredRegion, Partial, Tile, numbered

__all__ = ["regions_of"]

TILE = 4096
"""Elements of one outer point where a long axis is cut."""
COLUMNS = 512
"""Columns of one outer point of the column form: enough of each row in one piece for the memory to follow."""
SPLIT = 32768
"""Elements that one outer point reduces before the reduction is cut in two."""
FEW = 16
"""Outer points that are too few for threads to share."""
PIECES = 128
"""The most pieces of the axis along which a reduction is cut."""


def regions_of(nest: Nest) -> list[LoweredRegion]:
    """Cut long axes, split reductions of much to little, and number what is left.

    Args:
      nest: the loops, with axes joined.
    """
    if nest.form == "map":
        nest = replace(nest, outer=nest.inner[:-1], inner=nest.inner[-1:])
        nest = replace(nest, loops=tuple(replace(loop, axes=nest.axes()) for loop in nest.loops))
        return [numbered(nest, None if nest.outer else _tile(nest, TILE))]
    points = math.prod(nest.extents[axis] for axis in nest.outer)
    work = math.prod(nest.extents[axis] for axis in nest.inner)
    if nest.form == "rows":
        simple = not any(loop.accumulates or loop.axes for loop in nest.loops[1:])
        if simple and work > SPLIT and points < FEW and not _has_indices(nest):
            return _two_stages(nest, points, 1)
        return [numbered(nest, None)]
    columns = nest.extents[nest.inner[-1]]
    tiles = -(-columns // COLUMNS)
    long = work // columns * min(columns, COLUMNS) > SPLIT
    if long and points * tiles < FEW and not _has_indices(nest):
        return _two_stages(nest, points, columns)
    return [numbered(nest, _tile(nest, COLUMNS))]


def _has_indices(nest: Nest) -> bool:
    """True if an expression speaks of an index, which a reduction that is cut would have to shift."""
    return any(expr.op == "index" for expr in in_order(nest.loops[0].values))


def _tile(nest: Nest, size: int) -> Tile | None:
    """The last inner axis in pieces of a size, if it is longer than one."""
    if not nest.inner or nest.extents[nest.inner[-1]] <= size:
        return None
    return nest.inner[-1], size


def _two_stages(nest: Nest, points: int, columns: int) -> list[LoweredRegion]:
    """First the reductions over each piece of the first inner axis, then those over the pieces.

    Args:
      nest: the loops, the first of which reduces.
      points: how many outer points there are.
      columns: how many results each of them has for a reduction.
    """
    main, cut = nest.loops[0], nest.inner[0]
    extent, work = nest.extents[cut], math.prod(nest.extents[axis] for axis in nest.inner)
    size = max(1, -(-extent // PIECES), TILE * extent // work)
    piece, pieces = max(nest.extents) + 1, -(-extent // size)
    partials, totals = _partials(nest, (piece, pieces), points, columns)

    def place(access: Access) -> Access:
        factor = access.coefficient(cut)
        return Access(access.constant, (*access.terms, (piece, factor * size)) if factor else access.terms)

    extents = {**nest.extents, piece: pieces}
    tile = Axis(cut, size, piece, extent)
    axes = tuple(tile if axis.number == cut else axis for axis in nest.axes())
    head = replace(changed(nest.builder, replace(main, after=()), place=place), axes=axes)
    if nest.form == "columns":
        parts: tuple[Loop, ...] = (replace(head, after=partials),)
    else:
        parts = (head, Loop((), stores=partials))
    first = replace(nest, extents=extents, outer=(*nest.outer, piece), loops=parts)
    second = replace(nest, extents=extents, inner=(piece, *nest.inner[-1:]) if nest.form == "columns" else (piece,))
    second = replace(second, loops=(Loop(second.axes(), totals, (), main.after), *nest.loops[1:]))
    tiles = [_tile(part, COLUMNS) if nest.form == "columns" else None for part in (first, second)]
    return [numbered(first, tiles[0]), numbered(second, tiles[1])]


def _partials(
    nest: Nest, piece: tuple[int, int], points: int, columns: int
) -> tuple[tuple[Store, ...], tuple[Accumulate, ...]]:
    """The stores of what each piece gives for the reductions, and the reductions of what is stored.

    `piece` is the axis over the pieces, and their number.
    """
    axis, pieces = piece
    terms = [(axis, columns), *([(nest.inner[-1], 1)] if nest.form == "columns" else [])]
    stride = pieces * columns
    for outer in reversed(nest.outer):
        terms.append((outer, stride))
        stride *= nest.extents[outer]
    access = Access(0, tuple(sorted(terms)))
    make, partials, totals = nest.builder.make, [], []
    for item in nest.loops[0].accumulates:
        dtype, key = item.value.dtype, Partial(item.local)
        number = nest.buffers.number(key, dtype, points * pieces * columns, "out")
        partials.append(Store(number, access, make("local", dtype, (), item.local)))
        totals.append(replace(item, value=make("load", dtype, (), (number, access))))
    return tuple(partials), tuple(totals)
