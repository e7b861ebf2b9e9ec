"""ElementQueue: the state behind every kind of queue - elements, and the callers that wait to add or to take some.

Callers stand in two lines, one to add and one to take, and each line is served from its front only: first come, first
served, so that a caller who wants a thousand elements is not starved by others who want one. Whoever changes the queue
serves both lines as far as they go and wakes exactly the callers that are through; a thousand waiting threads cost
nothing while nothing happens to them. A closing that lets pending callers finish stands in the line of those who add.

A caller who takes many collects elements as they come, which is what lets him take more than the queue can hold; if he
gives up, or the queue is closed before he has them all, they go back to where they were.

How elements are ordered is the business of a store (`element_stores`), and what they are made of does not matter here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headrace.errors import AbortedError, CancelledError, EndOfDataError, HeadraceError
from headrace.interfaces import StepControl
from headrace.kernels.element_stores import Element, ElementStore

__all__ = ["ElementQueue"]


class _Attempt(Protocol):
    """A caller in a line. `advance` does what can be done now, says whether that was anything, and may set the end."""

    done: bool
    error: HeadraceError | None
    wakes: threading.Condition | None

    def advance(self, queue: ElementQueue) -> bool: ...

    def withdraw(self, queue: ElementQueue) -> None: ...


@dataclass(slots=True, eq=False)
class _Adding:
    elements: Sequence[Element]
    position: int = 0
    done: bool = False
    error: HeadraceError | None = None
    wakes: threading.Condition | None = None

    def advance(self, queue: ElementQueue) -> bool:
        if queue.is_closed:
            self.error, self.done = queue.refusal(), True
            return True
        end = min(len(self.elements), self.position + queue.room)
        progress = end > self.position
        for element in self.elements[self.position : end]:
            queue.store.add(element)
        self.position = end
        self.done = end == len(self.elements)
        return progress

    def withdraw(self, queue: ElementQueue) -> None:
        """What was added stays added: others may have taken it already."""


@dataclass(slots=True, eq=False)
class _Taking:
    wanted: int
    fewer_at_end: bool
    taken: list[Element] = field(default_factory=list)
    done: bool = False
    error: HeadraceError | None = None
    wakes: threading.Condition | None = None

    def advance(self, queue: ElementQueue) -> bool:
        store = queue.store
        if queue.is_closed and len(store) < self.wanted - len(self.taken):
            self.withdraw(queue)
            if not (self.fewer_at_end and len(store)):
                self.error, self.done = queue.end_of_data(self.wanted), True
                return True
            self.wanted = len(store)
        count = min(queue.available, self.wanted - len(self.taken))
        for _ in range(count):
            self.taken.append(store.take())
        self.done = len(self.taken) == self.wanted
        return count > 0

    def withdraw(self, queue: ElementQueue) -> None:
        queue.store.restore(self.taken)
        self.taken = []


@dataclass(slots=True, eq=False)
class _Closing:
    done: bool = False
    error: HeadraceError | None = None
    wakes: threading.Condition | None = None

    def advance(self, queue: ElementQueue) -> bool:
        if queue.is_closed:
            self.error = queue.closed_already()
        queue.is_closed = self.done = True
        return True

    def withdraw(self, queue: ElementQueue) -> None:
        """It has done nothing yet, or all that it will."""


_AnyAttempt = TypeVar("_AnyAttempt", bound=_Attempt)


class ElementQueue:
    """Elements that some callers add and others take, each waiting until that is possible. Mutable and thread-safe.

    Args:
      kind: the kind of queue, for errors.
      name: its name, for errors.
      store: where the elements lie; it decides which comes out next.
      capacity: how many elements it holds at most; negative for no bound.
      min_after_take: how many must stay while it is open, so that random choice has something to choose from.
    Attributes:
      store: see above; only to be touched by the queue.
      is_closed: True once it takes no further elements.
    """

    def __init__(
        self, kind: str, name: str, store: ElementStore, *, capacity: int = -1, min_after_take: int = 0
    ) -> None:
        self.kind = kind
        self.name = name
        self.store = store
        self.capacity = capacity
        self.min_after_take = min_after_take
        self._adders: deque[_Attempt] = deque()
        self._takers: deque[_Attempt] = deque()
        self.is_closed = False
        self._cause: BaseException | None = None
        self._producers: dict[str, str] = {}
        self._lock = threading.RLock()  # a signal handler that ends a step may come while its thread is inside

    def add(self, elements: Sequence[Element], step: StepControl) -> None:
        """Add all elements, in order, waiting for room.

        Args:
          elements: any number; no other caller's elements come between them.
          step: the step that waits.
        Raises:
          CancelledError: the queue is closed, or was before all had room; those that had stay. Or the step was
            cancelled.
          DeadlineExceededError: the step's time is over.
        """
        if elements:
            self._attempt(_Adding(elements), self._adders, step)

    def take(self, count: int, step: StepControl, *, fewer_at_end: bool = False) -> list[Element]:
        """Take `count` elements, waiting until there are so many, or none of them.

        Args:
          count: how many.
          step: the step that waits.
          fewer_at_end: be content with fewer, but at least one, once the queue is closed.
        Raises:
          EndOfDataError: the queue is closed and has fewer.
          AbortedError: the same, and it was closed because its producer failed, whose error is the cause.
          CancelledError: the step was cancelled.
          DeadlineExceededError: the step's time is over.
        """
        return self._attempt(_Taking(count, fewer_at_end), self._takers, step).taken if count else []

    def close(self, step: StepControl) -> None:
        """Take no further elements, once those have room that callers wait to add; what is in it can still be taken.

        Args:
          step: the step that waits.
        Raises:
          CancelledError: it is closed already, or the step was cancelled.
          DeadlineExceededError: the step's time is over.
        """
        self._attempt(_Closing(), self._adders, step)

    def close_in_turn(self) -> None:
        """As `close`, without waiting for the end; nothing happens if it is closed already."""
        with self._lock:
            self._adders.append(_Closing())
            self._serve()

    def close_now(self, cause: BaseException | None = None) -> None:
        """Take no further elements from now on; calls that wait for room end with CancelledError. May be repeated.

        Args:
          cause: the error for which it is closed, or None; the first one is kept.
        """
        with self._lock:
            self.is_closed = True
            self._cause = self._cause or cause
            self._serve()

    def _attempt(self, attempt: _AnyAttempt, line: deque[_Attempt], step: StepControl) -> _AnyAttempt:
        with self._lock:
            line.append(attempt)
            self._serve()
            if not attempt.done:
                self._await(attempt, line, step)
        if attempt.error is not None:
            raise attempt.error
        return attempt

    def _await(self, attempt: _Attempt, line: deque[_Attempt], step: StepControl) -> None:
        attempt.wakes = threading.Condition(self._lock)
        try:
            step.wait(attempt.wakes, lambda: attempt.done, self.describe)
        except BaseException:
            if not attempt.done:
                line.remove(attempt)
            attempt.withdraw(self)
            self._serve()  # the next in line may be content with what is there
            raise

    def _serve(self) -> None:
        """Let both lines go as far as they can: what one adds another may take, which makes room for the next."""
        while self._advance(self._adders) | self._advance(self._takers):
            pass

    def _advance(self, line: deque[_Attempt]) -> bool:
        progress = False
        while line:
            attempt = line[0]
            progress |= attempt.advance(self)
            if not attempt.done:
                break
            line.popleft()
            if attempt.wakes is not None:
                attempt.wakes.notify_all()
        return progress

    @property
    def size(self) -> int:
        """The number of elements in it, without those that a waiting caller has collected."""
        with self._lock:
            return len(self.store)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many callers wait to add, and to take."""
        with self._lock:
            return len(self._adders), len(self._takers)

    @property
    def room(self) -> int:
        """How many elements may be added now."""
        count = len(self.store)
        return self.capacity - count if self.capacity >= 0 else 2**63 - count

    @property
    def available(self) -> int:
        """How many elements may be taken now."""
        count = len(self.store)
        return count if self.is_closed else max(count - self.min_after_take, 0)

    def note_producer(self, name: str, state: str) -> None:
        """Remember who adds elements, for errors of those who wait for them.

        Args:
          name: the producer.
          state: how it does, such as `running` or `ended`.
        """
        with self._lock:
            self._producers[name] = state

    def describe(self) -> str:
        """One line: what it holds, who waits, and who is to bring elements."""
        with self._lock:
            adding, taking = len(self._adders), len(self._takers)
            producers = ", ".join(f"{name} ({state})" for name, state in self._producers.items())
            holds = f"{len(self.store)}" + (f" of {self.capacity}" if self.capacity >= 0 else "")
            kept = f" of which {self.min_after_take} stay" if self.min_after_take and not self.is_closed else ""
        return (
            f"{self.kind} '{self.name}' holds {holds} elements{kept}{', closed' if self.is_closed else ''}; "
            f"{adding} waiting to add, {taking} to take; "
            f"producers: {producers or 'none known, no hr.QueueRunner was started for it'}"
        )

    def refusal(self) -> CancelledError:
        """The error of one who adds to a closed queue."""
        error = CancelledError(
            f"{self.kind} '{self.name}' is closed",
            expected="a queue that takes elements",
            got=self.describe(),
            hint="close the queue after the last element; a new session has it open again",
        )
        error.__cause__ = self._cause
        return error

    def closed_already(self) -> CancelledError:
        """The error of one who closes a closed queue."""
        return CancelledError(
            f"{self.kind} '{self.name}' is closed already",
            expected="one call of close, by the last producer",
            got=self.describe(),
            hint="session.run(queue.is_closed()) tells; closing with cancel_pending_enqueues=True may be repeated",
        )

    def end_of_data(self, wanted: int) -> HeadraceError:
        """The error of one who wants more elements than a closed queue has."""
        if self._cause is None:
            return EndOfDataError(
                f"{self.kind} '{self.name}' is closed and has too few elements",
                expected=f"{wanted} elements",
                got=f"{len(self.store)}",
                hint="this is the normal end of data: catch hr.errors.EndOfDataError, or use hr.Coordinator",
            )
        error = AbortedError(
            f"{self.kind} '{self.name}' was closed because its producer failed",
            expected=f"{wanted} elements",
            got=f"{len(self.store)}, and {type(self._cause).__name__}: {str(self._cause).partition(chr(10))[0]}",
            hint="see the error that this one was caused by",
        )
        error.__cause__ = self._cause
        return error
