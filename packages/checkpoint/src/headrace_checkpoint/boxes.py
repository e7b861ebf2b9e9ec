"""Box: a part of a tensor with sides along its axes, as shards hold it and readers want it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Box", "covers"]


@dataclass(frozen=True, slots=True)
class Box:
    """The elements from `offset` on, `shape` of them along the axes.

    Example:
      >>> Box((2, 0), (4, 3)).intersection(Box((0, 1), (3, 9)))
      Box(offset=(2, 1), shape=(1, 2))
    """

    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Box:
        """All of a tensor of that shape."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def num_elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def lies_in(self, shape: Sequence[int]) -> bool:
        """True if it is a part of a tensor of that shape."""
        return (
            len(self.offset) == len(self.shape) == len(shape)
            and all(offset >= 0 and size >= 0 for offset, size in zip(self.offset, self.shape, strict=True))
            and all(
                offset + size <= extent for offset, size, extent in zip(self.offset, self.shape, shape, strict=True)
            )
        )

    def intersection(self, other: Box) -> Box | None:
        """What two boxes of one tensor share, or None if that is nothing."""
        offset = tuple(map(max, self.offset, other.offset))
        ends = [
            min(a + n, b + m) for a, n, b, m in zip(self.offset, self.shape, other.offset, other.shape, strict=True)
        ]
        shape = tuple(end - start for start, end in zip(offset, ends, strict=True))
        return Box(offset, shape) if all(size > 0 for size in shape) else None

    def within(self, outer: Box) -> tuple[slice, ...]:
        """The index that gives this box of an array that holds `outer`."""
        return tuple(
            slice(mine - its, mine - its + size)
            for mine, its, size in zip(self.offset, outer.offset, self.shape, strict=True)
        )

    def relative_to(self, outer: Box) -> Box:
        """The same part, of the array that holds `outer`."""
        return Box(tuple(mine - its for mine, its in zip(self.offset, outer.offset, strict=True)), self.shape)

    def span(self, shape: Sequence[int]) -> tuple[int, int]:
        """Where in a tensor of that shape, its elements counted in C order, it begins and ends; it has elements.

        Example:
          >>> Box((1, 2), (2, 1)).span([4, 5])
          (7, 13)
        """
        first = last = 0
        for offset, size, extent in zip(self.offset, self.shape, shape, strict=True):
            first, last = first * extent + offset, last * extent + offset + size - 1
        return first, last + 1

    def runs(self, shape: Sequence[int], gap: int) -> Iterator[Box]:
        """Divide it into parts whose elements lie together in a tensor of that shape, in C order.

        Args:
          shape: of the tensor.
          gap: how many elements of others may lie between two of a part.

        Example:
          >>> list(Box((0, 1), (2, 3)).runs([2, 1000], gap=100))
          [Box(offset=(0, 1), shape=(1, 3)), Box(offset=(1, 1), shape=(1, 3))]
          >>> list(Box((0, 1), (2, 3)).runs([2, 5], gap=100))
          [Box(offset=(0, 1), shape=(2, 3))]
        """
        axis = next((axis for axis, size in enumerate(self.shape) if size > 1), None)
        inner = () if axis is None else shape[axis + 1 :]
        if axis is None or math.prod(inner) <= gap or tuple(inner) == self.shape[axis + 1 :]:
            yield self
            return
        for place in range(self.offset[axis], self.offset[axis] + self.shape[axis]):
            offset, size = (*self.offset[:axis], place), (*self.shape[:axis], 1)
            yield from Box(offset + self.offset[axis + 1 :], size + self.shape[axis + 1 :]).runs(shape, gap)


def covers(boxes: Iterable[Box], wanted: Box) -> bool:
    """True if the boxes, of which no two share an element, together hold all of `wanted`."""
    shared = [part for box in boxes if (part := box.intersection(wanted)) is not None]
    return sum(part.num_elements for part in shared) == wanted.num_elements
