"""Streaming: what is done for memory that is larger than the caches: results are written past these, rows read ahead.

A store to memory that no cache holds reads the whole line first; a stream of whole lines need not, which saves a third
of what a loop moves that reads one array and writes another one. And while a row is computed that the caches hold, the
memory has nothing to do, unless it is asked for the next row. `HEADRACE_STREAMING=off` does neither.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.loops.ir import Access, Buffer, Loop, Region, Role, Store, in_order
from headrace_cpu.llvm.text import Text

__all__ = ["LINE", "ReadAhead", "read_ahead", "streamed_buffers", "write_fence"]

LINE = 64
"""Bytes of a line of the cache."""
LARGE = 32 << 20
"""Bytes of a result of which the caches keep little until it is read again."""
FAR = 1 << 20
"""Bytes of an operand of which the second cache does not keep all."""


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


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """Where a region asks for the next row of what the second cache does not keep.

    Attributes:
      loop: the number of the loop that does: one that reads the same row again.
      loads: buffer and place of each load that asks, with how many elements the next row is away.
    """

    loop: int = 0
    loads: frozenset[tuple[tuple[int, Access], int]] = frozenset()


def read_ahead(region: Region) -> ReadAhead:
    """What to read ahead.

    Args:
      region: what is printed.
    """
    if len(region.outer) != 1 or not _is_wanted():
        return ReadAhead()
    first: set[tuple[int, Access]] = set()
    for number, loop in enumerate(region.loops):
        loads = {expr.payload for expr in in_order(loop.values) if expr.op == "load"} if loop.axes else set()
        again = {
            ((buffer, access), access.coefficient(0))
            for buffer, access in loads & first
            if access.coefficient(0) and _is_large(region.buffers[buffer], "in", FAR)
        }
        if again:
            return ReadAhead(number, frozenset(again))
        first |= loads
    return ReadAhead()


def _is_wanted() -> bool:
    return os.environ.get("HEADRACE_STREAMING") != "off"


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
