"""Staging buffers: the state behind Stage and MapStage, which keep tensors ready for a later step.

Both bound how many elements, and how many bytes, are staged at once. They wait by one condition, without lines: as in
TensorFlow, nobody is promised to be first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from headrace.errors import InvalidArgumentError, ResourceExhaustedError
from headrace.interfaces import StepControl

__all__ = ["KeyedStagingBuffer", "StagingBuffer"]

Parts = dict[int, Any]
"""The components of an element by position."""


class _Bounded:
    """What both kinds share: the bounds, and waiting for room. Mutable and thread-safe."""

    def __init__(self, name: str, capacity: int, memory_limit: int) -> None:
        self.name = name
        self.capacity = capacity
        self.memory_limit = memory_limit
        self._bytes = 0
        self._count = 0
        self._changed = threading.Condition(threading.RLock())

    @property
    def size(self) -> int:
        """How many elements are staged."""
        return self._count

    def _wait(self, step: StepControl, ready: Callable[[], bool]) -> None:
        step.wait(self._changed, ready, self.describe)

    def _wait_for_room(self, size: int, new: int, step: StepControl) -> None:
        """Wait until there is room for `size` bytes and `new` elements."""
        if self.memory_limit and size > self.memory_limit:
            raise ResourceExhaustedError(
                f"an element is larger than staging area '{self.name}'",
                expected=f"at most {self.memory_limit} bytes",
                got=f"{size} bytes",
                hint="raise memory_limit, or 0 for no limit",
            )
        self._wait(
            step,
            lambda: (
                (not self.capacity or self._count + new <= self.capacity)
                and (not self.memory_limit or self._bytes + size <= self.memory_limit)
            ),
        )

    def _release(self, size: int, old: int) -> None:
        self._bytes -= size
        self._count -= old
        self._changed.notify_all()

    def describe(self) -> str:
        """One line: what it holds and its bounds."""
        return (
            f"staging area '{self.name}' holds {self._count} of {self.capacity or 'any number of'} elements, "
            f"{self._bytes} of {self.memory_limit or 'any number of'} bytes"
        )


class StagingBuffer(_Bounded):
    """Elements that come out in the order in which they were put in. Mutable and thread-safe.

    Args:
      name: its name, for errors.
      capacity: how many elements it holds at most; 0 for no bound.
      memory_limit: how many bytes it holds at most; 0 for no bound.
    """

    def __init__(self, name: str, capacity: int, memory_limit: int) -> None:
        super().__init__(name, capacity, memory_limit)
        self._elements: list[Sequence[Any]] = []

    def put(self, element: Sequence[Any], step: StepControl) -> None:
        """Put an element in, waiting for room.

        Raises:
          ResourceExhaustedError: it alone is beyond the limit.
          CancelledError, DeadlineExceededError: the step ends.
        """
        with self._changed:
            self._wait_for_room(size := _bytes_of(element), 1, step)
            self._bytes, self._count = self._bytes + size, self._count + 1
            self._elements.append(element)
            self._changed.notify_all()

    def get(self, step: StepControl) -> Sequence[Any]:
        """Take the first element, waiting for one."""
        with self._changed:
            self._wait(step, lambda: bool(self._elements))
            element = self._elements.pop(0)
            self._release(_bytes_of(element), 1)
            return element

    def peek(self, index: int, step: StepControl) -> Sequence[Any]:
        """The element at a place, which stays, waiting until there is one."""
        with self._changed:
            self._wait(step, lambda: len(self._elements) > index)
            return self._elements[index]

    def clear(self) -> None:
        """Drop all elements."""
        with self._changed:
            elements, self._elements = self._elements, []
            self._release(sum(map(_bytes_of, elements)), len(elements))


class KeyedStagingBuffer(_Bounded):
    """Elements by key, whose components may come and go one at a time. Mutable and thread-safe.

    An element can be taken once it has all its components; those that lack some do not count against the capacity.

    Args:
      name: its name, for errors.
      capacity: how many elements it holds at most; 0 for no bound.
      memory_limit: how many bytes it holds at most; 0 for no bound.
      ordered: take the least key first where no key is given; otherwise the one that was complete first.
    """

    def __init__(self, name: str, capacity: int, memory_limit: int, *, ordered: bool) -> None:
        super().__init__(name, capacity, memory_limit)
        self.ordered = ordered
        self._complete: dict[Any, Parts] = {}
        self._incomplete: dict[Hashable, Parts] = {}

    @property
    def incomplete_size(self) -> int:
        """How many elements lack components."""
        return len(self._incomplete)

    def put(self, key: Hashable, parts: Parts, width: int, step: StepControl) -> None:
        """Put components of an element in, waiting for room.

        Args:
          key: which element.
          parts: some of its components.
          width: how many it has in all.
          step: the step that waits.
        Raises:
          InvalidArgumentError: the element has one of them, or there is no such component.
          ResourceExhaustedError: they alone are beyond the limit.
          CancelledError, DeadlineExceededError: the step ends.
        """
        with self._changed:
            self._check(key, parts, width)
            completes = len(self._incomplete.get(key, {})) + len(parts) == width
            self._wait_for_room(size := _bytes_of(list(parts.values())), int(completes), step)
            self._check(key, parts, width)  # another step may have come first
            completes = len(self._incomplete.get(key, {})) + len(parts) == width
            self._bytes, self._count = self._bytes + size, self._count + completes
            known = self._incomplete.setdefault(key, {})
            known.update(parts)
            if completes:
                self._complete[key] = self._incomplete.pop(key)
            self._changed.notify_all()

    def _check(self, key: Hashable, parts: Parts, width: int) -> None:
        for position in parts:
            known = key in self._complete or position in self._incomplete.get(key, {})
            if known or not 0 <= position < width:
                raise InvalidArgumentError(
                    f"component {position} of an element of staging area '{self.name}' cannot be put",
                    expected=f"0 <= index < {width}, each once",
                    got=f"key {key!r}",
                    hint="give each element a key of its own",
                )

    def get(self, key: Hashable | None, positions: Sequence[int], step: StepControl) -> tuple[Any, list[Any]]:
        """Take components of an element, waiting until it is complete; it is gone when it has none left.

        Args:
          key: which element, or None for the first one.
          positions: which components.
          step: the step that waits.
        Returns:
          The key and the components.
        """
        with self._changed:
            self._wait(step, lambda: bool(self._complete) if key is None else key in self._complete)
            chosen = (min(self._complete) if self.ordered else next(iter(self._complete))) if key is None else key
            parts = self._parts(chosen, positions)
            element = self._complete[chosen]
            for position in positions:
                del element[position]
            if not element:
                del self._complete[chosen]
            self._release(_bytes_of(parts), int(not element))
            return chosen, parts

    def peek(self, key: Hashable, positions: Sequence[int], step: StepControl) -> list[Any]:
        """The components of an element, which stays, waiting until it is complete."""
        with self._changed:
            self._wait(step, lambda: key in self._complete)
            return self._parts(key, positions)

    def _parts(self, key: Hashable, positions: Sequence[int]) -> list[Any]:
        element = self._complete[key]
        missing = [position for position in positions if position not in element]
        if missing or len(set(positions)) != len(positions):
            raise InvalidArgumentError(
                f"an element of staging area '{self.name}' has no such component",
                expected=f"different ones of {sorted(element)}",
                got=f"{list(positions)} of key {key!r}",
                hint="each component can be taken once",
            )
        return [element[position] for position in positions]

    def clear(self) -> None:
        """Drop all elements."""
        with self._changed:
            elements = [*self._complete.values(), *self._incomplete.values()]
            self._release(sum(_bytes_of(list(parts.values())) for parts in elements), len(self._complete))
            self._complete, self._incomplete = {}, {}


def _bytes_of(element: Sequence[Any]) -> int:
    return sum(getattr(part, "nbytes", 0) for part in element)
