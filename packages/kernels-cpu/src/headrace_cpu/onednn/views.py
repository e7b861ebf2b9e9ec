"""Views: elements that lie in a memory at regular distances, and what moving data makes of them. Pure.

A chain of operations that only move elements (transpose, split, slice, reshape, concatenation) is one view of the
memory at its end: read there, nothing has to be moved; written there, neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.loops.value import Piece, Value

__all__ = ["View", "piece_of", "read_through", "source_of", "written_through"]


@dataclass(frozen=True, slots=True)
class View:
    """Elements in a memory.

    Attributes:
      offset: the first one.
      sizes: how many along each axis.
      strides: from one to the next along each axis; 0 for one that is repeated.
    """

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Sequence[int]) -> View:
        """All elements of an array without gaps."""
        return cls(0, tuple(shape), tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The elements in another shape, in the same order; None where their distances are not regular then.

        Neighbouring axes are taken together, old and new, until they hold the same number of elements: those of an old
        group must follow each other without gaps.
        """
        if math.prod(shape) != math.prod(self.sizes) or 0 in shape:
            return None
        old = [(size, stride) for size, stride in zip(self.sizes, self.strides, strict=True) if size != 1]
        strides: list[int] = []
        place = axis = 0
        while place < len(old):
            end, count, whole = axis, 1, 1
            first = place
            while whole == 1 or count != whole:
                if whole <= count:
                    whole *= old[place][0]
                    place += 1
                else:
                    count *= shape[end]
                    end += 1
            for (_, outer), (size, inner) in zip(old[first : place - 1], old[first + 1 : place], strict=True):
                if outer != size * inner:
                    return None
            inner = old[place - 1][1]
            strides += [inner * math.prod(shape[number + 1 : end]) for number in range(axis, end)]
            axis = end
        strides += [1] * (len(shape) - axis)
        return View(self.offset, tuple(shape), tuple(strides))


def source_of(value: Value) -> Value | None:
    """The one input whose elements a value only moves, or None."""
    while value.op == "view":
        value = value.args[0]
    return value if value.op == "input" else None


def read_through(value: Value, source: View) -> View:
    """Where the elements of a value lie that only moves those of an input.

    Args:
      value: what is made; `source_of` gives its input.
      source: where the elements of the input lie.
    """
    if value.op == "input":
        return source
    given = read_through(value.args[0], source)
    offset, strides = given.offset, [0] * len(value.shape)
    for stride, (own, step, start) in zip(given.strides, value.payload, strict=True):
        offset += start * stride
        if own is not None:
            strides[own] = step * stride
    return View(offset, value.shape, tuple(strides))


def written_through(value: Value, target: View) -> View | None:
    """Where the elements of an input go, so that those of a value that only moves them are where they should be.

    Args:
      value: what is made; `source_of` gives its input.
      target: where its elements should be.
    Returns:
      None if not each element of the input is used once.
    """
    if value.op == "input":
        return target
    shape = value.args[0].shape
    if math.prod(value.shape) != math.prod(shape):
        return None
    strides = []
    for size, (own, step, start) in zip(shape, value.payload, strict=True):
        if size != 1 and (own is None or (step, start) != (1, 0)):
            return None
        strides.append(1 if own is None else target.strides[own])
    return written_through(value.args[0], View(target.offset, shape, tuple(strides)))


def piece_of(target: View, piece: Piece, shape: Sequence[int]) -> View:
    """Where a piece goes.

    Args:
      target: where the whole goes.
      piece: which part of the whole it is.
      shape: of the piece.
    """
    offset = target.offset + sum(start * stride for start, stride in zip(piece.starts, target.strides, strict=True))
    strides = tuple(step * stride for step, stride in zip(piece.steps, target.strides, strict=True))
    return View(offset, tuple(shape), strides)
