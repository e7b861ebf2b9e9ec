"""Ctrl-C and SIGTERM between steps: a step that has begun is finished, so that no variable is left half updated."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While it is entered, the first Ctrl-C or SIGTERM is only noted; a second one has its usual effect at once.

    SIGTERM is how a machine that is taken away announces itself. Works in the main thread, which alone gets signals;
    elsewhere it does nothing.

    Attributes:
      received: the signal that was noted, or None.

    Example:
      >>> import headrace as hr, signal
      >>> step = 0
      >>> with hr.Interruption() as interruption:
      ...     while not interruption.requested:
      ...         step += 1  # train a step here
      ...         if step == 3:
      ...             signal.raise_signal(signal.SIGTERM)  # as the system does before it takes the machine away
      ...     print("save step", step)
      save step 3
      >>> try:
      ...     interruption.pass_on("training")
      ... except SystemExit as end:
      ...     print("exit code", end.code)
      exit code 143
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """True once a signal was noted."""
        return self.received is not None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def pass_on(self, what: str) -> None:
        """Once it was left: let the noted signal, if there is one, have its usual effect.

        Args:
          what: what was interrupted.
        Raises:
          KeyboardInterrupt: it was Ctrl-C.
          SystemExit: it was SIGTERM, and the program has no handler of its own for it.
        """
        if self.received is signal.SIGINT:
            raise KeyboardInterrupt(what)
        if self.received is signal.SIGTERM:
            handler = self._previous[signal.SIGTERM]
            if not callable(handler):
                raise SystemExit(128 + signal.SIGTERM)  # what a shell reports of a process that it killed
            handler(signal.SIGTERM, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        noted = signal.Signals(number)
        if self.requested:
            self.received = noted
            for each, handler in self._previous.items():
                signal.signal(each, handler)
            self.pass_on("interrupted twice")
        self.received = noted
