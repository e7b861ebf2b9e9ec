"""Workers: the threads that help steps. One may wait for hours, so there are always as many as there is work for."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from headrace.runtime.blocked import at_rest

__all__ = ["submit"]

IDLE_SECONDS = 10.0
"""A thread that has had nothing to do for so long ends."""

_Job = Callable[[], None]
_idle: list[SimpleQueue[_Job]] = []
_lock = threading.Lock()
_numbers = itertools.count(1)


def submit(job: _Job) -> None:
    """Run `job` in another thread, at once: one that is idle, or a new one. The job must not raise."""
    with _lock:
        inbox = _idle.pop() if _idle else None
    if inbox is not None:
        inbox.put(job)
        return
    threading.Thread(target=_work, args=(job,), name=f"headrace-worker-{next(_numbers)}", daemon=True).start()


def _work(job: _Job) -> None:
    inbox: SimpleQueue[_Job] = SimpleQueue()
    while True:
        job()
        del job  # it may hold large values
        with _lock:
            _idle.append(inbox)
        try:
            with at_rest():
                job = inbox.get(timeout=IDLE_SECONDS)
        except Empty:
            with _lock:
                if inbox in _idle:
                    _idle.remove(inbox)
                    return
            job = inbox.get()  # it was given a job at the last moment


if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(after_in_child=_idle.clear)
