"""Memory planning: which buffer of the arena each value of a plan lives in. Pure: steps in, offsets out.

Values live from the step that makes them to the last step that reads them or a view of them. Two values may share bytes
if their lives do not overlap; an in-place step may write over an input that dies with it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Allocation", "Step", "last_uses", "plan_memory"]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector registers


@dataclass(frozen=True, slots=True)
class Step:
    """What the planner needs to know of one step; values are numbered.

    Attributes:
      inputs: the values it reads.
      outputs: the values it gives.
      sizes: bytes of each output that goes to the arena, or None for those that do not.
      aliases: inputs (positions) that the outputs may be views of.
      in_place: inputs (positions) that output 0 may be written over if they die here.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: tuple[int | None, ...]
    aliases: tuple[int, ...] = ()
    in_place: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """The result of planning.

    Attributes:
      offsets: for each value in the arena its first byte.
      size: bytes of the arena.
    """

    offsets: dict[int, int]
    size: int


def last_uses(steps: Sequence[Step], results: Sequence[int]) -> tuple[dict[int, int], dict[int, frozenset[int]]]:
    """When each value is last needed, views included.

    Returns:
      For each value the index of the last step that needs it or, if it has memory of its own, a view of it
      (`len(steps)` for results); and for each value the set of values whose memory it may be a view of, which is itself
      alone if it is no view. A value that has a place in the arena besides is in its own set.
    """
    roots: dict[int, frozenset[int]] = {}
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        for value in step.inputs:
            last[value] = index
            for root in roots.setdefault(value, frozenset({value})):
                last[root] = index
        viewed = frozenset().union(*(roots[step.inputs[position]] for position in step.aliases))
        for value, size in zip(step.outputs, step.sizes, strict=True):
            roots[value] = viewed if viewed and size is None else viewed | {value}
            last[value] = index
    for value in results:
        for root in (value, *roots.setdefault(value, frozenset({value}))):
            last[root] = len(steps)
    return last, roots


def plan_memory(steps: Sequence[Step], results: Sequence[int]) -> Allocation:
    """Place the outputs that go to the arena, greedily: the lowest offset at which a value overlaps no living one.

    Args:
      steps: the steps in order.
      results: values that must outlive the last step.
    """
    last, roots = last_uses(steps, results)
    arena = _Arena()
    offsets: dict[int, int] = {}
    held: dict[int, int] = {}  # value -> bytes it keeps from others now
    dying: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        for value in dying.pop(index - 1, ()):
            if value in held:
                arena.give_back(offsets[value], held.pop(value))
        for position, (value, size) in enumerate(zip(step.outputs, step.sizes, strict=True)):
            if size is None:
                continue
            needed = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
            donor = _donor(step, index, needed, last, roots, held) if position == 0 else None
            if donor is not None:
                del held[donor]
            offsets[value] = arena.take(needed) if donor is None else offsets[donor]
            held[value] = needed
            dying.setdefault(last[value], []).append(value)
    return Allocation(offsets, arena.size)


class _Arena:
    """The free parts of the arena, apart and in order. Mutable.

    Keeping these and not the living values makes a step cost what its fragmentation is, not what is alive: a deep
    network keeps thousands of values alive, in one piece.
    """

    def __init__(self) -> None:
        self.size = 0
        self._gaps: list[tuple[int, int]] = []  # start, end

    def take(self, size: int) -> int:
        """The lowest offset with that many free bytes; the arena grows if there is none."""
        for index, (start, end) in enumerate(self._gaps):
            if end - start >= size:
                self._gaps[index : index + 1] = [(start + size, end)] if end - start > size else []
                return start
        start = self._gaps.pop()[0] if self._gaps and self._gaps[-1][1] == self.size else self.size
        self.size = start + size
        return start

    def give_back(self, start: int, size: int) -> None:
        """Free bytes again, joined with the free parts beside them."""
        end = start + size
        index = bisect.bisect(self._gaps, (start, end))
        if index < len(self._gaps) and self._gaps[index][0] == end:
            end = self._gaps.pop(index)[1]
        if index > 0 and self._gaps[index - 1][1] == start:
            index -= 1
            start = self._gaps.pop(index)[0]
        self._gaps.insert(index, (start, end))


def _donor(
    step: Step,
    index: int,
    needed: int,
    last: dict[int, int],
    roots: dict[int, frozenset[int]],
    held: dict[int, int],
) -> int | None:
    """An input in the arena that dies here and whose memory nobody else sees."""
    for position in step.in_place:
        value = step.inputs[position]
        alone = held.get(value) == needed and last[value] == index and roots[value] == {value}
        if alone and _seen_once(step, value, roots):
            return value
    return None


def _seen_once(step: Step, value: int, roots: dict[int, frozenset[int]]) -> bool:
    """True unless a view of `value` is read by the same step: writing in place would change that view."""
    return all(value not in roots[other] for other in step.inputs if other != value)
