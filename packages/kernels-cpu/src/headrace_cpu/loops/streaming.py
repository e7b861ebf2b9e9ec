"""Streaming: what is done for memory that is larger than the caches: results are written past these, rows read ahead.

A store to memory that no cache holds reads the whole line first; a stream of whole lines need not, which saves a third
of what a loop moves that reads one array and writes another one. And while a row is computed that the caches hold, the
memory has nothing to do, unless it is asked for the next row; where lines are asked for in a steady stream it is the
next lines. `HEADRACE_STREAMING=off` does neither.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

from headrace.loops.ir import Access, Buffer, Loop, Region, Role, Store, in_order
from headrace_cpu.llvm.text import Text

__all__ = ["AHEAD", "LINE", "Ahead", "next_lines", "next_rows", "streamed_buffers", "write_fence"]

SWITCH = "HEADRACE_STREAMING"
LINE = 64
"""Bytes of a line of the cache."""
LARGE = 32 << 20
"""Bytes of a result of which the caches keep little until it is read again."""
FAR = 1 << 20
"""Bytes of an operand or result of which the second cache does not keep all."""
AHEAD = 6 << 10
"""Bytes to ask for a line ahead: memory takes some 100 ns, about half of what a thread takes to get there."""


def streamed_buffers(region: Region, lanes: int) -> frozenset[int]:
    """The buffers whose every vector can be written past the caches.

    That is if they begin with a line and do not lie where the region reads, which only shows when it runs: what was
    just read is written fastest where it is. They are large, and each vector begins at a multiple of its own size; what
    loops leave over at the end of a row is written in the usual way.

    Args:
      region: what is printed.
      lanes: elements of a vector.
    """
    large = {number for number, buffer in enumerate(region.buffers) if _is_large(buffer, "out", LARGE)}
    if not large or not _is_wanted():
        return frozenset()
    values = [value for loop in region.loops for value in loop.values]
    large -= {expr.payload[0] for expr in in_order(values) if expr.op == "load"}
    large -= {store.buffer for loop, store in _stores(region) if not _is_even(loop, store.access, lanes)}
    return frozenset(large)


Ahead = frozenset[tuple[tuple[int, Access], int]]
"""Buffer and place of each load or store of a loop that asks for what comes later, and by how many elements."""


def next_rows(region: Region) -> tuple[Ahead, ...]:
    """For each loop of a region what it asks for of the next row, if its rows are computed one after the other.

    A loop does that for what the second cache does not keep and it reads again, having it already.

    Args:
      region: what is printed.
    """
    found: list[Ahead] = []
    first: set[tuple[int, Access]] = set()
    for loop in region.loops:
        loads = _loads(loop)
        again = {
            ((buffer, access), access.coefficient(0))
            for buffer, access in loads & first
            if access.coefficient(0) and _is_large(region.buffers[buffer], "in", FAR)
        }
        is_first = len(region.outer) == 1 and _is_wanted() and not any(found)
        found.append(frozenset(again) if is_first else frozenset())
        first |= loads
    return tuple(found)


def next_lines(region: Region, streamed: frozenset[int]) -> tuple[Ahead, ...]:
    """For each loop of a region what it asks for of the same memory, if loops run side by side, or take long.

    A loop does that for what it is the first one to read, since others have no time to wait for it, and for what it
    writes into caches, which must have a line before it is written to.

    Args:
      region: what is printed.
      streamed: buffers that are written past the caches.
    """
    found: list[Ahead] = []
    known: set[tuple[int, Access]] = set()
    for loop in region.loops:
        stores = {(store.buffer, store.access) for store in loop.stores if loop.axes and store.buffer not in streamed}
        touched = (_loads(loop) | stores) - known
        found.append(frozenset((place, AHEAD // _size(region, place)) for place in touched if _is_far(region, place)))
        known |= touched
    return tuple(found)


def _size(region: Region, place: tuple[int, Access]) -> int:
    return region.buffers[place[0]].dtype.size


def _is_far(region: Region, place: tuple[int, Access]) -> bool:
    buffer = region.buffers[place[0]]
    return buffer.role != "row" and _is_large(buffer, buffer.role, FAR) and _is_wanted()


def _loads(loop: Loop) -> set[tuple[int, Access]]:
    return {expr.payload for expr in in_order(loop.values) if expr.op == "load"} if loop.axes else set()


def _is_wanted() -> bool:
    return os.environ.get(SWITCH) != "off"


def _is_large(buffer: Buffer, role: Role, size: int) -> bool:
    return buffer.role == role and buffer.size * buffer.dtype.size >= size


def _stores(region: Region) -> Iterator[tuple[Loop, Store]]:
    for loop in region.loops:
        for store in (*loop.stores, *loop.after):
            yield loop, store


def _is_even(loop: Loop, access: Access, lanes: int) -> bool:
    """True if the vectors of a store are whole ones, one after the other."""
    if not loop.axes:
        return False
    along = loop.axes[-1].number
    steps = (access.constant, *(factor for axis, factor in access.terms if axis != along))
    return access.coefficient(along) == 1 and not any(step % lanes for step in steps)


def write_fence(t: Text) -> None:
    """Let other threads see what was written past the caches: x86 orders such stores only by a fence."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        t.functions["llvm.x86.sse.sfence"] = "declare void @llvm.x86.sse.sfence()"
        t.line("call void @llvm.x86.sse.sfence()")
