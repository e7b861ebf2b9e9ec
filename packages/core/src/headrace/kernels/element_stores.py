"""Element stores: in which order elements come out of a queue. Mutable, and guarded by the queue that owns them."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

__all__ = ["Element", "ElementStore", "FifoStore", "PriorityStore", "RandomStore"]

Element = tuple[Any, ...]
"""The components of one element."""


class ElementStore(Protocol):
    """Elements in some order."""

    def __len__(self) -> int:
        """How many there are."""

    def add(self, element: Element) -> None:
        """Put one in."""

    def take(self) -> Element:
        """Take the next one out; there is one."""

    def restore(self, elements: Sequence[Element]) -> None:
        """Put back what was taken last, given in the order in which it was taken."""


class FifoStore:
    """First in, first out. Mutable."""

    def __init__(self) -> None:
        self._elements: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    def add(self, element: Element) -> None:
        """Put one at the end."""
        self._elements.append(element)

    def take(self) -> Element:
        """Take the first one."""
        return self._elements.popleft()

    def restore(self, elements: Sequence[Element]) -> None:
        """Put them back at the front."""
        self._elements.extendleft(reversed(elements))


class RandomStore:
    """Each element that is there is the next one with equal probability. Mutable.

    The last element takes the place of the one that goes, and what is put back goes to the end, last one first: as
    TensorFlow does, so that equal random numbers give equal orders.

    Args:
      draw: gives random integers, uniform in [0, 2**32).
    """

    def __init__(self, draw: Callable[[], int]) -> None:
        self._draw = draw
        self._elements: list[Element] = []

    def __len__(self) -> int:
        return len(self._elements)

    def add(self, element: Element) -> None:
        """Put one at the end."""
        self._elements.append(element)

    def take(self) -> Element:
        """Take any one."""
        elements = self._elements
        index = self._draw() % len(elements)
        chosen, elements[index] = elements[index], elements[-1]
        elements.pop()
        return chosen

    def restore(self, elements: Sequence[Element]) -> None:
        """Put them back at the end."""
        self._elements.extend(reversed(elements))


class PriorityStore:
    """The least first component comes first, and of equal ones the one that was added first. Mutable."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Element]] = []
        self._after = itertools.count()
        self._before = itertools.count(-1, -1)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: Element) -> None:
        """Put one behind those of the same priority."""
        heapq.heappush(self._heap, (element[0].item(), next(self._after), element))

    def take(self) -> Element:
        """Take the first one of the least priority."""
        return heapq.heappop(self._heap)[2]

    def restore(self, elements: Sequence[Element]) -> None:
        """Put each before those of the same priority: when it was taken, it was the first of them."""
        for element in reversed(elements):
            heapq.heappush(self._heap, (element[0].item(), next(self._before), element))
