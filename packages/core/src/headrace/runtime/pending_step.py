"""PendingStep: a step that runs in the background."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from headrace.errors import DeadlineExceededError
from headrace.runtime import workers
from headrace.runtime.blocked import at_rest
from headrace.runtime.step_control import Cancellation

__all__ = ["PendingStep"]


class PendingStep:
    """A step that runs in the background. Thread-safe."""

    def __init__(self, run: Callable[[Cancellation], Any]) -> None:
        self._cancellation = Cancellation()
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        workers.submit(functools.partial(self._work, run))

    def _work(self, run: Callable[[Cancellation], Any]) -> None:
        try:
            self._value = run(self._cancellation)
        except BaseException as error:  # handed to the thread that asks for the result
            self._error = error
        finally:
            self._done.set()

    def cancel(self) -> None:
        """Ask the step to end, before its next operation or where it waits; `result` then raises CancelledError.

        Other steps go on.
        """
        self._cancellation.cancel()

    @property
    def is_done(self) -> bool:
        """True once the step has ended."""
        return self._done.is_set()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the step and return what it fetched. Ctrl-C while waiting cancels the step.

        Args:
          timeout: seconds to wait, or None.
        Raises:
          DeadlineExceededError: the step goes on.
          HeadraceError: whatever ended the step.
        """
        try:
            with at_rest() if timeout is None else nullcontext():
                ended = self._done.wait(timeout)
        except KeyboardInterrupt:
            self._cancellation.cancel("Ctrl-C")
            raise
        if not ended:
            raise DeadlineExceededError(
                "the step is still running",
                expected=f"an end within {timeout} s",
                got="a step that goes on",
                hint="wait again, or cancel()",
            )
        if self._error is not None:
            raise self._error
        return self._value
