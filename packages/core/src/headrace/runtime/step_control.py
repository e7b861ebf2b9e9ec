"""StepControl: what ends a step that runs or waits - its deadline, a call of cancel(), or the end of its session.

A wait is on a condition that belongs to what is waited for (a queue, a rendezvous), so one who wants a step to end must
wake conditions that he does not know. Each wait therefore tells the step's `Cancellation` its condition first and looks
for a request second, while `cancel` does the reverse: whichever comes first, the wait ends.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from headrace.graph.operation import Operation
from headrace.interfaces import OpContext, Rendezvous, StepControl
from headrace.runtime.blocked import nothing_else_runs, stalled_with, waiting
from headrace.runtime.rendezvous import LocalRendezvous
from headrace.runtime.trace import SegmentRecorder

__all__ = ["Cancellation", "RunningSteps", "StepController"]

NOTICE_SECONDS = 60.0
"""After this time a wait is told to the log, and again each time that it has lasted twice as long."""

LONELY_SECONDS = 5.0
"""After this time, and again each time that it has passed, a wait without a limit looks whether anything can end it."""

_log = logging.getLogger(__name__)
_step_numbers = itertools.count(1)
_creation = threading.Lock()


class Cancellation:
    """A request to end a step, shared between the step and who may cancel it. Mutable and thread-safe.

    Attributes:
      is_requested: the step has to end.
      ends_waits: it must not wait any longer, nor begin to.
      reason: who wants it; empty if nobody does.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may cancel while its thread is inside
        self._watched: list[threading.Condition] = []
        self.is_requested = False
        self.ends_waits = False
        self.reason = ""

    def cancel(self, reason: str = "a call of cancel()", *, only_waits: bool = False) -> None:
        """Ask the step to end: before its next operation, or now where it waits.

        Args:
          reason: who wants it, for the error; the first one counts.
          only_waits: a step that never waits runs to its end.
        """
        with self._lock:
            self.reason = self.reason or reason
            self.ends_waits = True
            self.is_requested = self.is_requested or not only_waits
            watched = list(self._watched)
        for condition in watched:
            with condition:
                condition.notify_all()

    @contextmanager
    def waking(self, condition: threading.Condition) -> Iterator[None]:
        """Notify `condition`, which the caller holds, when cancellation is requested inside."""
        with self._lock:
            self._watched.append(condition)
        try:
            yield
        finally:
            with self._lock:
                self._watched.remove(condition)


