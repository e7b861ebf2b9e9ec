"""Which waiting rows go into one call of a signature, and when. Pure: time comes in, decisions go out.

Requests wait in the order of their priority and arrival. One that is larger than a batch is taken in pieces; any other
goes whole, so that it never waits for two calls. What comes too late is given back to be refused.
"""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace.errors import InvalidArgumentError
from headrace_serving.errors import QueueFullError

T = TypeVar("T")

_DEFAULT_PRIORITY = 2**32
_REMEMBERED_CALLS = 50
_MEMORY = 0.9
"""How much of the estimated time between arrivals stays with each arrival."""


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """How requests are put together.

    Attributes:
      max_batch_size: most rows in one call.
      timeout: seconds that the first request of a batch waits for others; 0 takes what is there.
      allowed_sizes: numbers of rows that a call may have, ascending, the last being `max_batch_size`; a smaller batch
        is filled up with copies of one of its rows. Empty for any number.
      max_queued_batches: how many full batches may wait in a queue.
      adaptive: wait only while that saves more time than it costs, at most `timeout`.

    Raises:
      InvalidArgumentError: a number is out of its range, or the sizes are not ascending to `max_batch_size`.
    """

    max_batch_size: int = 32
    timeout: float = 0.0
    allowed_sizes: tuple[int, ...] = ()
    max_queued_batches: int = 10
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.max_batch_size < 1 or self.max_queued_batches < 1 or not 0 <= self.timeout < float("inf"):
            raise InvalidArgumentError(
                "batching cannot be so",
                expected="max_batch_size and max_queued_batches of 1 or more, timeout of 0 or more seconds",
                got=f"{self.max_batch_size}, {self.max_queued_batches} and {self.timeout}",
                hint="leave out what need not be set",
            )
        sizes = self.allowed_sizes
        if sizes and (sizes[0] < 1 or sizes[-1] != self.max_batch_size or list(sizes) != sorted(set(sizes))):
            raise InvalidArgumentError(
                "the allowed batch sizes cannot be so",
                expected=f"ascending numbers of 1 or more that end with the largest batch, {self.max_batch_size}",
                got=", ".join(map(str, sizes)),
                hint=f"end them with {self.max_batch_size}",
            )

    def padded(self, rows: int) -> int:
        """Return how many rows a call has that must hold some.

        Example:
          >>> BatchingOptions(max_batch_size=8, allowed_sizes=(2, 8)).padded(3)
          8
        """
        return next((size for size in self.allowed_sizes if size >= rows), rows)


