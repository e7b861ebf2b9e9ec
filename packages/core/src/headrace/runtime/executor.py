"""The executor: runs one step of a plan, with its deadline, cancellation and trace."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from headrace.interfaces import Compiled
from headrace.runtime.trace import OpRecord, Trace

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
    plan: Compiled,
    arguments: Sequence[Any],
    *,
    timeout: float | None = None,
    trace: Trace | None = None,
    cancellation: Cancellation | None = None,
) -> Sequence[Any]:
    """Run one step under observation: between two operations it is checked whether the step has to end.

    Args:
      plan: the compiled plan.
      arguments: the values of its arguments.
      timeout: seconds the step may take, or None.
      trace: where to record each operation, or None.
      cancellation: ends the step when requested, or None.
    Raises:
      InvalidArgumentError: `timeout` is not a number of seconds.
      DeadlineExceededError: the time is over; the error names the operation that was next.
      CancelledError: cancellation was requested.
    """
    step = next(_step_numbers)
    operations = plan.operations
    deadline = None if timeout is None else time.monotonic() + _seconds(timeout)
    started: list[int] = []

    def finish_previous(index: int, now: int) -> None:
        if trace is not None and started:
            op = operations[index - 1]
            trace.add(OpRecord(step, op.name, op.type, started[-1], now))

    def hook(index: int) -> None:
        finish_previous(index, time.perf_counter_ns())
        if cancellation is not None and cancellation.is_requested:
            raise CancelledError(f"step {step} was cancelled", where=f"before {operations[index].location}")
        if deadline is not None and time.monotonic() > deadline:
            raise DeadlineExceededError(
                f"step {step} did not end in time",
                where=f"before {operations[index].location}",
                expected=f"at most {timeout} s",
                got=f"operation {index + 1} of {len(operations)} not started yet",
                hint="give the step more time, or look with trace=hr.Trace() where it goes",
            )
        started.append(time.perf_counter_ns())

    results = plan.run_with_hook(arguments, hook)
    finish_previous(len(operations), time.perf_counter_ns())
    return results


def _seconds(timeout: Any) -> float:
    if not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise InvalidArgumentError(
            "the time limit is wrong", expected="seconds, at least 0, or None for no limit", got=repr(timeout)
        )
    return timeout
