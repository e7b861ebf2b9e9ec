"""Coordinator: lets several threads stop together, and brings their errors to the one who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from headrace.errors import DeadlineExceededError, EndOfDataError

__all__ = ["Coordinator"]


class Coordinator:
    """Threads that work together and stop together. Mutable and thread-safe; also a context manager.

    Leaving the `with` block asks all threads to stop and waits for them. The end of data (`EndOfDataError`) counts as
    a normal end there; what a thread raised is raised again.

    Args:
      grace_period: seconds to wait for the threads at the end of the `with` block.

    Example:
      >>> import headrace as hr
      >>> counts = []
      >>> with hr.Coordinator() as coordinator:
      ...     def count():
      ...         counts.append(len(counts))
      ...         if len(counts) == 3:
      ...             coordinator.request_stop()
      ...     _ = coordinator.start_loop(count)
      ...     _ = coordinator.wait_for_stop()
      >>> counts
      [0, 1, 2]
    """

    def __init__(self, *, grace_period: float = 120.0) -> None:
        self.grace_period = grace_period
        self._changed = threading.Condition()
        self._is_stopping = False
        self._running: dict[threading.Thread, None] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._error: BaseException | None = None

    def should_stop(self) -> bool:
        """True once somebody asked the threads to stop."""
        return self._is_stopping

    def request_stop(self, error: BaseException | None = None) -> None:
        """Ask all threads to stop.

        Args:
          error: why, or None; `join` raises the first one, or a later one that was the cause of it. `EndOfDataError` is
            no fault and counts as None.
        """
        with self._changed:
            if error is not None and not isinstance(error, EndOfDataError):
                self._error = error if self._error is None or _is_caused_by(self._error, error) else self._error
            self._is_stopping = True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until the threads are asked to stop: `while not coordinator.wait_for_stop(60): save()`.

        Args:
          timeout: seconds, or None.
        Returns:
          Whether they are.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._is_stopping, timeout)

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the threads are asked to stop, or now if they were; it must not wait.

        It is for waking threads that wait for something else, as a queue.
        """
        with self._changed:
            if not self._is_stopping:
                self._callbacks.append(callback)
                return
        callback()

    def start(self, function: Callable[..., object], *args: Any, name: str | None = None) -> threading.Thread:
        """Run a function in a thread; if it raises, all threads are asked to stop.

        Args:
          function: called once with `args`.
          *args: its arguments.
          name: the thread's name.
        Returns:
          The thread.
        """

        def work() -> None:
            try:
                function(*args)
            except BaseException as error:
                error.add_note(f"raised in thread '{threading.current_thread().name}'")
                self.request_stop(error)
            finally:
                with self._changed:
                    del self._running[thread]
                    self._changed.notify_all()

        thread = threading.Thread(target=work, name=name or getattr(function, "__name__", None), daemon=True)
        with self._changed:
            self._running[thread] = None
        thread.start()
        return thread

    def start_loop(self, function: Callable[..., object], *args: Any, name: str | None = None) -> threading.Thread:
        """Run a function again and again in a thread, until the threads are asked to stop or it raises; see `start`."""

        def loop() -> None:
            while not self.should_stop():
                function(*args)

        return self.start(loop, name=name or getattr(function, "__name__", None))

    def join(self, grace_period: float | None = None) -> None:
        """Wait until the threads were asked to stop or have all ended, then for their end.

        Args:
          grace_period: seconds to wait once they were asked to stop; that of the coordinator by default.
        Raises:
          DeadlineExceededError: threads are still running after that; the text names them.
          BaseException: the first error with which a thread ended or stop was requested.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or not self._running)
        self._join(self.grace_period if grace_period is None else grace_period)
        if self._error is not None:
            raise self._error

    def _join(self, grace_period: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._running, grace_period)
            late = [thread.name for thread in self._running]
        if late:
            raise DeadlineExceededError(
                f"{len(late)} threads have not stopped",
                expected=f"an end within {grace_period} s of the request to stop",
                got="still running: " + ", ".join(f"'{name}'" for name in late),
                hint="let them look at coordinator.should_stop(), or close the queue or session that they wait for",
            ) from self._error

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.request_stop()
        normal = error is None or isinstance(error, EndOfDataError)
        try:
            self._join(self.grace_period)
        except DeadlineExceededError as late:
            if normal:
                raise
            assert error is not None
            error.add_note(str(late))
        if self._error is not None and (normal or _is_caused_by(error, self._error)):
            raise self._error
        return normal


def _is_caused_by(error: BaseException | None, cause: BaseException) -> bool:
    while error is not None and error is not cause:
        error = error.__cause__
    return error is cause
