"""What waits now in this process: which operation of which step, for what, since when. For errors and for watchdogs."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

__all__ = ["at_rest", "blocked_operations", "nothing_else_runs", "stalled_with", "waiting"]

_PATIENCE = 0.1
"""Seconds to wait for whoever holds what a wait is about, before its description is left out."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """One wait that is under way."""

    step: int
    operation: str
    thread: str
    since: float
    condition: threading.Condition
    describe: Callable[[], str]
    is_endless: bool

    def __str__(self) -> str:
        state = "busy now"
        if self.condition.acquire(timeout=_PATIENCE):
            try:
                state = self.describe()
            finally:
                self.condition.release()
        seconds = time.monotonic() - self.since
        return f"{self.operation} of step {self.step} in thread '{self.thread}' for {seconds:.1f} s: {state}"


_waits: dict[int, _Wait] = {}
_numbers = itertools.count()
_stalled: deque[tuple[float, str, str]] = deque(maxlen=64)
"""When which operation of which step failed because it had waited for too long, and how it stood then."""


_at_rest: dict[int, tuple[int, float]] = {}
"""The threads that do nothing until another one lets them, and since when."""


@contextmanager
def waiting(
    step: int,
    operation: str,
    condition: threading.Condition,
    describe: Callable[[], str],
    *,
    is_endless: bool = False,
) -> Iterator[None]:
    """Count an operation as waiting inside.

    Args:
      step: the number of its step.
      operation: its type and name.
      condition: what it waits on.
      describe: what it waits for; called with `condition` held.
      is_endless: nothing but what it waits for ends it.
    """
    number = next(_numbers)
    thread = threading.current_thread().name
    _waits[number] = _Wait(step, operation, thread, time.monotonic(), condition, describe, is_endless)
    try:
        with at_rest() if is_endless else nullcontext():
            yield
    finally:
        del _waits[number]


@contextmanager
def at_rest() -> Iterator[None]:
    """Count the calling thread as one that does nothing inside until another thread of this process lets it."""
    number = next(_numbers)
    _at_rest[number] = threading.get_ident(), time.monotonic()
    try:
        yield
    finally:
        del _at_rest[number]


def nothing_else_runs(seconds: float) -> bool:
    """True if every thread of this process has been at rest for so long: then none of them will ever go on.

    A thread that was let go on but has not come to it yet looks as if it were at rest; for some seconds it does not.
    """
    latest = time.monotonic() - seconds
    resting = {thread for thread, since in list(_at_rest.values()) if since <= latest}
    return all(thread.ident in resting for thread in threading.enumerate())


def blocked_operations() -> list[str]:
    """One line for each operation of this process that waits now: the operation, its step, how long, and for what."""
    return [str(wait) for _, wait in sorted(_waits.copy().items())]


def stalled_with(operation: str, step: int, state: str, patience: float, recent: float) -> list[str]:
    """What is blocked beside an operation that has waited for too long, or was and gave up just now.

    Two that wait for each other give up at the same time, and each has to name the other.

    Args:
      operation: its type and name.
      step: the number of its step.
      state: how it stands.
      patience: seconds that it was to wait.
      recent: how long ago another one may have given up, in seconds, to be named too.
    """
    own = f"{operation} of step {step} "
    now = time.monotonic()
    before = [line for when, other, line in _stalled.copy() if now - when < recent and other != own]
    _stalled.append((now, own, f"{own}gave up after {patience:.1f} s: {state}"))
    return [line for line in blocked_operations() if not line.startswith(own)] + before
