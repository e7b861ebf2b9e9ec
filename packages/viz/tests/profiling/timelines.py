"""Timelines made by hand, for tests."""

from __future__ import annotations

import dataclasses

from headrace_viz.profiling.ceilings import Ceilings
from headrace_viz.profiling.clock import ClockPair, ProcessClock
from headrace_viz.profiling.timeline import (
    MemorySample,
    OpEvent,
    SegmentEvent,
    StepEvent,
    Timeline,
    TracedOp,
    Transfer,
)

OPS = (
    TracedOp("layer/product", "MatMul", "CPU:0", "kernels.matmul", 400, 100, 2000),
    TracedOp("sum", "AddV2", "GPU:1", "", None, 50, 25),
    TracedOp("read", "ReadVariableOp", "CPU:0", "kernels.read", 0, 4000, None),
)

GROUP = TracedOp(
    "layer/product",
    "MatMul + AddV2 + Tanh + 1 more",
    "CPU:0",
    "loops",
    400,
    100,
    2100,
    ("layer/product", "a", "b", "c"),
)


def step(number: int, start_ns: int, *, thread: int = 11, called_ns: int | None = None, error: str = "") -> StepEvent:
    """A step of 100 ns: 60 of a product, 30 of a sum, 10 before them."""
    return StepEvent(
        step=number,
        thread_id=thread,
        backend="numpy",
        called_ns=start_ns if called_ns is None else called_ns,
        start_ns=start_ns,
        end_ns=start_ns + 100,
        argument_bytes=64,
        result_bytes=8,
        arena_bytes=128,
        error=error,
        events=(OpEvent(0, start_ns + 10, start_ns + 70, thread), OpEvent(1, start_ns + 70, start_ns + 100, thread)),
    )


def divided_step(number: int, start_ns: int) -> StepEvent:
    """The same on two devices, each in a thread: 5 in the queue, 400 bytes from the product to the sum."""
    whole = step(number, start_ns)
    product, total = whole.events
    queued, run = start_ns + 65, start_ns + 70
    return dataclasses.replace(
        whole,
        events=(product, dataclasses.replace(total, thread_id=12)),
        segments=(
            SegmentEvent("MatMul 'layer/product'", False, "CPU:0", "0:0", 11, start_ns + 10, start_ns + 10, run, 64, 0),
            SegmentEvent("AddV2 'sum'", True, "GPU:1", "1:2", 12, queued, run, start_ns + 100, 0, 8),
        ),
        transfers=(
            Transfer("layer/product:0", "CPU:0", "GPU:1", 400, start_ns + 60, start_ns + 72, 11, 12, 2),
            Transfer("elsewhere:0", "job:ps/task:1/CPU:0", "CPU:0", None, start_ns + 80, start_ns + 90, None, 11, 10),
        ),
    )


def timeline(
    *steps: StepEvent, process: int = 1, steady_ns: int = 0, wall_ns: int = 0, identity: str = "boot", skipped: int = 0
) -> Timeline:
    """A timeline of a process that began 1 ms after its clock."""
    return Timeline(
        host="here",
        process_id=process,
        clock=ProcessClock(identity, (ClockPair(steady_ns, wall_ns, 1),)),
        start_ns=1_000_000,
        end_ns=2_000_000,
        threads={11: "MainThread", 12: "worker"},
        ops=OPS,
        steps=steps,
        memory=(MemorySample(1_000_200, 5_000_000), MemorySample(1_000_400, 7_000_000)),
        skipped_steps=skipped,
        ceilings=Ceilings(100.0, 10.0),
    )
