"""The event writer: what TensorBoard shows of a run, from any thread, into event files of its own."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, SupportsIndex

import headrace as hr
from headrace.errors import FailedPreconditionError, InvalidArgumentError
from headrace_viz.event_log import BackgroundLog, EventLog, FileOptions
from headrace_viz.events import (
    SerializedSummary,
    checked_step,
    checked_tag,
    checked_wall_time,
    graph_event,
    run_metadata_event,
    scalar_bytes,
    session_start_event,
    summary_event,
    values_event,
)
from headrace_viz.graph_view import divided_view, graph_view
from headrace_viz.proto.event_pb2 import Summary
from headrace_viz.run_metadata import run_metadata
from headrace_viz.storage import folder_of
from headrace_viz.values import tagged_graph

_MAX_REMOTE_FILE_BYTES = 4 * 1024 * 1024
_writers: weakref.WeakSet[EventWriter] = weakref.WeakSet()


def _unlock() -> None:
    """A lock that another thread held during a fork would stay locked in the child, where that thread is no more."""
    for writer in list(_writers):
        writer._forget_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)

MakeValues = Callable[[], Sequence[Summary.Value]]


class EventWriter:
    """Mutable: writes what TensorBoard shows of one run. Thread-safe.

    A run is a folder. Every writer makes files of its own in it and never touches another one, so several writers, of
    one process or of many, may write one run at the same time. Records reach the file when 64 KiB of them wait, when
    one is added `flush_seconds` after the last time, at `flush` and at `close`. A process that is killed loses no more
    than those, and leaves a file whose whole records can be read.

    A disk that is full, or gone, does not stop a training: an `EventWriteWarning` says so once, up to 64 MiB of records
    are kept and tried again, and another warning tells when and how much was lost, if anything.

    Args:
      logdir: folder of the run; made if it is missing. A URL such as `s3://bucket/run` is reached by fsspec.
      purge_step: for a run that goes on from a checkpoint: what earlier files hold at this step or later is no longer
        shown. None shows all.
      flush_seconds: how long a record may wait, in seconds, while others are added; with `background`, in any case.
      background: write, and compress images, in a thread of its own.
      max_queue: with `background`, how many images, histograms and the like may wait before the caller does.
      max_file_bytes: size from which on another file is begun; by default one file, or 4 MiB where `logdir` is remote,
        since a remote file is put anew each time.
      fsync: wait at each write until the disk has the bytes, so that they survive a loss of power.
      filename_suffix: end of the names of the files.
      clock: gives the time in seconds since the epoch.
    Raises:
      OSError: the folder or the file cannot be made.
      InvalidArgumentError: `purge_step` is no 64-bit integer, or a size or time is not positive.
      NotFoundError: `logdir` is a URL that no installed package reaches.

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
        background: bool = False,
        max_queue: int = 10,
        max_file_bytes: int | None = None,
        fsync: bool = False,
        filename_suffix: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        _check_positive("flush_seconds", flush_seconds)
        _check_positive("max_queue", max_queue)
        _check_positive("max_file_bytes", 1 if max_file_bytes is None else max_file_bytes)
        now = clock()
        header = [] if purge_step is None else [session_start_event(now, purge_step)] * 2
        self.folder = folder_of(logdir)
        if "://" in os.fspath(logdir) and max_file_bytes is None:
            max_file_bytes = _MAX_REMOTE_FILE_BYTES
        log = EventLog(self.folder, FileOptions(flush_seconds, max_file_bytes, fsync, filename_suffix), now, header)
        self._log = BackgroundLog(log, flush_seconds, max_queue, clock) if background else log
        self._clock = clock
        self._lock = threading.Lock()
        self._process = os.getpid()
        _writers.add(self)
        # also at the end of a program that forgot to close
        self._close_once = weakref.finalize(self, _close_in, self._process, self._log)

    @property
    def path(self) -> Path | str:
        """The file that is being written: a Path, or the URL of a remote one."""
        return self._log.path

    def scalar(self, tag: str, value: object, step: SupportsIndex, *, wall_time: float | None = None) -> None:
        """Write one point of the curve `tag`.

        Args:
          tag: name of the curve, kept as it is; `/` groups curves.
          value: a real number or an array `[]`; stored as float32, NaN and infinities included.
          step: training step; one tag should have one value at a step.
          wall_time: seconds since the epoch; by default now.
        Raises:
          DTypeError: the value is not a real number.
          ShapeError: the value has more or fewer than one element.
          InvalidArgumentError: the tag is no text, the step no 64-bit integer, or the time no finite number.
          FailedPreconditionError: the writer is closed, or was made in another process.
        """
        number = scalar_bytes(value)
        whole_step = checked_step(step)
        checked_tag(tag)
        checked_wall_time(wall_time)
        with self._lock:
            self._check_open()
            now = self._clock()
            self._log.scalar(now, now if wall_time is None else wall_time, whole_step, tag, number)

    def scalars(self, values: Mapping[str, object], step: SupportsIndex, *, wall_time: float | None = None) -> None:
        """Write one point of each of several curves.

        Args:
          values: value by tag, as in `scalar`.
          step: training step.
          wall_time: seconds since the epoch; by default now.
        Raises:
          HeadraceError: as `scalar`; then none of the points is written.
        """
        numbers = [(checked_tag(tag), scalar_bytes(value)) for tag, value in values.items()]
        whole_step = checked_step(step)
        checked_wall_time(wall_time)
        with self._lock:
            self._check_open()
            now = self._clock()
            for tag, number in numbers:
                self._log.scalar(now, now if wall_time is None else wall_time, whole_step, tag, number)

    def values(
        self,
        values: Sequence[Summary.Value] | MakeValues,
        step: SupportsIndex,
        *,
        wall_time: float | None = None,
    ) -> None:
        """Write values of any kind, as the functions of `headrace_viz.values` make them.

        Args:
          values: the values, or a function that makes them, in the writer's thread where it has one. What the function
            needs must not change meanwhile.
          step: training step.
          wall_time: seconds since the epoch; by default now.
        Raises:
          InvalidArgumentError: the step is no 64-bit integer, or the time no finite number.
          FailedPreconditionError: the writer is closed, or was made in another process.
        """
        whole_step = checked_step(step)
        checked_wall_time(wall_time)
        make = values if callable(values) else _constant(values)
        self._add(lambda now: values_event(now if wall_time is None else wall_time, whole_step, make()))

    def summary(self, summary: SerializedSummary, step: SupportsIndex, *, wall_time: float | None = None) -> None:
        """Write what a summary operation gave.

        Args:
          summary: a serialised Summary, or a string array `[]` of one: the value of a `ScalarSummary` or `MergeSummary`
            operation.
          step: training step.
          wall_time: seconds since the epoch; by default now.
        Raises:
          InvalidArgumentError: `summary` is not such bytes, the step no 64-bit integer, or the time no finite number.
          FailedPreconditionError: the writer is closed, or was made in another process.
        """
        checked_wall_time(wall_time)
        event = summary_event(self._clock() if wall_time is None else wall_time, step, summary)
        self._add(lambda _: event)

    def graph(self, graph: hr.Graph, *, tag: str | None = None, wall_time: float | None = None) -> None:
        """Write the graph of the run, or another one beside it; a later one takes the place of one of the same tag.

        The values of constants are left out: TensorBoard shows none above 1 KB.

        Args:
          graph: the graph.
          tag: None for the graph of the run; else the name by which TensorBoard offers this one, such as "optimised".
          wall_time: seconds since the epoch; by default now.
        Raises:
          InvalidArgumentError: the tag is no text, or the time no finite number.
          FailedPreconditionError: the writer is closed, or was made in another process.
        """
        if tag is not None:
            self.values([tagged_graph(tag, graph_view(graph))], 0, wall_time=wall_time)
            return
        checked_wall_time(wall_time)
        view = graph_view(graph).SerializeToString()
        self._add(lambda now: graph_event(now if wall_time is None else wall_time, view))

    def step_graphs(
        self,
        session: hr.Session,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        tag: str = "step",
        trace: hr.Trace | None = None,
        wall_time: float | None = None,
    ) -> None:
        """Write what a step becomes on its way from the session's graph to its devices, as three graphs by tag.

        `<tag>/built` is the session's graph, `<tag>/optimised` what all passes leave of it for this step, with the
        device on which each operation was placed, and `<tag>/divided` what each device runs: a name scope for each,
        with the `_Send` and `_Recv` operations of the transfers between them. Nothing is run.

        Args:
          session: whose step it is.
          fetches: as in `session.run`.
          feeds: as in `session.run`; their shapes become the shapes of the graph.
          tag: name of the step, the first part of the tags.
          trace: of that step, by which TensorBoard colours the second and the third graph by compute time and memory.
          wall_time: seconds since the epoch; by default now.
        Raises:
          FeedError: as `session.run`.
          PlacementError: no device satisfies what is asked for.
          InvalidArgumentError: the tag is no text.
          FailedPreconditionError: the writer is closed, or was made in another process.
        """
        checked_tag(tag)
        optimised, parts = session.optimized_graph(fetches, feeds), session.partitions(fetches, feeds)
        took, took_there = (None, None) if trace is None else (run_metadata(trace), run_metadata(trace, scoped=True))
        graphs = [
            tagged_graph(f"{tag}/built", graph_view(session.graph)),
            tagged_graph(f"{tag}/optimised", graph_view(optimised), took),
            tagged_graph(f"{tag}/divided", divided_view(parts), took_there),
        ]
        self.values(graphs, 0, wall_time=wall_time)

    def run_metadata(self, trace: hr.Trace, tag: str) -> None:
        """Write what traced steps took, by which TensorBoard colours the graph of the run.

        Args:
          trace: of `session.run(..., trace=trace)`.
          tag: by which it is chosen in TensorBoard, such as "step 100"; each at most once in a run.
        Raises:
          InvalidArgumentError: the tag is no text.
          FailedPreconditionError: the writer is closed, or was made in another process.
        """
        checked_tag(tag)
        data = run_metadata(trace).SerializeToString()
        self._add(lambda now: run_metadata_event(now, tag, data))

    def flush(self) -> None:
        """Hand all waiting records to the operating system; readers see them from now on. Or warn.

        Raises:
          FailedPreconditionError: the writer is closed, or was made in another process.
        """
        with self._lock:
            self._check_open()
            self._log.flush(self._clock())

    def close(self) -> None:
        """Write all waiting records and close the file. Doing so again does nothing."""
        with self._lock:
            self._close_once()

    def _forget_lock(self) -> None:
        """Take a new lock, in a fork: a thread that was writing may have held the old one."""
        self._lock = threading.Lock()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, make: Callable[[float], bytes]) -> None:
        with self._lock:
            self._check_open()
            now = self._clock()
            self._log.add(now, lambda: make(now))

    def _check_open(self) -> None:
        if self._close_once.alive and os.getpid() == self._process:
            return
        forked = os.getpid() != self._process
        raise FailedPreconditionError(
            "the event writer belongs to another process" if forked else "the event writer is closed",
            where=str(self.path),
            expected="a call in the process that made it" if forked else "a call before close() or in the with block",
            got="a call in a fork of it" if forked else "a call after it",
            hint="make a new EventWriter on the same folder; it writes a file of its own",
        )


def _close_in(process: int, log: EventLog | BackgroundLog) -> None:
    if os.getpid() == process:  # a fork has a copy of the records that wait here; only their owner may write them
        log.close()


def _constant(values: Sequence[Summary.Value]) -> MakeValues:
    return lambda: values


def _check_positive(name: str, number: float) -> None:
    if not number > 0:
        raise InvalidArgumentError(
            f"{name} of an event writer cannot be used",
            expected="a positive number",
            got=repr(number),
            hint=f"leave {name} out for its default",
        )
