"""LocalRendezvous: where the devices of one process hand tensors to each other in one step."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from headrace.interfaces import StepControl
from headrace.kernels.transfer import check_key

__all__ = ["LocalRendezvous"]


class LocalRendezvous:
    """The rendezvous of one step in this process (see `interfaces.Rendezvous`). Mutable and thread-safe.

    Args:
      step: the number of the step, for errors.
    """

    def __init__(self, step: int) -> None:
        self._step = step
        self._condition = threading.Condition()
        self._values: dict[str, deque[tuple[Any, bool]]] = {}
        self._error: BaseException | None = None

    def send(self, key: str, value: Any, is_dead: bool) -> None:
        """Leave a value for whoever receives `key` (see the interface)."""
        check_key(key)
        with self._condition:
            self._raise_if_given_up()
            self._values.setdefault(key, deque()).append((value, is_dead))
            self._condition.notify_all()

    def recv(self, key: str, step: StepControl) -> tuple[Any, bool]:
        """Wait for the value under `key` and take it away (see the interface)."""
        check_key(key)

        def is_over() -> bool:
            return bool(self._values.get(key)) or self._error is not None

        with self._condition:
            step.wait(self._condition, is_over, lambda: self._describe(key))
            self._raise_if_given_up()
            queue = self._values[key]
            value = queue.popleft()
            if not queue:
                del self._values[key]
            return value

    def start_abort(self, error: BaseException) -> None:
        """Give the step up (see the interface)."""
        with self._condition:
            if self._error is None:
                self._error = error
            self._values.clear()
            self._condition.notify_all()

    def _raise_if_given_up(self) -> None:
        if self._error is not None:
            raise self._error

    def _describe(self, key: str) -> str:
        source, _, destination, tensor, frame = key.split(";")
        inside = "" if frame == "0:0" else f" in iteration {frame}"
        return f"'{tensor}'{inside} that {source} sends to {destination} in step {self._step}"