class StepController:
    """The control of one step (see `interfaces.StepControl`). Thread-safe.

    Args:
      timeout: seconds the step may take, or None.
      cancellation: what ends the step on request; one of its own by default.
      stall_timeout: seconds one operation may wait, or None.
    Attributes:
      step: the step's number in this process.
      cancellation: ends the step on request.
      is_observed: somebody set a limit or may cancel, so it is worth looking between operations too.
      recorder: writes down what the step's segments do, or None.
    Raises:
      InvalidArgumentError: `timeout` is not a number of seconds.
    """

    __slots__ = ("_deadline", "_patience", "_rendezvous", "_timeout", "cancellation", "is_observed", "recorder", "step")

    def __init__(
        self,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        stall_timeout: float | None = None,
    ) -> None:
        self.step = next(_step_numbers)
        self._rendezvous: LocalRendezvous | None = None
        self.recorder: SegmentRecorder | None = None
        self.cancellation = cancellation or Cancellation()
        self.is_observed = timeout is not None or cancellation is not None
        self._timeout = timeout
        self._patience = None if stall_timeout is None else _seconds(stall_timeout)
        self._deadline = None if timeout is None else time.monotonic() + _seconds(timeout)

    @property
    def rendezvous(self) -> LocalRendezvous:
        """Where the devices of this process hand tensors to each other in the step; made on first use."""
        with _creation:  # several devices may ask at once
            if self._rendezvous is None:
                self._rendezvous = LocalRendezvous(self.step)
            return self._rendezvous

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        """Block until `ready()` (see the interface)."""
        self.wait_for("an operation", condition, ready, describe)

    def of(self, operation: OpContext) -> StepControl:
        """The control as an operation sees it: its waits are known under its name."""
        return _OfOperation(self, f"{operation.type} '{operation.name}'")

    def wait_for(
        self,
        operation: str,
        condition: threading.Condition,
        ready: Callable[[], bool],
        describe: Callable[[], str],
    ) -> None:
        """`wait`, known under the type and name of an operation."""
        if ready():
            return
        start = time.monotonic()
        stalls = None if self._patience is None else start + self._patience
        notice = start + NOTICE_SECONDS
        is_endless = self._deadline is None and stalls is None
        lonely = start + LONELY_SECONDS if is_endless else None
        registered = waiting(self.step, operation, condition, describe, is_endless=is_endless)
        with self.cancellation.waking(condition), registered:
            while not ready():
                if self.cancellation.ends_waits:
                    raise self._cancelled(f"a wait: {describe()}")
                now = time.monotonic()
                if self._deadline is not None and self._deadline <= now:
                    raise self._too_late(f"a wait: {describe()}")
                if stalls is not None and stalls <= now:
                    limit = f"what it waits for within {self._patience} s, the stall_timeout of the configuration"
                    raise self._stalled(operation, condition, describe, limit)
                if lonely is not None and lonely <= now:
                    if nothing_else_runs(LONELY_SECONDS):
                        raise self._stalled(
                            operation, condition, describe, "a thread of this process that could end it"
                        )
                    lonely = now + LONELY_SECONDS
                if notice <= now:
                    self._tell(operation, now - start, condition, describe)
                    notice = now + (now - start)
                condition.wait(min(end for end in (self._deadline, stalls, lonely, notice) if end is not None) - now)

    def give_up(self, reason: str) -> None:
        """Let the step end wherever it waits (see the interface)."""
        self.cancellation.cancel(reason)

    def check(self) -> None:
        """Raise if the step has to end (see the interface)."""
        if self.cancellation.is_requested:
            raise self._cancelled()
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise self._too_late("a step that goes on")

    def check_before(self, op: Operation, position: int, count: int) -> None:
        """Raise if the step has to end before `op`, which stands at `position` of the `count` of its plan."""
        if self.cancellation.is_requested:
            raise self._cancelled().at(f"before {op.location}")
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise self._too_late(f"operation {position + 1} of {count} not started yet").at(f"before {op.location}")

    def _cancelled(self, state: str = "") -> CancelledError:
        return CancelledError(
            f"step {self.step} was cancelled",
            expected="a step that runs to its end",
            got=self.cancellation.reason + (f" during {state}" if state else ""),
            hint="run the step again; what it has assigned already stays assigned",
        )

    def _too_late(self, state: str) -> DeadlineExceededError:
        return DeadlineExceededError(
            f"step {self.step} did not end in time",
            expected=f"at most {self._timeout} s",
            got=state,
            hint="give the step more time, or look with trace=hr.Trace() where it goes",
        )

    def _tell(
        self, operation: str, seconds: float, condition: threading.Condition, describe: Callable[[], str]
    ) -> None:
        """Write to the log that an operation still waits, so that one who looks at a silent program finds out why."""
        state = describe()
        condition.release()
        try:
            _log.warning("%s of step %d has waited for %.0f s: %s", operation, self.step, seconds, state)
        finally:
            condition.acquire()

    def _stalled(
        self, operation: str, condition: threading.Condition, describe: Callable[[], str], expected: str
    ) -> DeadlineExceededError:
        """The error of a wait that takes too long, with all other waits: one of them may wait for this one."""
        state = describe()
        condition.release()  # others must get at it to say how they stand
        try:
            patience = LONELY_SECONDS if self._patience is None else self._patience
            # where nothing runs, the thread of one that gave up has to be at rest before the next one does
            recent = patience if self._patience is not None else 4 * patience
            others = stalled_with(operation, self.step, state, patience, recent)
        finally:
            condition.acquire()
        shown = "".join(f"\n            {line}" for line in others)
        return DeadlineExceededError(
            f"{operation} made no progress in step {self.step}",
            expected=expected,
            got=state + (f"; also blocked:{shown}" if others else "; nothing else is blocked"),
            hint="start what is to bring it, e.g. the hr.QueueRunner, before this step; stall_timeout is another limit",
        )


class _OfOperation:
    """The control of a step as one operation sees it (see `interfaces.StepControl`)."""

    __slots__ = ("_control", "_operation", "check", "give_up")

    def __init__(self, control: StepController, operation: str) -> None:
        self._control = control
        self._operation = operation
        self.check, self.give_up = control.check, control.give_up

    @property
    def rendezvous(self) -> Rendezvous:
        """That of the step."""
        return self._control.rendezvous

    def of(self, operation: OpContext) -> StepControl:
        """The control as another operation sees it."""
        return self._control.of(operation)

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        """Block until `ready()` (see the interface)."""
        self._control.wait_for(self._operation, condition, ready, describe)


class RunningSteps:
    """The steps of one session that may wait. Mutable and thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: set[Cancellation] = set()
        self._end = ""

    def add(self, cancellation: Cancellation) -> None:
        """Count a step as running; where the session has ended already, it cannot wait."""
        with self._lock:
            self._running.add(cancellation)
            end = self._end
        if end:
            cancellation.cancel(end, only_waits=True)

    def remove(self, cancellation: Cancellation) -> None:
        """Count a step as ended."""
        with self._lock:
            self._running.discard(cancellation)

    def end_waits(self, reason: str) -> None:
        """End every wait of the steps that are running, and of later ones."""
        with self._lock:
            self._end = reason
            running = list(self._running)
        for cancellation in running:
            cancellation.cancel(reason, only_waits=True)


def _seconds(timeout: Any) -> float:
    if not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise InvalidArgumentError(
            "the time limit is wrong",
            expected="seconds, at least 0, or None for no limit",
            got=repr(timeout),
            hint="give plain seconds, e.g. delta.total_seconds() of a timedelta",
        )
    return timeout
