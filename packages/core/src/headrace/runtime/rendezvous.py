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

    Each key that somebody waits for has a condition of its own, on one lock: a value wakes only those who wait for it.

    Args:
      step: the number of the step, for errors.
    """

    __slots__ = ("_conditions", "_error", "_lock", "_step", "_values")

    def __init__(self, step: int) -> None:
        self._step = step
        self._lock = threading.RLock()
        self._conditions: dict[str, threading.Condition] = {}
        self._values: dict[str, deque[tuple[Any, bool]]] = {}
        self._error: BaseException | None = None

    def send(self, key: str, value: Any, is_dead: bool) -> None:
        """Leave a value for whoever receives `key` (see the interface)."""
        check_key(key)
        with self._lock:
            self._raise_if_given_up()
            self._values.setdefault(key, deque()).append((value, is_dead))
            waited_for = self._conditions.get(key)
            if waited_for is not None:
                waited_for.notify_all()

    def recv(self, key: str, step: StepControl) -> tuple[Any, bool]:
        """Wait for the value under `key` and take it away (see the interface)."""
        check_key(key)

        def is_over() -> bool:
            return key in self._values or self._error is not None

        with self._lock:
            if not is_over():
                condition = self._conditions.setdefault(key, threading.Condition(self._lock))
                step.wait(condition, is_over, lambda: self._describe(key))
            self._raise_if_given_up()
            queue = self._values[key]
            value = queue.popleft()
            if not queue:
                del self._values[key]
            return value

    def start_abort(self, error: BaseException) -> None:
        """Give the step up (see the interface)."""
        with self._lock:
            if self._error is None:
                self._error = error
            self._values.clear()
            for condition in self._conditions.values():
                condition.notify_all()

    def _raise_if_given_up(self) -> None:
        if self._error is not None:
            raise self._error

    def _describe(self, key: str) -> str:
        source, _, destination, tensor, frame = key.split(";")
        inside = "" if frame == "0:0" else f" in iteration {frame}"
        return f"'{tensor}'{inside} that {source} sends to {destination} in step {self._step}"
