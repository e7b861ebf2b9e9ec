"""Where the time of profiled steps went, as rows and as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headrace_viz.profiling.ceilings import Ceilings
from headrace_viz.profiling.timeline import Timeline

Grouping = Literal["type", "name", "device"]


@dataclass(frozen=True, slots=True)
class OpRow:
    """The runs of some operations, such as those of a type.

    Attributes:
      name: what they have in common: a type, a name or a device.
      calls: number of runs.
      self_ns: nanoseconds of all runs.
      share: part of the time of all steps, 0 to 1; where several devices or threads ran at once, all rows together may
        be more than 1.
      gflops: 1e9 floating-point operations per second, or None where they are not known.
      gbytes: 1e9 bytes read and written per second, or None where they are not known.
    """

    name: str
    calls: int
    self_ns: int
    share: float
    gflops: float | None
    gbytes: float | None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all steps, times in nanoseconds.

    Attributes:
      steps: number of steps.
      step_ns: from the start of plans to their ends.
      op_ns: of all operations; those of several devices or threads may run at once, so it may be more than `step_ns`.
      prepare_ns: conversion of feeds and making of plans, before plans start.
      plans: number of plans, each of which has a first step.
      plan_ns: of `prepare_ns`, what came before these first steps.
      stall_ns: between steps of a thread.
      fed_bytes: bytes of the values that were fed.
      fetched_bytes: bytes of the values that were fetched.
      queue_ns: between the moment at which segments had all they need and their starts.
      blocked_ns: in operations that wait for others, such as those that take from a queue; transfers are apart.
      transfers: number of tensors that went from one device to another.
      transfer_bytes: their bytes, as far as they are known.
      transfer_wait_ns: in which devices waited to receive.
    """

    steps: int
    step_ns: int
    op_ns: int
    prepare_ns: int
    plans: int
    plan_ns: int
    stall_ns: int
    fed_bytes: int
    fetched_bytes: int
    queue_ns: int
    blocked_ns: int
    transfers: int
    transfer_bytes: int
    transfer_wait_ns: int

    @property
    def stall_share(self) -> float:
        """The part of the threads' time that went by between steps, 0 to 1."""
        whole = self.step_ns + self.prepare_ns + self.stall_ns
        return self.stall_ns / whole if whole else 0.0


def totals(timelines: Sequence[Timeline]) -> Totals:
    """Return the sums over all steps of timelines."""
    steps = [step for timeline in timelines for step in timeline.steps]
    transfers = [transfer for step in steps for transfer in step.transfers]
    return Totals(
        steps=len(steps),
        step_ns=sum(step.end_ns - step.start_ns for step in steps),
        op_ns=sum(step.op_ns for step in steps),
        prepare_ns=sum(step.start_ns - step.called_ns for step in steps),
        plans=sum(step.is_first for step in steps),
        plan_ns=sum(step.start_ns - step.called_ns for step in steps if step.is_first),
        stall_ns=sum(stall.end_ns - stall.start_ns for timeline in timelines for stall in timeline.stalls()),
        fed_bytes=sum(step.argument_bytes for step in steps),
        fetched_bytes=sum(step.result_bytes for step in steps),
        queue_ns=sum(segment.queue_ns for step in steps for segment in step.segments),
        blocked_ns=sum(
            run.end_ns - run.start_ns
            for timeline in timelines
            for step in timeline.steps
            for run in step.events
            if timeline.ops[run.op].waits
        ),
        transfers=len(transfers),
        transfer_bytes=sum(transfer.bytes or 0 for transfer in transfers),
        transfer_wait_ns=sum(transfer.waited_ns for transfer in transfers),
    )


def op_rows(timelines: Sequence[Timeline], by: Grouping = "type") -> list[OpRow]:
    """Return the operations by the time they took, the longest first.

    Args:
      timelines: of one or several processes.
      by: `"type"` takes all operations of a type together, `"name"` those of a name, `"device"` those of a device;
        a group that a backend runs as a whole is one operation.
    """
    sums: dict[str, _Sum] = {}
    for timeline in timelines:
        keys = [op.title if by == "name" else getattr(op, by) for op in timeline.ops]
        costs = [(op.flops, op.moved_bytes) for op in timeline.ops]
        for step in timeline.steps:
            for run in step.events:
                sums.setdefault(keys[run.op], _Sum()).add(run.end_ns - run.start_ns, *costs[run.op])
    whole = totals(timelines).step_ns
    rows = [
        OpRow(name, found.calls, found.ns, found.ns / whole if whole else 0.0, found.flops.rate, found.moved.rate)
        for name, found in sums.items()
    ]
    return sorted(rows, key=lambda row: (-row.self_ns, row.name))


class _Rate:
    """Mutable: an amount of work and the time of the runs whose amount is known."""

    __slots__ = ("amount", "ns")

    def __init__(self) -> None:
        self.amount = 0
        self.ns = 0

    def add(self, amount: int | None, ns: int) -> None:
        if amount:
            self.amount += amount
            self.ns += ns

    @property
    def rate(self) -> float | None:
        return self.amount / self.ns if self.ns else None


