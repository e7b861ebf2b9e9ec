"""Trace: what one or several steps did, segment by segment and operation by operation.

A traced step writes down numbers only, one position and one time per operation; everything that can be said later, such
as names and sizes, is derived when somebody asks. So a trace costs about 0.1 us per operation.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.graph.operation import Operation
from headrace.interfaces import Compiled, OpHook

__all__ = ["OpRecord", "SegmentRecord", "SegmentRecorder", "StepRecord", "Trace", "active_traces"]

_SHOWN_TYPES = 3


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation of one traced step, or a group of them that the backend runs as a whole.

    Attributes:
      step: the step's number.
      name: the operation's name; that of the first one of a group.
      type: its type; of a group the first types, such as "Mul x3 + Sum", and how many more operations there are.
      start_ns: when it started, by `time.perf_counter_ns`.
      end_ns: when it ended.
      names: the names of all operations of the group; one where it is no group.
    """

    step: int
    name: str
    type: str
    start_ns: int
    end_ns: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """One run of a segment, or of an operation that may wait, in a traced step.

    Attributes:
      waits: it is an operation that may wait for others.
      device: the device it ran on; empty where none was asked for.
      iteration: in which iteration of which loop of primitives it ran; "0:0" outside of all.
      thread_id: the operating system's number of the thread.
      thread_name: its name.
      ready_ns: when everything it needs was there.
      start_ns: when it started: between the two it was in the queue.
      end_ns: when it ended.
      bytes_in: bytes of the arrays it read.
      bytes_out: bytes of the arrays it gave.
      operations: its operations.
      positions: which of them started, as positions in `operations`, in order; empty without detail.
      starts_ns: when each of those started. One ends when the next starts, the last one when the segment ends.
      error: the class of the error that ended it, or an empty string.
    """

    waits: bool
    device: str
    iteration: str
    thread_id: int
    thread_name: str
    ready_ns: int
    start_ns: int
    end_ns: int
    bytes_in: int
    bytes_out: int
    operations: Sequence[Operation]
    positions: Sequence[int]
    starts_ns: Sequence[int]
    error: str = ""

    @property
    def name(self) -> str:
        """Its first operation, and how many more there are."""
        if not self.operations:
            return "nothing"
        first, more = self.operations[0], len(self.operations) - 1
        return f"{first.type} '{first.name}'" + (f" and {more} more" if more else "")

    @property
    def queue_ns(self) -> int:
        """Nanoseconds between being ready and starting."""
        return self.start_ns - self.ready_ns

    @property
    def ends_ns(self) -> Sequence[int]:
        """When each of the operations that started ended."""
        return [*self.starts_ns[1:], self.end_ns][: len(self.starts_ns)]

    @property
    def groups(self) -> Sequence[Sequence[Operation]]:
        """The operations that ran from each start: one, or several where a backend runs a group as a whole.

        Where an error ended the segment, of the last group only the first operation is known to have started.
        """
        if not self.positions:
            return []
        end = self.positions[-1] + 1 if self.error else len(self.operations)
        return [
            self.operations[first : max(after, first + 1)]
            for first, after in zip(self.positions, [*self.positions[1:], end], strict=True)
        ]

    def op_records(self, step: int) -> list[OpRecord]:
        """The operations and groups that started, in order.

        Args:
          step: the number of the step.
        """
        return [
            OpRecord(step, group[0].name, _group_type(group), start, end, tuple(op.name for op in group))
            for group, start, end in zip(map(_once, self.groups), self.starts_ns, self.ends_ns, strict=True)
        ]


