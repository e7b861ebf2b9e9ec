"""Compiling beside the steps: a plan that takes longer than a step may wait is made on a thread of its own.

Until it is there steps run by a stand-in, a plan of NumPy kernels over the same state. One thread compiles one plan
after the other: code generators hold a lock of their own, and more threads would only take time from the steps.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from headrace.plan.plan import Plan

__all__ = ["PlanInTime", "compiled_in_time"]

_log = logging.getLogger("headrace.plan")


class _Compiler:
    """Makes plans in turn on a thread that is there as long as some wait. Mutable and thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], Plan], Future[Plan]]] = deque()
        self._is_working = False

    def begin(self, make: Callable[[], Plan]) -> Future[Plan]:
        """Make a plan as soon as those before it are made; a process that ends waits for the one under way alone."""
        future: Future[Plan] = Future()
        with self._lock:
            self._waiting.append((make, future))
            if not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="headrace-compile").start()
        return future

    def forget(self) -> None:
        """After a fork: the thread has stayed in the parent."""
        self._lock, self._is_working = threading.Lock(), False
        self._waiting.clear()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            make, future = job
            try:
                plan = make()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(plan)

    def _next(self) -> tuple[Callable[[], Plan], Future[Plan]] | None:
        with self._lock:
            if not threading.main_thread().is_alive():  # nobody will run them
                self._waiting.clear()
            if self._waiting:
                return self._waiting.popleft()
            self._is_working = False
            return None


_compiler = _Compiler()
if hasattr(os, "register_at_fork"):  # not every system has processes that fork
    os.register_at_fork(after_in_child=_compiler.forget)


PlanInTime = tuple[Plan, "Future[Plan] | None"]
"""What to run now, and the better plan that is on its way where it is a stand-in."""


def compiled_in_time(make: Callable[[], Plan], stand_in: Callable[[], Plan | None], seconds: float) -> PlanInTime:
    """A plan, or after some time something that can run in its place.

    Args:
      make: makes the plan. Its errors are raised if they come in time, and told to the log otherwise.
      stand_in: makes what runs meanwhile, or gives None where nothing can: then the plan is waited for.
      seconds: how long to wait for the plan.
    """
    future = _compiler.begin(make)
    try:
        return future.result(seconds), None
    except TimeoutError:
        if future.done():  # at the last moment, or its own error is of this class
            return future.result(), None
    plan = stand_in()
    if plan is None:
        return future.result(), None
    future.add_done_callback(_tell)
    return plan, future


def _tell(future: Future[Plan]) -> None:
    error = future.exception()
    if error is not None:
        _log.error("compiling failed; steps go on with NumPy kernels: %s", error, exc_info=error)
