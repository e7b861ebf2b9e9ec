"""Threads of tests: calls that go on beside the test, and waiting for what one of them is about to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Call", "until"]

PATIENCE = 30.0
"""Seconds after which something that must happen is given up."""


class Call:
    """A call in a thread of its own.

    Args:
      function: what to call, without arguments.

    Example:
      >>> Call(lambda: 6 * 7).result()
      42
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error

    @property
    def is_done(self) -> bool:
        """True once it has ended."""
        return not self._thread.is_alive()

    def result(self, patience: float = PATIENCE) -> Any:
        """What it returned, once it has.

        Args:
          patience: seconds after which it counts as stuck.
        Raises:
          TimeoutError: it is stuck.
          BaseException: what it raised.
        """
        self._thread.join(patience)
        if not self.is_done:
            raise TimeoutError("the call is stuck")
        if self._error is not None:
            raise self._error
        return self._value


def until(predicate: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do.

    Args:
      predicate: whether it has done it.
    Raises:
      TimeoutError: it does not.
    """
    pause = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        if predicate():
            return
        pause.wait(0.001)
    raise TimeoutError("what the test waits for did not happen")