class SegmentRecorder:
    """Runs the segments of one traced step and writes down what they do. Mutable and thread-safe.

    Args:
      detail: record operations too.
    Attributes:
      segments: the segments that have ended, in that order.
    """

    def __init__(self, *, detail: bool) -> None:
        self.segments: list[SegmentRecord] = []
        self._detail = detail

    def run(
        self,
        compiled: Compiled,
        arguments: Sequence[Any],
        hook: OpHook | None,
        *,
        waits: bool = False,
        device: str = "",
        iteration: str = "0:0",
        ready_ns: int | None = None,
    ) -> Sequence[Any]:
        """Run a segment, calling `hook` before each operation, and record it, also where it fails."""
        positions: list[int] = []
        starts: list[int] = []
        clock, add_position, add_start = time.perf_counter_ns, positions.append, starts.append

        def mark(index: int) -> None:
            if hook is not None:
                hook(index)
            add_position(index)
            add_start(clock())

        operations = compiled.operations
        bytes_in = _bytes(arguments)
        results: Sequence[Any] = ()
        error = ""
        start_ns = clock()
        try:
            if self._detail:
                results = compiled.run_with_hook(arguments, mark)
            else:
                results = compiled(arguments) if hook is None else compiled.run_with_hook(arguments, hook)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            end_ns = clock()
            self.segments.append(
                SegmentRecord(
                    waits=waits,
                    device=device,
                    iteration=iteration,
                    thread_id=threading.get_native_id(),
                    thread_name=threading.current_thread().name,
                    ready_ns=start_ns if ready_ns is None else ready_ns,
                    start_ns=start_ns,
                    end_ns=end_ns,
                    bytes_in=bytes_in,
                    bytes_out=_bytes(results),
                    operations=operations,
                    positions=positions,
                    starts_ns=starts,
                    error=error,
                )
            )
        return results


def _bytes(values: Sequence[Any]) -> int:
    total = 0
    for value in values:  # a generator takes twice as long, in every traced step
        total += getattr(value, "nbytes", 0)
    return total


def _once(operations: Sequence[Operation]) -> Sequence[Operation]:
    """Each operation once: one may be computed in several pieces."""
    return tuple(dict.fromkeys(operations))


