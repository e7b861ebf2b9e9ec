"""The executor: runs one step of a plan, with its deadline, cancellation and trace."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from headrace.graph.operation import Operation
from headrace.interfaces import OpHook
from headrace.plan.plan import Plan
from headrace.runtime.trace import StepRecord, Trace, active_traces

__all__ = ["Cancellation", "run_step"]

_step_numbers = itertools.count(1)


class Cancellation:
    """A request to end a step, shared between the step and who may cancel it. Mutable and thread-safe."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask the step to end before its next operation."""
        self._event.set()

    @property
    def is_requested(self) -> bool:
        """True once `cancel` was called."""
        return self._event.is_set()


def run_step(
    plan: Plan,
    arguments: Sequence[Any],
    *,
    timeout: float | None = None,
    trace: Trace | None = None,
    cancellation: Cancellation | None = None,
    called_ns: int | None = None,
) -> Sequence[Any]:
    """Run one step under observation: between two operations it is checked whether the step has to end.

    Args:
      plan: the plan.
      arguments: the values of its arguments.
      timeout: seconds the step may take, or None.
      trace: where to record the step, besides the traces that record every step, or None.
      cancellation: ends the step when requested, or None.
      called_ns: when the step was asked for, by `time.perf_counter_ns`; now by default.
    Raises:
      InvalidArgumentError: `timeout` is not a number of seconds.
      DeadlineExceededError: the time is over; the error names the operation that was next.
      CancelledError: cancellation was requested.
    """
    step = next(_step_numbers)
    check = _end_check(step, plan.compiled.operations, timeout, cancellation)
    traces = list(active_traces)
    if trace is not None and trace not in traces:
        traces.append(trace)
    if not traces:
        return plan.compiled.run_with_hook(arguments, check)
    must_check = timeout is not None or cancellation is not None
    return _traced(step, plan, arguments, traces, check if must_check else None, called_ns)


def _end_check(
    step: int, operations: Sequence[Operation], timeout: float | None, cancellation: Cancellation | None
) -> OpHook:
    """A hook that ends the step when its time is over or somebody wants it to end."""
    deadline = None if timeout is None else time.monotonic() + _seconds(timeout)

    def check(index: int) -> None:
        if cancellation is not None and cancellation.is_requested:
            raise CancelledError(
                f"step {step} was cancelled",
                where=f"before {operations[index].location}",
                expected="a step that runs to its end",
                got="a call of cancel()",
                hint="run the step again; what it has assigned already stays assigned",
            )
        if deadline is not None and time.monotonic() > deadline:
            raise DeadlineExceededError(
                f"step {step} did not end in time",
                where=f"before {operations[index].location}",
                expected=f"at most {timeout} s",
                got=f"operation {index + 1} of {len(operations)} not started yet",
                hint="give the step more time, or look with trace=hr.Trace() where it goes",
            )

    return check


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


def _seconds(timeout: Any) -> float:
    if not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise InvalidArgumentError(
            "the time limit is wrong",
            expected="seconds, at least 0, or None for no limit",
            got=repr(timeout),
            hint="give plain seconds, e.g. delta.total_seconds() of a timedelta",
        )
    return timeout
