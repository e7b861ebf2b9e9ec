"""Several things at a time: reading, writing and computing checksums let other threads run.

Not `concurrent.futures`, whose pools take no more work once the program has ended, though it still waits for a save in
the background: that save was lost without a word.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import TypeVar

__all__ = ["in_threads", "stand_back"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_THREADS = min(8, os.cpu_count() or 1)
"""Memory gives no more than some cores can sum up."""
_left_free: ContextVar[int] = ContextVar("_left_free", default=0)
"""Threads that `in_threads` must do without, of those that it may use."""
_NICENESS = 10
"""Added to that of the process. Where a thread of the program wants the same processor, the work gets one part of ten,
so that a step does not take longer for the checksums beside it. At 19 it would be one of seventy, and beside other
programs that keep every processor busy a save would hardly end."""


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> list[Result]:
    """Call a function of each item, several at a time.

    Args:
      function: called from several threads at once.
      items: in the order of the results.
      threads: how many at most; None: as many as there are processors for.
    Raises:
      BaseException: what the function raised of the first item for which it raised; no further ones are begun then.
    """
    every = list(items)
    count = min(len(every), max(1, _THREADS - _left_free.get()) if threads is None else threads)
    if len(every) < 2:
        return [function(item) for item in every]
    rest = deque(enumerate(every))
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        with contextlib.suppress(IndexError):  # nothing is left
            while True:
                number, item = rest.popleft()
                try:
                    results[number] = function(item)
                except BaseException as error:  # raised in the calling thread
                    errors[number] = error
                    rest.clear()

    workers = [threading.Thread(target=work, name=f"headrace-files-{number}") for number in range(count)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:  # also where Ctrl-C ended the waiting
        rest.clear()
        for worker in workers:
            if worker.ident is not None:
                worker.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(every))]


def stand_back() -> None:
    """Let the calling thread, and those that it will start, have less of the processors than the others have."""
    _left_free.set(1)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a container may forbid it; the work is the same without
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)