def _group_type(operations: Sequence[Operation]) -> str:
    """The first types of the operations of a group, each with its number, and how many more operations there are."""
    counts = list(Counter(op.type for op in operations).items())
    shown = [name if count == 1 else f"{name} x{count}" for name, count in counts[:_SHOWN_TYPES]]
    more = sum(count for _, count in counts[_SHOWN_TYPES:])
    return " + ".join(shown + [f"{more} more"] * (more > 0))


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One traced step. Times are those of `time.perf_counter_ns`.

    Attributes:
      step: the step's number in this process.
      backend: the name of the backend that ran it.
      operations: all operations of its plan, with concrete shapes where they are known; the same object for every step
        of a plan.
      kernels: for each operation what computed it, an empty name for one that was only computed as a part of others and
        never written; no names where the backend does not say.
      positions: which of the operations started, as positions in `operations`, in order.
      starts_ns: when each of those started.
      ends_ns: when each of those ended; several may run at once.
      segments: what ran as a whole, each in one thread; one segment where the plan is one.
      called_ns: when the step was asked for: before feeds were converted and, the first time, its plan was made.
      start_ns: when the plan started.
      end_ns: when it ended.
      thread_id: the operating system's number of the thread.
      thread_name: its name.
      argument_bytes: bytes of the values that were fed.
      result_bytes: bytes of the values that were fetched.
      arena_bytes: bytes of planned memory that the step worked in; 0 where the backend does not say.
      error: the class of the error that ended the step, or an empty string.
    """

    step: int
    backend: str
    operations: Sequence[Operation]
    kernels: Sequence[str]
    positions: Sequence[int]
    starts_ns: Sequence[int]
    ends_ns: Sequence[int]
    segments: Sequence[SegmentRecord]
    called_ns: int
    start_ns: int
    end_ns: int
    thread_id: int
    thread_name: str
    argument_bytes: int
    result_bytes: int
    arena_bytes: int
    error: str

    def op_records(self) -> Iterator[OpRecord]:
        """The operations that started, in order."""
        found = [record for segment in self.segments for record in segment.op_records(self.step)]
        return iter(sorted(found, key=lambda record: record.start_ns))


active_traces: list[Trace] = []
"""The traces that record every step of the process. Steps look at it first, so that it costs nothing while empty."""

_activation = threading.Lock()


class Trace:
    """Collects what traced steps do: `session.run(..., trace=trace)`. Mutable and thread-safe.

    Args:
      detail: record each operation; otherwise each segment only, which costs next to nothing.

    Example:
      >>> import headrace as hr
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     x = hr.placeholder(hr.float32, [2])
      ...     y = hr.exp(x)
      >>> trace = hr.Trace()
      >>> _ = hr.Session(graph).run(y, feeds={x: [0.0, 1.0]}, trace=trace)
      >>> [record.type for record in trace.records]
      ['Exp']
    """

    def __init__(self, *, detail: bool = True) -> None:
        self.detail = detail
        self._steps: list[StepRecord] = []
        self._lock = threading.Lock()

    @property
    def steps(self) -> list[StepRecord]:
        """The steps so far, in the order in which they ended; a snapshot."""
        with self._lock:
            return list(self._steps)

    @property
    def records(self) -> list[OpRecord]:
        """The operations of the steps so far, step by step; a snapshot."""
        return [record for step in self.steps for record in step.op_records()]

    def add(self, record: StepRecord) -> None:
        """Add one step. Called by the thread that ran it, right after its end."""
        with self._lock:
            self._steps.append(record)

    @contextlib.contextmanager
    def all_steps(self) -> Iterator[Trace]:
        """Record every step of this process, of whatever session, function or thread, until the block ends.

        Example:
          >>> import headrace as hr
          >>> with hr.Graph().as_default() as graph:
          ...     x = hr.placeholder(hr.float32, [])
          ...     step = hr.Session(graph).make_callable(hr.exp(x), [x])
          >>> with hr.Trace().all_steps() as trace:
          ...     _ = step(1.0)
          >>> [record.type for record in trace.records]
          ['Exp']
        """
        with _activation:
            active_traces.append(self)
        try:
            yield self
        finally:
            with _activation:
                active_traces.remove(self)

    def chrome_trace(self) -> dict[str, Any]:
        """The steps so far in the form that chrome://tracing and Perfetto open: one row for each thread.

        Source: "Trace Event Format",
        https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
        """
        events: list[dict[str, Any]] = []
        threads: dict[int, str] = {}
        for step in self.steps:
            threads[step.thread_id] = step.thread_name
            about: dict[str, Any] = {
                "backend": step.backend, "bytes_in": step.argument_bytes, "bytes_out": step.result_bytes,
                "error": step.error,
            }  # fmt: skip
            events.append(_slice("step", f"step {step.step}", step.thread_id, step.start_ns, step.end_ns, about))
            for segment in step.segments:
                threads[segment.thread_id] = segment.thread_name
                events += _segment_events(step.step, segment)
        names = [
            {"ph": "M", "name": "thread_name", "pid": os.getpid(), "tid": thread, "args": {"name": name}}
            for thread, name in threads.items()
        ]
        return {"displayTimeUnit": "ms", "traceEvents": names + events}

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write `chrome_trace()` to a file as JSON."""
        Path(path).write_text(json.dumps(self.chrome_trace()), encoding="utf-8")

    def summary(self, limit: int = 20) -> str:
        """A table of the operation types by total time: calls, milliseconds, share.

        Args:
          limit: the number of rows.
        """
        totals: dict[str, tuple[int, int]] = {}
        for record in self.records:
            calls, spent = totals.get(record.type, (0, 0))
            totals[record.type] = (calls + 1, spent + record.end_ns - record.start_ns)
        whole = sum(spent for _, spent in totals.values()) or 1
        rows = sorted(totals.items(), key=lambda item: -item[1][1])[:limit]
        lines = [f"{'operation':<36} {'calls':>7} {'ms':>10} {'share':>6}"]
        lines += [f"{name:<36} {calls:>7} {spent / 1e6:>10.3f} {spent / whole:>6.1%}" for name, (calls, spent) in rows]
        return "\n".join(lines)


def _segment_events(step: int, segment: SegmentRecord) -> Iterator[dict[str, Any]]:
    about: dict[str, Any] = {
        "step": step, "device": segment.device, "iteration": segment.iteration, "bytes_in": segment.bytes_in,
        "bytes_out": segment.bytes_out, "queue_us": segment.queue_ns / 1e3,
    }  # fmt: skip
    kind = "wait" if segment.waits else "segment"
    yield _slice(kind, segment.name, segment.thread_id, segment.start_ns, segment.end_ns, about)
    for record in segment.op_records(step):
        about = {"step": step, "type": record.type}
        if len(record.names) > 1:
            about["operations"] = list(record.names)
        yield _slice("operation", record.name, segment.thread_id, record.start_ns, record.end_ns, about)


def _slice(kind: str, name: str, thread: int, start_ns: int, end_ns: int, about: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X", "cat": kind, "name": name, "pid": os.getpid(), "tid": thread, "ts": start_ns / 1e3,
        "dur": (end_ns - start_ns) / 1e3, "args": about,
    }  # fmt: skip
