"""The event writer: scalars, summaries and the graph of a run, from any thread, into an event file of its own."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import SupportsIndex

import headrace as hr
from headrace.errors import FailedPreconditionError
from headrace_viz.event_file import EventFile
from headrace_viz.events import (
    SerializedSummary,
    checked_step,
    checked_tag,
    file_version_event,
    first_scalar_event,
    graph_event,
    scalar_bytes,
    scalar_event,
    scalar_head,
    session_start_event,
    summary_event,
)
from headrace_viz.graph_view import graph_view

_PENDING_LIMIT_BYTES = 64 * 1024


class EventWriter:
    """Mutable: writes what TensorBoard shows of one run. Thread-safe.

    A run is a folder. Every writer makes a file of its own in it and never touches another one, so several writers, of
    one process or of many, may write one run at the same time. Records reach the file when 64 KiB of them wait, when
    one is added `flush_seconds` after the last time, at `flush` and at `close`. A process that is killed loses no more
    than those, and leaves a file whose whole records can be read.

    Args:
      logdir: folder of the run; made if it is missing.
      purge_step: for a run that goes on from a checkpoint: what earlier files hold at this step or later is no longer
        shown. None shows all.
      flush_seconds: how long a record may wait, in seconds, while others are added.
      clock: gives the time in seconds since the epoch.
    Raises:
      OSError: the folder or the file cannot be made.
      InvalidArgumentError: `purge_step` is no 64-bit integer.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as logdir, EventWriter(logdir) as writer:
      ...     for step in range(3):
      ...         writer.scalar("loss", 1 / (1 + step), step)
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        *,
        purge_step: SupportsIndex | None = None,
        flush_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        now = clock()
        header = [file_version_event(now)]
        if purge_step is not None:
            header += [session_start_event(now, purge_step)] * 2
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._flush_due = now + flush_seconds
        self._lock = threading.Lock()
        self._heads: dict[str, bytes] = {}
        self._file = EventFile(Path(logdir), now)
        self._close_once = weakref.finalize(self, self._file.close)  # also at the end of a program that forgot to close
        for event in header:
            self._file.append(event)
        self._file.write_pending()

    @property
    def path(self) -> Path:
        """The file that this writer makes."""
        return self._file.path

    def scalar(self, tag: str, value: object, step: SupportsIndex) -> None:
        """Write one point of the curve `tag`.

        Args:
          tag: name of the curve, kept as it is; `/` groups curves.
          value: a real number or an array `[]`; stored as float32, NaN and infinities included.
          step: training step; one tag should have one value at a step.
        Raises:
          DTypeError: the value is not a real number.
          ShapeError: the value has more or fewer than one element.
          InvalidArgumentError: the tag is no text, or the step no 64-bit integer.
          FailedPreconditionError: the writer is closed.
          OSError: the disk is full or gone.
        """
        number = scalar_bytes(value)
        whole_step = checked_step(step)
        with self._lock:
            self._append_scalar(self._clock(), whole_step, tag, number)

    def scalars(self, values: Mapping[str, object], step: SupportsIndex) -> None:
        """Write one point of each of several curves.

        Args:
          values: value by tag, as in `scalar`.
          step: training step.
        Raises:
          HeadraceError: as `scalar`; then none of the points is written.
          OSError: the disk is full or gone.
        """
        numbers = [(checked_tag(tag), scalar_bytes(value)) for tag, value in values.items()]
        whole_step = checked_step(step)
        with self._lock:
            now = self._clock()
            for tag, number in numbers:
                self._append_scalar(now, whole_step, tag, number)

    def summary(self, summary: SerializedSummary, step: SupportsIndex) -> None:
        """Write what a summary operation gave.

        Args:
          summary: a serialised Summary, or a string array `[]` of one: the value of a `ScalarSummary` or `MergeSummary`
            operation.
          step: training step.
        Raises:
          InvalidArgumentError: `summary` is not such bytes, or the step is no 64-bit integer.
          FailedPreconditionError: the writer is closed.
          OSError: the disk is full or gone.
        """
        with self._lock:
            now = self._clock()
            self._append(now, summary_event(now, step, summary))

    def graph(self, graph: hr.Graph) -> None:
        """Write the graph of the run; a later one takes its place.

        The values of constants above 1 KB are left out: TensorBoard does not show them.

        Args:
          graph: the graph.
        Raises:
          FailedPreconditionError: the writer is closed.
          OSError: the disk is full or gone.
        """
        view = graph_view(graph).SerializeToString()
        with self._lock:
            now = self._clock()
            self._append(now, graph_event(now, view))

    def flush(self) -> None:
        """Hand all waiting records to the operating system; readers see them from now on.

        Raises:
          FailedPreconditionError: the writer is closed.
          OSError: the disk is full or gone; the records wait on.
        """
        with self._lock:
            self._check_open()
            self._file.write_pending()

    def close(self) -> None:
        """Write all waiting records and close the file. Doing so again does nothing.

        Raises:
          OSError: the disk is full or gone.
        """
        with self._lock:
            self._close_once()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append_scalar(self, now: float, step: int, tag: str, number: bytes) -> None:
        head = self._heads.get(tag)
        if head is None:
            head = scalar_head(tag)
            self._append(now, first_scalar_event(now, step, tag, number))
            self._heads[tag] = head
        else:
            self._append(now, scalar_event(now, step, head, number))

    def _append(self, now: float, event: bytes) -> None:
        self._check_open()
        self._file.append(event)
        if now >= self._flush_due or self._file.pending_bytes >= _PENDING_LIMIT_BYTES:
            self._flush_due = now + self._flush_seconds
            self._file.write_pending()

    def _check_open(self) -> None:
        if not self._close_once.alive:
            raise FailedPreconditionError(
                "the event writer is closed",
                where=str(self.path),
                expected="a call before close() or inside the with block",
                got="a call after it",
                hint="make a new EventWriter on the same folder; it writes a file of its own",
            )