class _Sum:
    """Mutable: the runs of one row so far."""

    __slots__ = ("calls", "flops", "moved", "ns")

    def __init__(self) -> None:
        self.calls = 0
        self.ns = 0
        self.flops = _Rate()
        self.moved = _Rate()

    def add(self, ns: int, flops: int | None, moved: int | None) -> None:
        self.calls += 1
        self.ns += ns
        self.flops.add(flops, ns)
        self.moved.add(moved, ns)


def format_table(timelines: Sequence[Timeline], by: Grouping = "type", limit: int = 20) -> str:
    """Return the table of the operations that took the longest, with what steps did besides.

    Args:
      timelines: of one or several processes.
      by: see `op_rows`.
      limit: number of rows.
    """
    rows = op_rows(timelines, by)
    ceilings = next((timeline.ceilings for timeline in timelines if timeline.ceilings is not None), None)
    width = max([len("operation"), *(len(row.name) for row in rows[:limit])])
    lines = [
        f"{'operation':<{width}} {'calls':>8} {'self ms':>10} {'us/call':>10} {'share':>6} {'GFLOP/s':>14} {'GB/s':>14}"
    ]
    lines += [_row_text(row, width, ceilings) for row in rows[:limit]]
    if len(rows) > limit:
        rest = rows[limit:]
        lines.append(
            f"{len(rest)} more take {sum(row.self_ns for row in rest) / 1e6:.3f} ms, "
            f"{sum(row.share for row in rest):.1%} of the time"
        )
    return "\n".join([*lines, "", *_totals_text(timelines, ceilings)])


def _row_text(row: OpRow, width: int, ceilings: Ceilings | None) -> str:
    gflops = _rate_text(row.gflops, None if ceilings is None else ceilings.gflops)
    gbytes = _rate_text(row.gbytes, None if ceilings is None else ceilings.gbytes)
    times = f"{row.self_ns / 1e6:>10.3f} {row.self_ns / row.calls / 1e3:>10.1f}"
    return f"{row.name:<{width}} {row.calls:>8} {times} {row.share:>6.1%} {gflops:>14} {gbytes:>14}"


def _rate_text(rate: float | None, ceiling: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:.2f}" if not ceiling else f"{rate:.2f} ({rate / ceiling:>4.0%})"


def _several(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _totals_text(timelines: Sequence[Timeline], ceilings: Ceilings | None) -> list[str]:
    found = totals(timelines)
    if not found.steps:
        return ["no step ran while this was recorded"]
    working_ns = found.op_ns - found.transfer_wait_ns - found.blocked_ns
    together = ", on all devices together" if found.transfers else ""
    together += f"{' and' if together else ','} without waits" if found.op_ns > working_ns else ""
    lines = [
        f"{_several(found.steps, 'step')} of {_several(len(timelines), 'process', 'processes')}, "
        f"{found.step_ns / found.steps / 1e6:.3f} ms each; "
        f"operations take {working_ns / found.step_ns:.1%} of that{together}",
        f"before the first step of {_several(found.plans, 'plan')} {found.plan_ns / 1e6:.3f} ms, which is long where "
        f"plans are made; before others {(found.prepare_ns - found.plan_ns) / 1e6:.3f} ms to convert feeds",
        f"between steps {found.stall_ns / 1e6:.3f} ms, {found.stall_share:.1%} of the threads' time",
        f"per step {found.fed_bytes / found.steps / 1e6:.3f} MB fed, "
        f"{found.fetched_bytes / found.steps / 1e6:.3f} MB fetched",
    ]
    if found.queue_ns:
        lines.append(f"per step {found.queue_ns / found.steps / 1e6:.3f} ms in queues, of all segments together")
    if found.blocked_ns:
        lines.append(
            f"per step {found.blocked_ns / found.steps / 1e6:.3f} ms in operations that wait, such as those of queues"
        )
    if found.transfers:
        lines.append(
            f"per step {found.transfers / found.steps:.1f} transfers between devices of "
            f"{found.transfer_bytes / found.steps / 1e6:.3f} MB, for which they waited "
            f"{found.transfer_wait_ns / found.steps / 1e6:.3f} ms"
        )
    peak = max((sample.resident_bytes for timeline in timelines for sample in timeline.memory), default=0)
    arena = max((step.arena_bytes for timeline in timelines for step in timeline.steps), default=0)
    if peak:
        lines.append(f"memory: {peak / 1e6:.1f} MB resident at most, arenas of at most {arena / 1e6:.3f} MB")
    if ceilings is not None:
        lines.append(
            f"per cent of what this machine does: {ceilings.gflops:.1f} GFLOP/s in a float32 matrix product, "
            f"{ceilings.gbytes:.1f} GB/s read and written in a copy of memory; bfloat16 and caches may be faster"
        )
    skipped = sum(timeline.skipped_steps for timeline in timelines)
    if skipped:
        lines.append(f"{skipped} more steps ran after the limit of the recording was reached")
    return lines
