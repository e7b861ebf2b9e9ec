"""The event files of one writer: when records are written, when a new file is begun, and what a full disk does.

Two forms with the same methods: `EventLog` works in the thread that calls it; `BackgroundLog` hands everything to a
thread of its own, the making of large records (compressed images) included.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_viz.event_file import EventFile
from headrace_viz.events import file_version_event, first_scalar_event, scalar_event, scalar_head
from headrace_viz.storage import Folder

_PENDING_LIMIT_BYTES = 64 * 1024
_KEPT_LIMIT_BYTES = 64 * 1024 * 1024
_RETRY_AFTER_FAILURES_SECONDS = 5.0


class EventWriteWarning(RuntimeWarning):
    """Records cannot be written now, or were lost; the training that they are about goes on."""


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files are written.

    Attributes:
      flush_seconds: how long a record may wait.
      max_file_bytes: size from which on a new file is begun; None for a single file.
      sync: whether each write waits until the disk has the bytes.
      suffix: end of the files' names.
    """

    flush_seconds: float
    max_file_bytes: int | None = None
    sync: bool = False
    suffix: str = ""


class EventLog:
    """Mutable: the event files of one writer. Not thread-safe.

    Args:
      folder: of the run.
      options: how to write.
      now: seconds since the epoch.
      header: events that the first file begins with, after its version.
    Raises:
      OSError: the first file cannot be made or written. Later errors become warnings.
    """

    def __init__(self, folder: Folder, options: FileOptions, now: float, header: list[bytes]) -> None:
        self._folder = folder
        self._options = options
        self._heads: dict[str, bytes] = {}
        self._failing = False
        self._lost_bytes = 0
        self._retry_at = 0.0
        self._flush_due = now + options.flush_seconds
        self._file = self._new_file(now)
        for event in header:
            self._file.append(event)
        self._file.write_pending()

    @property
    def path(self) -> Path | str:
        """The file that is being written."""
        return self._file.path

    def scalar(self, now: float, wall_time: float, step: int, tag: str, value: bytes) -> None:
        """Add a point of a curve; the first one in each file tells the plugin that it belongs to.

        Args:
          now: seconds since the epoch, for flushing.
          wall_time: the same for the record.
          step: training step.
          tag: of the curve.
          value: float32, little-endian.
        """
        head = self._heads.get(tag)
        if head is None:
            head = self._heads[tag] = scalar_head(tag)
            self._file.append(first_scalar_event(wall_time, step, tag, value))
        else:
            self._file.append(scalar_event(wall_time, step, head, value))
        if now >= self._flush_due or self._file.pending_bytes >= _PENDING_LIMIT_BYTES:
            self._write(now)

    def add(self, now: float, make: Callable[[], bytes]) -> None:
        """Add the event that `make` returns."""
        self._file.append(make())
        if now >= self._flush_due or self._file.pending_bytes >= _PENDING_LIMIT_BYTES:
            self._write(now)

    def flush(self, now: float) -> None:
        """Write all waiting records, or warn.

        Args:
          now: seconds since the epoch; the next writing is due `flush_seconds` later.
        """
        self._retry_at = 0.0
        self._write(now)

    def flush_if_due(self, now: float) -> None:
        """Write the waiting records if they have waited long enough."""
        if now >= self._flush_due and self._file.pending_bytes:
            self._write(now)

    def close(self) -> None:
        """Write all waiting records and close the file, or warn that they are lost."""
        try:
            self._file.close()
        except OSError as error:
            self._lost_bytes += self._file.drop_pending()
            self._warn(f"{self._lost_bytes} bytes of events are lost", error)
            return
        self._report_recovery()

    def _write(self, now: float) -> None:
        self._flush_due = now + self._options.flush_seconds
        if self._failing and time.monotonic() < self._retry_at:
            self._bound_pending()
            return
        try:
            self._file.write_pending()
        except OSError as error:
            if not self._failing:
                self._warn("events cannot be written; they are kept in memory and tried again", error)
            self._failing = True
            self._retry_at = time.monotonic() + _RETRY_AFTER_FAILURES_SECONDS
            self._bound_pending()
            return
        self._report_recovery()
        limit = self._options.max_file_bytes
        if limit is not None and self._file.size >= limit:
            self._rotate(now)

    def _rotate(self, now: float) -> None:
        try:
            file = self._new_file(now)
        except OSError as error:
            self._warn("no new event file can be made; the old one grows on", error)
            return
        self._file.close()
        self._file = file
        self._heads.clear()

    def _new_file(self, now: float) -> EventFile:
        file = EventFile(self._folder, now, self._options.suffix, sync=self._options.sync)
        file.append(file_version_event(now))
        return file

    def _bound_pending(self) -> None:
        if self._file.pending_bytes > _KEPT_LIMIT_BYTES:
            self._lost_bytes += self._file.drop_pending()
            self._heads.clear()  # what told the plugin of a tag may be among what was lost

    def _report_recovery(self) -> None:
        if self._lost_bytes:
            self._warn(f"events are written again; {self._lost_bytes} bytes of them were lost meanwhile", None)
        self._failing, self._lost_bytes = False, 0

    def _warn(self, what: str, error: OSError | None) -> None:
        cause = "" if error is None else f": {error.strerror or error}; free some space, training goes on"
        warnings.warn(f"{self.path}: {what}{cause}", EventWriteWarning, stacklevel=2)


