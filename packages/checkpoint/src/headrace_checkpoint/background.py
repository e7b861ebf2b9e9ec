"""BackgroundWork: one piece of work at a time in a thread of its own, whose error is never lost."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable

from headrace.errors import DeadlineExceededError
from headrace_checkpoint.checksum import leave_a_processor

__all__ = ["BackgroundWork"]


_NICENESS = 10
"""Added to that of the process. Where a thread of the program wants the same processor, the work gets one part of ten,
so that a step does not take longer for the checksums beside it. At 19 it would be one of seventy, and beside other
programs that keep every processor busy a save would hardly end."""


class BackgroundWork:
    """Does one thing at a time in the background. Mutable; for use by one thread.

    The work leaves a processor to the program, where there are several, and stands back where the program wants more
    of them (on Linux; other systems know the priority of a process only).

    An error of the work is raised by the next call of any method, once. The interpreter waits at its end for work that
    is under way.

    Args:
      what: what is being done, for errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def is_running(self) -> bool:
        """True while work is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object]) -> None:
        """Begin some work, after the work before has ended.

        Raises:
          BaseException: what ended the work before.
        """
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"headrace-{self._what.split()[0]}")
        self._thread.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until nothing is under way.

        Args:
          timeout: seconds to wait, or None.
        Raises:
          DeadlineExceededError: it goes on.
          BaseException: what ended the work.
        """
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise DeadlineExceededError(
                    f"{self._what} is still going on",
                    expected=f"an end within {timeout} s",
                    got="work that goes on",
                    hint="wait again; a slow disk takes its time",
                )
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, work: Callable[[], object]) -> None:
        _stand_back()
        try:
            work()
        except BaseException as error:  # handed to the thread that asks next
            self._error = error


def _stand_back() -> None:
    """Let the calling thread, and those that it will start, have less of the processors than the others."""
    leave_a_processor()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a container may forbid it; the work is the same without
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)
