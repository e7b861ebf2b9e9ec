"""The executor: runs one step of a plan, with its deadline, cancellation and trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace.interfaces import OpHook
from headrace.kernels.context import inside_step
from headrace.plan.plan import Plan
from headrace.runtime.step_control import StepController
from headrace.runtime.trace import StepRecord, Trace, active_traces

__all__ = ["run_step"]


def run_step(
    plan: Plan,
    arguments: Sequence[Any],
    control: StepController,
    *,
    trace: Trace | None = None,
    called_ns: int | None = None,
) -> Sequence[Any]:
    """Run one step under observation: between two operations it is checked whether the step has to end.

    Args:
      plan: the plan.
      arguments: the values of its arguments.
      control: what ends the step before its time.
      trace: where to record the step, besides the traces that record every step, or None.
      called_ns: when the step was asked for, by `time.perf_counter_ns`; now by default.
    Raises:
      DeadlineExceededError: the time is over; the error names the operation that was next.
      CancelledError: cancellation was requested.
    """
    operations = plan.compiled.operations
    count = len(operations)

    def check(index: int) -> None:
        control.check_before(operations[index], index, count)

    traces = list(active_traces)
    if trace is not None and trace not in traces:
        traces.append(trace)
    with inside_step(control):
        if traces:
            return _traced(control.step, plan, arguments, traces, check if control.is_observed else None, called_ns)
        return plan.compiled.run_with_hook(arguments, check)


def _traced(
    step: int,
    plan: Plan,
    arguments: Sequence[Any],
    traces: Sequence[Trace],
    check: OpHook | None,
    called_ns: int | None,
) -> Sequence[Any]:
    """Run a step and hand its record to the traces, also where it fails: the time it took is what one looks for."""
    positions: list[int] = []
    starts: list[int] = []
    clock, add_position, add_start = time.perf_counter_ns, positions.append, starts.append

    def mark(index: int) -> None:
        if check is not None:
            check(index)
        add_position(index)
        add_start(clock())

    compiled = plan.compiled
    results: Sequence[Any] = ()
    error = ""
    start_ns = clock()
    try:
        results = compiled.run_with_hook(arguments, mark)
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        thread = threading.current_thread()
        record = StepRecord(
            step=step,
            backend=plan.backend,
            operations=compiled.operations,
            kernels=getattr(compiled, "kernels", ()),
            positions=positions,
            starts_ns=starts,
            called_ns=start_ns if called_ns is None else called_ns,
            start_ns=start_ns,
            end_ns=clock(),
            thread_id=threading.get_native_id(),
            thread_name=thread.name,
            argument_bytes=sum(value.nbytes for value in arguments),
            result_bytes=sum(value.nbytes for value in results),
            arena_bytes=getattr(compiled, "arena_bytes", 0),
            error=error,
        )
        for trace in traces:
            trace.add(record)
    return results