class BackgroundLog:
    """Mutable: an event log that a thread of its own writes. Its methods are called by one thread at a time.

    Args:
      log: the log; nobody else uses it from now on.
      flush_seconds: how often the thread looks for records that wait.
      max_queue: how many records of unknown cost (images, histograms) may wait before `add` does.
      clock: gives the time in seconds since the epoch.
    """

    def __init__(self, log: EventLog, flush_seconds: float, max_queue: int, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._room = threading.Semaphore(max_queue)
        self._wake = threading.Event()
        self._raised: EventWriteWarning | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-viz-writer", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path | str:
        """The file that is being written."""
        return self._log.path

    def scalar(self, now: float, wall_time: float, step: int, tag: str, value: bytes) -> None:
        """Hand over a point, see `EventLog.scalar`."""
        self._calls.append((self._log.scalar, (now, wall_time, step, tag, value)))
        if len(self._calls) >= 4096:
            self._wake.set()

    def add(self, now: float, make: Callable[[], bytes]) -> None:
        """Hand over an event to make; waits while `max_queue` others do."""
        self._room.acquire()
        self._calls.append((self._made, (now, make)))
        self._wake.set()

    def flush(self, now: float) -> None:
        """Wait until all is written."""
        self._call_and_wait(self._log.flush, now)

    def close(self) -> None:
        """Write all and end the thread."""
        if threading.current_thread() is self._thread:
            # A forgotten writer is collected in any thread, this one too, where waiting for itself would be for ever.
            self._calls.extend([(self._log.close, ()), (self._stop, ())])
            return
        try:
            self._call_and_wait(self._log.close)
        finally:
            self._calls.append((self._stop, ()))
            self._wake.set()
            self._thread.join()

    def _call_and_wait(self, function: Callable[..., None], *arguments: float) -> None:
        done = threading.Event()
        self._calls.extend([(function, arguments), (done.set, ())])
        self._wake.set()
        done.wait()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _made(self, now: float, make: Callable[[], bytes]) -> None:
        try:
            self._log.add(now, make)
        finally:
            self._room.release()

    def _stop(self) -> None:
        raise _StopThread

    def _run(self) -> None:
        while True:
            self._wake.wait(self._flush_seconds)
            self._wake.clear()
            try:
                while self._calls:
                    function, arguments = self._calls.popleft()
                    self._guarded(function, arguments)
                self._guarded(self._log.flush_if_due, (self._clock(),))
            except _StopThread:
                return

    def _guarded(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Call; the thread must outlive one bad record, since its owner waits for it."""
        try:
            try:
                function(*arguments)
            except (_StopThread, EventWriteWarning):
                raise
            except Exception as error:
                message = f"{self.path}: an event is lost: {type(error).__name__}: {error}"
                warnings.warn(message, EventWriteWarning, stacklevel=2)
        except EventWriteWarning as warning:  # where warnings are errors; the caller of flush or close hears of it
            self._raised = warning


class _StopThread(Exception):
    """Ends the thread."""