def usual_sizes(largest: int) -> tuple[int, ...]:
    """Return the sizes that batches may have if nobody says: few, for each costs a first call, yet close to any number.

    Example:
      >>> usual_sizes(64)
      (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64)
      >>> usual_sizes(6)
      (1, 2, 4, 6)
    """
    step = max(8, -(-largest // 8))
    return tuple(sorted({size for size in (1, 2, 4, *range(step, largest, step)) if size < largest} | {largest}))


@dataclass(slots=True)
class _Waiting(Generic[T]):
    item: T
    rows: int
    order: tuple[int, int]
    arrival: float
    deadline: float | None
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """Rows of one request in a batch.

    Attributes:
      item: the request.
      start: its first row that is in.
      stop: its first row after that which is not.
    """

    item: T
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many rows are in."""
        return self.stop - self.start


@dataclass(slots=True)
class CostModel:
    """What calls have cost, and how often requests come. Mutable.

    A call of n rows is taken to need `fixed + n * per_row` seconds: the line of least squares through the last calls.

    Example:
      >>> model = CostModel()
      >>> model.called(1, 0.011); model.called(11, 0.021)
      >>> round(model.fixed, 6)
      0.01
    """

    _calls: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_CALLS))
    _interval: float | None = None
    _last: float | None = None

    def called(self, rows: int, seconds: float) -> None:
        """Remember what a call has cost."""
        self._calls.append((rows, seconds))

    def arrived(self, now: float) -> None:
        """Remember that a request has come."""
        if self._last is not None:
            gap = now - self._last
            self._interval = gap if self._interval is None else _MEMORY * self._interval + (1 - _MEMORY) * gap
        self._last = now

    @property
    def fixed(self) -> float:
        """Seconds that a call needs beside its rows; 0 while unknown."""
        count = len(self._calls)
        mean_rows = sum(rows for rows, _ in self._calls) / count if count else 0
        spread = sum((rows - mean_rows) ** 2 for rows, _ in self._calls)
        if spread == 0:
            return 0.0
        mean_seconds = sum(seconds for _, seconds in self._calls) / count
        slope = sum((rows - mean_rows) * (seconds - mean_seconds) for rows, seconds in self._calls) / spread
        return max(0.0, mean_seconds - slope * mean_rows)

    def worth_waiting(self, requests: int) -> float:
        """Return for how many seconds it pays that some requests wait for the next one; 0 if it does not.

        The next one saves the fixed cost of a call of its own, and costs each that waits the time until it comes.
        """
        if self._interval is None or requests * self._interval >= self.fixed:
            return 0.0
        return 2 * self._interval


class BatchQueue(Generic[T]):
    """Requests that may be answered by one call. Mutable; not thread-safe.

    Args:
      options: how they are put together.

    Example:
      >>> queue = BatchQueue(BatchingOptions(max_batch_size=4))
      >>> queue.add("a", 3, now=0.0); queue.add("b", 1, now=0.0); queue.add("c", 1, now=0.0)
      >>> [(piece.item, piece.rows) for piece in queue.take()]
      [('a', 3), ('b', 1)]
    """

    def __init__(self, options: BatchingOptions) -> None:
        self._options = options
        self._waiting: list[_Waiting[T]] = []
        self._numbers = itertools.count()
        self._rows = 0
        self.cost = CostModel()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self._rows

    def add(self, item: T, rows: int, *, now: float, priority: int = 0, deadline: float | None = None) -> None:
        """Let a request wait.

        Args:
          item: the request.
          rows: how many rows it has, at least 1.
          now: the time.
          priority: 1 goes first; 0 stands for the default, which goes last.
          deadline: when it is too late for it.
        Raises:
          QueueFullError: too many rows wait; a request that is larger than that is taken only by an empty queue.
        """
        room = self._options.max_queued_batches * self._options.max_batch_size
        if self._waiting and self._rows + rows > room:
            raise QueueFullError(
                "the server has too much to do",
                expected=f"at most {room} rows that wait",
                got=f"{self._rows} rows, and {rows} more",
                hint="send the request again later; or start more servers, or let more batches wait",
            )
        entry = _Waiting(item, rows, (priority or _DEFAULT_PRIORITY, next(self._numbers)), now, deadline)
        bisect.insort(self._waiting, entry, key=lambda waiting: waiting.order)
        self._rows += rows
        self.cost.arrived(now)

    def late(self, now: float) -> list[T]:
        """Take out and return the requests whose deadline is over."""
        late = [entry for entry in self._waiting if entry.deadline is not None and entry.deadline <= now]
        for entry in late:
            self._remove(entry)
        return [entry.item for entry in late]

    def discard(self, item: T) -> None:
        """Take out a request that nobody waits for any more, if it is still there."""
        for entry in self._waiting:
            if entry.item is item:
                self._remove(entry)
                return

    def _remove(self, entry: _Waiting[T]) -> None:
        self._waiting.remove(entry)
        self._rows -= entry.rows - entry.taken

    def ready_at(self) -> float | None:
        """Return when a batch should be taken: a time that may be over already; None if nothing waits."""
        if not self._waiting:
            return None
        first = min(entry.arrival for entry in self._waiting)
        if self._rows >= self._options.max_batch_size:
            return first
        wanted = first + self._options.timeout
        if self._options.adaptive:
            last = max(entry.arrival for entry in self._waiting)
            wanted = min(wanted, last + self.cost.worth_waiting(len(self._waiting)))
        deadlines = [entry.deadline for entry in self._waiting if entry.deadline is not None]
        return min([wanted, *deadlines])

    def take(self) -> Sequence[Piece[T]]:
        """Take the next batch, however long its requests have waited; empty if nothing waits."""
        room = self._options.max_batch_size
        pieces: list[Piece[T]] = []
        while self._waiting and room:
            entry = self._waiting[0]
            left = entry.rows - entry.taken
            if left > room and (pieces or left <= self._options.max_batch_size):
                break
            rows = min(left, room)
            pieces.append(Piece(entry.item, entry.taken, entry.taken + rows))
            entry.taken += rows
            self._rows -= rows
            room -= rows
            if entry.taken == entry.rows:
                self._waiting.pop(0)
        return pieces
