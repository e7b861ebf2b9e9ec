"""Trace: what one or several steps did, operation by operation.

A traced step writes down numbers only, one position and one time per operation; everything that can be said later, such
as names and sizes, is derived when somebody asks. So a trace costs about 0.1 us per operation.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.graph.operation import Operation

__all__ = ["OpRecord", "StepRecord", "Trace", "active_traces"]


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation of one traced step.

    Attributes:
      step: the step's number.
      name: the operation's name; that of the first one where a backend runs a group as a whole.
      type: its type.
      start_ns: when it started, by `time.perf_counter_ns`.
      end_ns: when it ended.
    """

    step: int
    name: str
    type: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One traced step. Times are those of `time.perf_counter_ns`.

    Attributes:
      step: the step's number in this process.
      backend: the name of the backend that ran it.
      operations: all operations of its plan, with concrete shapes where they are known; the same object for every step
        of a plan.
      kernels: for each operation what computed it; empty where the backend does not say.
      positions: which of the operations started, as positions in `operations`, in order.
      starts_ns: when each of those started. One ends when the next starts, the last one when the step ends.
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
        ends = [*self.starts_ns[1:], self.end_ns]
        for position, start, end in zip(self.positions, self.starts_ns, ends, strict=False):
            op = self.operations[position]
            yield OpRecord(self.step, op.name, op.type, start, end)


active_traces: list[Trace] = []
"""The traces that record every step of the process. Steps look at it first, so that it costs nothing while empty."""

_activation = threading.Lock()


class Trace:
    """Collects what traced steps do: `session.run(..., trace=trace)`. Mutable and thread-safe.

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

    def __init__(self) -> None:
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
