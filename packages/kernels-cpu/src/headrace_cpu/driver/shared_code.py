"""The code of units that threads share: a function for each, and one call of all that run side by side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.loops.ir import Region
from headrace.loops.printer import region_text
from headrace_cpu.driver.estimates import SERIAL_NANOSECONDS, shared_nanoseconds, shared_points
from headrace_cpu.driver.library_code import write_parts
from headrace_cpu.driver.module import Module
from headrace_cpu.driver.processors import look_around
from headrace_cpu.driver.sharing import ROW, SHARE, shares
from headrace_cpu.driver.table import THREADS, entry
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.host import dump_folder
from headrace_cpu.llvm.signals import holding_signals
from headrace_cpu.llvm.text import Text
from headrace_cpu.loops.printer import printed_once
from headrace_cpu.onednn import LibraryCall

__all__ = ["SharedCall", "shared_call", "shared_pointers", "write_shared"]

_DECLARATIONS = {
    "GOMP_parallel": "declare void @GOMP_parallel(ptr, ptr, i32, i32)",
    "omp_get_thread_num": "declare i32 @omp_get_thread_num()",
    "omp_get_num_threads": "declare i32 @omp_get_num_threads()",
    "llvm.smin.i64": "declare i64 @llvm.smin.i64(i64, i64)",
    "llvm.smax.i64": "declare i64 @llvm.smax.i64(i64, i64)",
    "share": SHARE,
}


@dataclass(frozen=True, slots=True)
class SharedCall:
    """A call of a function of a table of pointers and a part of the work.

    Attributes:
      symbol: the function.
      points: how many parts there are.
      nanoseconds: an estimate of what all of them take on one thread.
      pointers: registers of what goes into the table.
      may_fail: whether the entry FAILED of the driver's table may tell of it afterwards.
    """

    symbol: str
    points: int
    nanoseconds: float
    pointers: Sequence[str]
    may_fail: bool = False


def shared_pointers(unit: Unit) -> int:
    """How many pointers threads are given of a unit; a call in parts also needs the driver's table."""
    return unit.pointers + isinstance(unit.call, LibraryCall)


def shared_call(module: Module, t: Text, unit: Unit, position: int, pointers: Sequence[str]) -> SharedCall:
    """Add the function of a unit to the module; units of one pattern have one function.

    Args:
      module: what gets the function.
      t: the function that calls.
      unit: what to do (see `Unit.is_shared`).
      position: of the unit.
      pointers: registers of its memories.
    """
    points, nanoseconds = shared_points(unit), shared_nanoseconds(unit)
    if isinstance(unit.call, LibraryCall):
        return SharedCall(
            write_parts(module, unit, position), points, nanoseconds, [*pointers, "%table"], may_fail=True
        )
    if unit.region is not None:
        printed = printed_once(unit.region, module.lanes)
        t.functions |= printed.functions
        symbol = module.regions.setdefault(printed.body, f"region{len(module.regions)}")
        t.functions[symbol] = _comment(unit.region, symbol) + printed.body.replace("SYMBOL", symbol)
    else:
        symbol = unit.call.symbol(module.lanes)
        if symbol not in t.functions:
            body, needed = unit.call.written(module.lanes)
            t.functions |= needed
            t.functions[symbol] = body.replace("SYMBOL", symbol)
    return SharedCall(symbol, points, nanoseconds, pointers)


def _comment(region: Region, symbol: str) -> str:
    """The loops of a region, for who reads the text of the module."""
    if dump_folder() is None:
        return ""
    return "".join(f"; {line}\n" for line in region_text(region, symbol).splitlines())


def write_shared(module: Module, t: Text, calls: Sequence[SharedCall]) -> None:
    """Write some calls: on threads, side by side, where there is enough work, or else one after the other."""
    firsts = list(itertools.accumulate((len(call.pointers) for call in calls), initial=0))[: len(calls)]
    for first, call in zip(firsts, calls, strict=True):
        for number, pointer in enumerate(call.pointers, first):
            t.line(f"store ptr {pointer}, ptr {t.put(f'getelementptr ptr, ptr %args, i64 {number}')}")
    points = sum(call.points for call in calls)
    if module.openmp and points > 1 and sum(call.nanoseconds for call in calls) >= SERIAL_NANOSECONDS:
        t.functions |= {**_DECLARATIONS, **look_around(), **holding_signals()}
        _wake_threads(t, _rows(module, t, firsts, calls), len(calls), points)
        return
    for first, call in zip(firsts, calls, strict=True):
        args = t.put(f"getelementptr ptr, ptr %args, i64 {first}")
        t.line(f"call void @{call.symbol}(ptr {args}, i64 0, i64 {call.points})")


def _rows(module: Module, t: Text, firsts: Sequence[int], calls: Sequence[SharedCall]) -> str:
    """The name of what threads are told: for each call where its pointers begin, and who does which part of it."""
    parts = shares([(call.points, call.nanoseconds) for call in calls])
    rows = []
    for first, call, share in zip(firsts, calls, parts, strict=True):
        numbers = (first, share.points, share.start, share.cost, share.total)
        rows.append(f"{ROW} {{ ptr @{call.symbol}, {', '.join(f'i64 {number}' for number in numbers)} }}")
    name = module.symbol("rows")
    t.functions[name] = f"@{name} = private unnamed_addr constant [{len(calls)} x {ROW}] [{', '.join(rows)}]"
    return name


def _wake_threads(t: Text, rows: str, count: int, points: int) -> None:
    """Let threads, at most one for each point, do the calls in so many rows."""
    t.line(f"store ptr @{rows}, ptr %job")
    t.line(f"store i64 {count}, ptr {t.put('getelementptr i64, ptr %job, i64 1')}")
    t.line(f"store ptr %args, ptr {t.put('getelementptr i64, ptr %job, i64 2')}")
    t.line(f"call void @say_where(ptr {t.put('getelementptr i64, ptr %job, i64 3')})")
    limited = t.put(f"call i64 @llvm.smin.i64(i64 {entry(t, THREADS)}, i64 {points})")
    short = t.put(f"trunc i64 {limited} to i32")
    t.line(f"call void @GOMP_parallel(ptr @share, ptr %job, i32 {short}, i32 0)")
