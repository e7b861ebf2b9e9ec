"""What a layout needs and what it runs, for limits of memory and for those who ask what was compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headrace import Operation
from headrace.plan import (
    LargeValue,
    PlannedMemory,
    Work,
    memory_use,
    planned,
    size_bounds,
    unknown_needs,
    work_of,
    workspace_of,
)
from headrace_cpu.layout import Layout
from headrace_cpu.nesting import NativeBranch, NativeLoop
from headrace_cpu.onednn import LibraryCall
from headrace_cpu.primitives.few_rows import FewRows
from headrace_cpu.primitives.gathering import Gather
from headrace_cpu.primitives.indices import FirstRows, RangeCheck
from headrace_cpu.primitives.panel_products import PanelProducts
from headrace_cpu.primitives.pooling import Pooling
from headrace_cpu.primitives.scans import Scan
from headrace_cpu.primitives.scattering import Rows
from headrace_cpu.scheduling.lists import ListOp
from headrace_cpu.scheduling.schedule import Schedule

__all__ = ["kernels_of", "memory_of", "work_in"]

_CALLS: dict[type, tuple[str, str]] = {
    FirstRows: ("headrace_cpu.first_rows", "positions in a hash table"),
    Gather: ("headrace_cpu.gather", "rows are copied as they are"),
    ListOp: ("headrace_cpu.lists", "the list lives in native memory"),
    NativeBranch: ("headrace_cpu.branch", "both branches are native code"),
    NativeLoop: ("headrace_cpu.loop", "condition and body are native code"),
    RangeCheck: ("headrace_cpu.range_check", "indices are looked at before anything changes"),
    Rows: ("headrace_cpu.rows", "threads share the rows of the result"),
    Scan: ("headrace_cpu.scan", "each element follows from the one before"),
    FewRows: ("headrace_cpu.few_rows", "few rows times a matrix that is read where it lies"),
    PanelProducts: ("headrace_cpu.panel_products", "rows times a matrix that was brought into panels before"),
    Pooling: ("headrace_cpu.pooling", "windows that slide along rows"),
}
"""For a call that is no library's what it is named, and why."""


def memory_of(layout: Layout) -> PlannedMemory:
    """What one step of a layout needs beside variables, feeds and constants; copies of these count."""
    program = layout.schedule.program
    bounds = size_bounds(program)
    outside = {layout.numbers[key]: layout.schedule.sizes.get(key, 0) for key in layout.fresh}
    unknown: list[str] = []
    steps = list(layout.steps)
    workspaces: dict[int, LargeValue] = {}
    position = 0
    for run in layout.runs:
        if run.kind == "host":
            line = program.lines[run.lines[0]]
            unknown += unknown_needs(line)
            if not line.kernel.aliases:
                outside |= {n: bounds[n] for n in line.outputs if n not in layout.allocation.offsets}
            extra = workspace_of(line, bounds)
            if extra.bytes:
                number = len(layout.numbers) + len(workspaces)
                workspaces[number], outside[number] = extra, extra.bytes
                step = steps[position]
                steps[position] = replace(step, outputs=(*step.outputs, number), sizes=(*step.sizes, None))
        position += 1 if run.kind == "host" else len(run.units)

    def name(number: int, size: int) -> LargeValue:
        if number < len(program.tensors):
            return LargeValue.of(program.tensors[number], size)
        return workspaces.get(number) or LargeValue("partial results, or memory that a library works in", size)

    use = memory_use(steps, layout.results, layout.allocation, outside)
    needed = planned(use, layout.allocation.floor, name, unknown)
    return replace(needed, copies_bytes=sum(_copies(layout).values()))


def _copies(layout: Layout) -> dict[int, int]:
    """Bytes of what is made of weights beforehand, each once, however many calls read it."""
    found = {id(made): made.size for _, made in layout.schedule.copies.values()}
    for unit in layout.units:
        found |= {id(made): made.nbytes for made in unit.constants if isinstance(made, np.ndarray)}
        for inner in getattr(unit.call, "layouts", ()):
            found |= _copies(inner)
    return found


def work_in(schedule: Schedule) -> tuple[Work, ...]:
    """What a schedule runs, group by group, in order."""
    wanted = {schedule.root(number) for number in schedule.program.results}
    readers = schedule.readers()
    found = []
    for kind, numbers in schedule.order:
        for number in numbers:
            group = schedule.groups[number]
            kept = [
                key
                for key in group.writes
                if isinstance(key, tuple) or key in wanted or readers.get(key, set()) - {number}
            ]
            read = [key for key in group.reads if key not in group.writes or isinstance(key, tuple)]
            moved = sum(schedule.sizes.get(key, 0) for key in (*read, *kept))
            found.append(_work(schedule, number, kind, moved))
    return tuple(found)


def kernels_of(layout: Layout) -> tuple[str, ...]:
    """For each operation what computes it, in order; nothing where it is only a part of others."""
    schedule = layout.schedule
    found: dict[int, str] = {}
    for kind, numbers in schedule.order:
        for number in numbers:
            lines = [line for item in schedule.groups[number].items for line in schedule.lines_of(item)]
            found |= dict.fromkeys(lines, _kernel(schedule, number, kind))
    return tuple("" if line in run.unwritten else found[line] for run in layout.runs for line in run.lines)


def _kernel(schedule: Schedule, number: int, kind: str) -> str:
    """The name of what computes a group."""
    first = schedule.groups[number].items[0]
    if kind == "host":
        function = schedule.program.lines[schedule.lines[first]].kernel.function
        return f"{getattr(function, '__module__', None) or 'numpy'}.{getattr(function, '__name__', 'kernel')}"
    call = schedule.library.get(first)
    if call is None:
        return "headrace_cpu.loops"
    return _CALLS[type(call)][0] if type(call) in _CALLS else "onednn"


def _work(schedule: Schedule, number: int, kind: str, moved: int) -> Work:
    group = schedule.groups[number]
    lines = [schedule.program.lines[line] for item in group.items for line in schedule.lines_of(item)]
    operations = _once([line.op for line in lines])
    name = _kernel(schedule, number, kind)
    if kind == "host":
        return work_of(operations, name, "numpy", _why_kernel(lines[0].op), moved)
    call = schedule.library.get(group.items[0])
    if call is None:
        again = len(schedule.again[number]) if schedule.again else 0
        reason = group.decision or "shares memory that is read once"
        if again:
            reason += f"; computes {again} cheap values again instead of reading them"
        return work_of(operations, name, "loops", reason, moved)
    if type(call) in _CALLS:
        return work_of(operations, name, "native", _CALLS[type(call)][1], moved)
    parts = len(call.parts) if isinstance(call, LibraryCall) else 0
    how = "in this layout" if not parts else "on one thread" if parts == 1 else f"in {parts} parts, one for each thread"
    return work_of(operations, name, "library", f"oneDNN computes it, {how}", moved)


def _why_kernel(op: Operation) -> str:
    """Why an operation runs by its kernel."""
    if op.blocks:
        return "may wait"
    if op.op_def.function_attrs:
        return "calls functions one by one: something in them has no native form, or a shape that is not known"
    return "has no native form for these dtypes and shapes"


def _once(operations: Sequence[Operation]) -> list[Operation]:
    """Each operation once: one may be several items of a group."""
    return list(dict.fromkeys(operations))
