"""Ordering: in which runs the groups of a schedule go, one after the other."""

from __future__ import annotations

from headrace.loops.fusion import Group
from headrace_cpu.onednn import LibraryCall
from headrace_cpu.scheduling.schedule import Key, Schedule, is_variable

__all__ = ["ordered"]

APPLIED_BYTES = 1 << 22
"""Gradients of so many bytes are applied before more are made: a run of its own costs some 10 us, writing and reading
them again from memory several hundred."""


def ordered(schedule: Schedule) -> list[tuple[str, list[int]]]:
    """Runs of groups, as few as possible: what computes, then what needs NumPy, then variables, then what waits.

    Before all of these come looks at streams of random numbers, which wait for nothing.

    Variables are updated in runs of their own, so that their locks are held no longer than that takes. They come last,
    so that there are few of these; but where the gradients that wait for them are large, they come when these are
    there, so that not all of them are alive at once.
    """
    before = _dependencies(schedule)
    after: list[set[int]] = [set() for _ in before]
    for number, needed in enumerate(before):
        for other in needed:
            after[other].add(number)
    missing = [len(needed) for needed in before]
    ready: dict[str, list[int]] = {name: [] for name in ("draw", "compute", "host", "update", "wait")}
    kinds = [_kind(schedule, group) for group in schedule.groups]
    kept = [_values_bytes(schedule, group) for group in schedule.groups]
    apart = {number for number, group in enumerate(schedule.groups) if _is_apart(schedule, group)}
    for number, count in enumerate(missing):
        if not count:
            ready[kinds[number]].append(number)
    order: list[tuple[str, list[int]]] = []
    while any(ready.values()):
        large = sum(kept[number] for number in ready["update"]) >= APPLIED_BYTES
        kind = "update" if large else next(name for name, numbers in ready.items() if numbers)
        run: list[int] = []
        while ready[kind] and not (run and (kind == "wait" or apart & {run[-1], min(ready[kind])})):
            if run and kind != "update" and sum(kept[number] for number in ready["update"]) >= APPLIED_BYTES:
                break
            number = min(ready[kind])
            ready[kind].remove(number)
            run.append(number)
            for other in sorted(after[number]):
                missing[other] -= 1
                if not missing[other]:
                    ready[kinds[other]].append(other)
        if kind in ("draw", "host", "wait"):
            order += [("host", [number]) for number in run]
        else:
            order.append((kind, run))
    return order


def _dependencies(schedule: Schedule) -> list[set[int]]:
    """For each group the groups that must run before it."""
    home = {position: number for number, group in enumerate(schedule.groups) for position in group.items}
    before: list[set[int]] = [set() for _ in schedule.groups]
    writers: dict[Key, list[int]] = {}
    readers: dict[Key, list[int]] = {}
    for position, item in enumerate(schedule.items):
        needed = {home[other] for other in item.after}
        needed |= {home[writer] for key in item.reads for writer in writers.get(key, ())}
        needed |= {
            home[writer]
            for key in item.writes
            for writer in writers.get(key, ())
            if not (item.partial and schedule.items[writer].partial)
        }
        for key in item.writes:
            needed |= {home[reader] for reader in readers.get(key, ())}
        before[home[position]] |= needed - {home[position]}
        for key in item.reads:
            readers.setdefault(key, []).append(position)
        for key in item.writes:
            writers[key] = [*(writers.get(key, ()) if item.partial else ()), position]
            readers[key] = []
    return before


def _is_apart(schedule: Schedule, group: Group) -> bool:
    """True for a large product that is added up in a variable: it is a run of its own, so that no other lock waits."""
    first = group.items[0]
    sums = isinstance(schedule.library.get(first), LibraryCall)
    return sums and any(is_variable(key) and schedule.sizes[key] >= APPLIED_BYTES for key in group.writes)


def _values_bytes(schedule: Schedule, group: Group) -> int:
    """Bytes of the values that are kept until a group has run."""
    return sum(schedule.sizes.get(key, 0) for key in group.reads if isinstance(key, int))


def _kind(schedule: Schedule, group: Group) -> str:
    first = group.items[0]
    if not schedule.items[first].has_loops and first not in schedule.library:
        op = schedule.program.lines[schedule.lines[first]].op
        return "wait" if op.blocks else "draw" if op.type == "_NextRandom" else "host"
    return "update" if any(is_variable(key) for key in group.writes) else "compute"
