"""Streaming: which results are written past the caches, because little of them would stay there.

A store to memory that no cache holds reads the whole line first; a stream of whole lines need not, which saves a third
of what a loop moves that reads one array and writes another one. `HEADRACE_STREAMING=off` writes all in the usual way.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

from headrace.loops.ir import Access, Loop, Region, Store, in_order
from headrace_cpu.llvm.text import Text

__all__ = ["LINE", "streamed_buffers", "write_fence"]

LINE = 64
"""Bytes of a line of the cache."""
LARGE = 32 << 20
"""Bytes of a result of which the caches keep little until it is read again."""


def streamed_buffers(region: Region, lanes: int) -> frozenset[int]:
    """The buffers whose every vector can be written past the caches.

    That is if they begin with a line and do not lie where the region reads, which only shows when it runs: what was
    just read is written fastest where it is. They are large, and each vector begins at a multiple of its own size; what
    loops leave over at the end of a row is written in the usual way.

    Args:
      region: what is printed.
      lanes: elements of a vector.
    """
    large = {
        number
        for number, buffer in enumerate(region.buffers)
        if buffer.role == "out" and buffer.size * buffer.dtype.size >= LARGE
    }
    if not large or os.environ.get("HEADRACE_STREAMING") == "off":
        return frozenset()
    values = [item.value for loop in region.loops for item in loop.accumulates]
    stores = list(_stores(region))
    values += [store.value for _, store in stores]
    large -= {expr.payload[0] for expr in in_order(values) if expr.op == "load"}
    large -= {store.buffer for loop, store in stores if not _is_even(loop, store.access, lanes)}
    return frozenset(large)


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
