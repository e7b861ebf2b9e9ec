"""The stages of a dataset: each gives element i of epoch e, asking the stage before it for what it needs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Arrays", "Batch", "Map", "Repeat", "Shuffle", "Stage", "Take"]

Element = Any
"""An array, or a tuple of arrays."""


class Stage(Protocol):
    """Random access to the elements of every epoch. Immutable but for caches."""

    @property
    def length(self) -> int | None:
        """Elements in an epoch; None if it is endless."""

    def element(self, epoch: int, index: int) -> Element:
        """Element `index` of an epoch."""

    def stacked(self, epoch: int, indices: Sequence[int]) -> Element:
        """Several elements, stacked along a new first axis."""


def _stack(elements: Sequence[Element]) -> Element:
    if isinstance(elements[0], tuple):
        return tuple(np.stack(parts) for parts in zip(*elements, strict=True))
    return np.stack(elements)


class Arrays:
    """The rows of arrays, the same in every epoch."""

    def __init__(self, arrays: tuple[npt.NDArray[Any], ...]) -> None:
        self._arrays = arrays
        self.length: int | None = len(arrays[0])

    def element(self, epoch: int, index: int) -> Element:
        """One row of each array."""
        rows = tuple(array[index] for array in self._arrays)
        return rows if len(rows) > 1 else rows[0]

    def stacked(self, epoch: int, indices: Sequence[int]) -> Element:
        """Rows of each array, taken at once."""
        rows = tuple(array[np.asarray(indices, np.intp)] for array in self._arrays)
        return rows if len(rows) > 1 else rows[0]


class Shuffle:
    """The elements in the order in which a buffer would give them; seed and epoch decide it."""

    def __init__(self, source: Stage, buffer_size: int, seed: int | None) -> None:
        self._source = source
        self._buffer_size = buffer_size
        self._seed = secrets.randbits(64) if seed is None else seed
        self._order: tuple[int, npt.NDArray[np.intp]] = (-1, np.empty(0, np.intp))
        self.length = source.length

    def element(self, epoch: int, index: int) -> Element:
        """One element in the epoch's order."""
        return self._source.element(epoch, int(self._order_of(epoch)[index]))

    def stacked(self, epoch: int, indices: Sequence[int]) -> Element:
        """Several elements in the epoch's order."""
        return self._source.stacked(epoch, self._order_of(epoch)[np.asarray(indices, np.intp)].tolist())

    def _order_of(self, epoch: int) -> npt.NDArray[np.intp]:
        """The order of an epoch; the last one asked for is kept."""
        if self._order[0] != epoch:
            numbers = np.random.Generator(np.random.Philox(key=[self._seed % 2**64, epoch]))
            self._order = (epoch, _buffered_order(numbers, self.length or 0, self._buffer_size))
        return self._order[1]


def _buffered_order(numbers: np.random.Generator, length: int, buffer_size: int) -> npt.NDArray[np.intp]:
    """The order in which a buffer gives elements: one of those in it at random, whose place the next one takes.

    A buffer that holds all of them is a plain permutation.
    """
    if buffer_size >= length:
        return numbers.permutation(length).astype(np.intp)
    order = np.empty(length, np.intp)
    buffer = list(range(buffer_size))
    chosen = numbers.integers(0, buffer_size, length - buffer_size)
    for position, place in enumerate(chosen.tolist()):
        order[position] = buffer[place]
        buffer[place] = position + buffer_size
    order[length - buffer_size :] = numbers.permutation(buffer)
    return order


class Batch:
    """`size` elements of the source stacked into one."""

    def __init__(self, source: Stage, size: int, drop_remainder: bool) -> None:
        self._source = source
        self._size = size
        count = source.length
        self.length = None if count is None else count // size if drop_remainder else -(-count // size)

    def element(self, epoch: int, index: int) -> Element:
        """One batch; the last may have fewer elements."""
        start = index * self._size
        end = start + self._size if self._source.length is None else min(start + self._size, self._source.length)
        return self._source.stacked(epoch, range(start, end))

    def stacked(self, epoch: int, indices: Sequence[int]) -> Element:
        """Batches of batches; they must have the same size."""
        return _stack([self.element(epoch, index) for index in indices])


class Map:
    """A function of each element."""

    def __init__(self, source: Stage, function: Callable[..., Element]) -> None:
        self._source = source
        self._function = function
        self.length = source.length

    def element(self, epoch: int, index: int) -> Element:
        """The function of one element; a tuple becomes its arguments."""
        element = self._source.element(epoch, index)
        return self._function(*element) if isinstance(element, tuple) else self._function(element)

    def stacked(self, epoch: int, indices: Sequence[int]) -> Element:
        """The function of several elements, one by one, stacked."""
        return _stack([self.element(epoch, index) for index in indices])


class Take:
    """The first elements of each epoch."""

    def __init__(self, source: Stage, count: int) -> None:
        self._source = source
        self.length: int | None = count if source.length is None else min(count, source.length)

    def element(self, epoch: int, index: int) -> Element:
        """The source's element."""
        return self._source.element(epoch, index)

    def stacked(self, epoch: int, indices: Sequence[int]) -> Element:
        """The source's elements."""
        return self._source.stacked(epoch, indices)


class Repeat:
    """Epochs of the source one after the other, `count` of them in each; None: all in one that has no end."""

    def __init__(self, source: Stage, count: int | None) -> None:
        self._source = source
        self._count = count
        endless = source.length is None or (count is None and source.length > 0)
        self.length = None if endless else (source.length or 0) * (count or 1)

    def element(self, epoch: int, index: int) -> Element:
        """The source's element of the epoch that `index` falls into."""
        inner, position = self._place(epoch, index)
        return self._source.element(inner, position)

    def stacked(self, epoch: int, indices: Sequence[int]) -> Element:
        """Elements that may be of several epochs of the source."""
        places = [self._place(epoch, index) for index in indices]
        if len({inner for inner, _ in places}) == 1:
            return self._source.stacked(places[0][0], [position for _, position in places])
        return _stack([self._source.element(inner, position) for inner, position in places])

    def _place(self, epoch: int, index: int) -> tuple[int, int]:
        length = self._source.length
        if length is None:
            return epoch, index
        passes, position = divmod(index, length)
        return epoch * (self._count or 1) + passes, position
