"""Trace: what one or several steps did, operation by operation."""

from __future__ import annotations

import threading
from dataclasses import dataclass

__all__ = ["OpRecord", "Trace"]


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation of one traced step.

    Attributes:
      step: the step's number.
      name: the operation's name.
      type: its type.
      start_ns: when it started, by `time.perf_counter_ns`.
      end_ns: when it ended.
    """

    step: int
    name: str
    type: str
    start_ns: int
    end_ns: int


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
        self._records: list[OpRecord] = []
        self._lock = threading.Lock()

    @property
    def records(self) -> list[OpRecord]:
        """The records so far, in the order in which operations ended; a snapshot."""
        with self._lock:
            return list(self._records)

    def add(self, record: OpRecord) -> None:
        """Add one record."""
        with self._lock:
            self._records.append(record)

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
