"""BackgroundWork: one piece of work at a time in a thread of its own, whose error is never lost."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable

from headrace.errors import DeadlineExceededError
from headrace_checkpoint.threads import stand_back

__all__ = ["BackgroundWork"]

_log = logging.getLogger(__name__)


class BackgroundWork:
    """Does one thing at a time in the background. Mutable; for use by one thread.

    The work leaves a processor to the program, where there are several, and stands back where the program wants more
    of them (on Linux; other systems know the priority of a process only).

    An error of the work is raised by the next call of any method, once; where there is none, the log has it at the end.
    The interpreter waits at its end for work that is under way.

    Args:
      what: what is being done, for errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._wanted = threading.Event()
        self._last_words: weakref.finalize[..., BackgroundWork] | None = None

    @property
    def is_running(self) -> bool:
        """True while work is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object], *, head_start: float = 0.0) -> None:
        """Begin some work, after the work before has ended.

        Args:
          work: what to do.
          head_start: seconds that the program has before the work begins; it begins at once when it is waited for.
        Raises:
          BaseException: what ended the work before.
        """
        self.wait()
        self._wanted.clear()
        name = f"headrace-{self._what.split()[0]}"
        self._thread = threading.Thread(target=self._run, args=(work, head_start), name=name)
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
            self._wanted.set()
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
            if self._last_words is not None:
                self._last_words.detach()
            raise error

    def _run(self, work: Callable[[], object], head_start: float) -> None:
        stand_back()
        self._wanted.wait(head_start)
        try:
            work()
        except BaseException as error:  # handed to the thread that asks next
            self._error = error
            self._last_words = weakref.finalize(self, _log.error, "%s failed: %s", self._what, str(error))
