"""Memory planning: which buffer of the arena each value of a plan lives in. Pure: steps in, offsets out.

Values live from the step that makes them to the last step that reads them or a view of them. Two values may share bytes
if their lives do not overlap; an in-place step may write over an input that dies with it. So values form blocks, each
with a size and a span of steps, and the blocks are packed: in the order of time, which is often as small as can be, and
where it is not also the largest first, in two senses of it. The smallest arena wins.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.plan.alignment import ALIGNMENT
from headrace.types import Array

__all__ = ["Allocation", "MemoryUse", "Step", "last_uses", "memory_use", "plan_memory"]

MOST_PACKED = 2048
"""Blocks up to which they are packed in several ways: each further way takes some 15 us for a block."""


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
      floor: bytes of the values that are alive at the fullest moment: no arena could be smaller.
    """

    offsets: dict[int, int]
    size: int
    floor: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a plan needs while it runs.

    Attributes:
      arena: bytes of the arena.
      outside: the most bytes that are alive outside of it at one moment.
      alive: values of the fullest moment with their bytes, the largest first.
    """

    arena: int
    outside: int
    alive: tuple[tuple[int, int], ...]


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
    """Place the outputs that go to the arena so that no two share bytes while both are alive.

    Args:
      steps: the steps in order.
      results: values that must outlive the last step.
    """
    blocks = _blocks(steps, *last_uses(steps, results))
    floor = int(_alive(((block.size, block.start, block.end) for block in blocks), len(steps)).max())
    starts, size = _packed_in_time(blocks)
    if floor < size and len(blocks) <= MOST_PACKED:
        for order in (_by_size, _by_area):
            others, other_size = _packed_in_order(blocks, order)
            if other_size < size:
                starts, size = others, other_size
            if size == floor:
                break
    offsets = {value: start for block, start in zip(blocks, starts, strict=True) for value in block.values}
    return Allocation(offsets, size, floor)


def memory_use(
    steps: Sequence[Step], results: Sequence[int], allocation: Allocation, outside: Mapping[int, int]
) -> MemoryUse:
    """The most memory that the steps need at one moment.

    Args:
      steps: the steps in order.
      results: values that must outlive the last step.
      allocation: what `plan_memory` gave for them.
      outside: bytes of each value made by a step that has memory of its own outside the arena.
    """
    last, roots = last_uses(steps, results)
    blocks = _blocks(steps, last, roots)
    born = {value: index for index, step in enumerate(steps) for value in step.outputs}
    beside = _alive(((size, born[value], last[value]) for value, size in outside.items()), len(steps))
    inside = _alive(((block.size, block.start, block.end) for block in blocks), len(steps))
    moment = int(np.argmax(beside + inside))
    alive = [(value, size) for value, size in outside.items() if born[value] <= moment <= last[value]]
    for block in blocks:
        if block.start <= moment <= block.end:
            alive.append(([value for value in block.values if born[value] <= moment][-1], block.size))
    return MemoryUse(allocation.size, int(beside.max()), tuple(sorted(alive, key=lambda item: (-item[1], item[0]))))


def _alive(spans: Iterable[tuple[int, int, int]], count: int) -> Array:
    """Bytes that are alive at each of `count` steps, and after them: spans are (bytes, first step, last step)."""
    changes = np.zeros(count + 2, np.int64)
    for size, first, last in spans:
        changes[first] += size
        changes[last + 1] -= size
    result: Array = np.cumsum(changes)
    return result


@dataclass(slots=True)
class _Block:
    """Values in the same bytes, each written over the one before. Mutable while they are found.

    Attributes:
      size: bytes, a multiple of the alignment.
      start: the step that makes the first value.
      end: the last step that needs the last one.
      values: in order.
    """

    size: int
    start: int
    end: int
    values: list[int] = field(default_factory=list)


def _blocks(steps: Sequence[Step], last: dict[int, int], roots: dict[int, frozenset[int]]) -> list[_Block]:
    """What has to be placed, in the order in which it comes to be."""
    blocks: list[_Block] = []
    held: dict[int, _Block] = {}  # value -> the block whose last value it is
    for index, step in enumerate(steps):
        for position, (value, size) in enumerate(zip(step.outputs, step.sizes, strict=True)):
            if size is None:
                continue
            needed = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
            donor = _donor(step, index, needed, last, roots, held) if position == 0 else None
            block = _Block(needed, index, index) if donor is None else held.pop(donor)
            if donor is None:
                blocks.append(block)
            block.values.append(value)
            block.end = last[value]
            held[value] = block
    return blocks


def _packed_in_time(blocks: Sequence[_Block]) -> tuple[list[int], int]:
    """Give each block, when it comes to be, the lowest offset that is free then."""
    arena = _Arena()
    starts: list[int] = []
    ending: list[tuple[int, int]] = []  # last step, block: what is alive, the next to end first
    for number, block in enumerate(blocks):
        while ending and ending[0][0] < block.start:
            _, ended = heapq.heappop(ending)
            arena.give_back(starts[ended], blocks[ended].size)
        starts.append(arena.take(block.size))
        heapq.heappush(ending, (block.end, number))
    return starts, arena.size


def _by_size(block: _Block) -> tuple[int, ...]:
    return -block.size, block.start


def _by_area(block: _Block) -> tuple[int, ...]:
    return -block.size * (block.end - block.start + 1), block.start


def _packed_in_order(blocks: Sequence[_Block], order: Callable[[_Block], tuple[int, ...]]) -> tuple[list[int], int]:
    """Give each block, whatever its time, the lowest offset where it meets none of those that came before it."""
    placed = sorted(range(len(blocks)), key=lambda number: order(blocks[number]))
    first, end, low, high = (np.zeros(len(blocks), np.int64) for _ in range(4))
    for count, number in enumerate(placed):
        block = blocks[number]
        beside = np.flatnonzero((first[:count] <= block.end) & (end[:count] >= block.start))
        beside = beside[np.argsort(low[beside], kind="stable")]
        offset = 0
        if beside.size:
            free_from = np.maximum.accumulate(np.concatenate(([0], high[beside])))
            fits = np.flatnonzero(low[beside] - free_from[:-1] >= block.size)
            offset = int(free_from[fits[0]] if fits.size else free_from[-1])
        first[count], end[count], low[count], high[count] = block.start, block.end, offset, offset + block.size
    starts = [0] * len(blocks)
    for count, number in enumerate(placed):
        starts[number] = int(low[count])
    return starts, int(high.max(initial=0))


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
    held: dict[int, _Block],
) -> int | None:
    """An input in the arena that dies here and whose memory nobody else sees."""
    for position in step.in_place:
        value = step.inputs[position]
        block = held.get(value)
        alone = block is not None and block.size == needed and last[value] == index and roots[value] == {value}
        if alone and _seen_once(step, value, roots):
            return value
    return None


def _seen_once(step: Step, value: int, roots: dict[int, frozenset[int]]) -> bool:
    """True unless a view of `value` is read by the same step: writing in place would change that view."""
    return all(value not in roots[other] for other in step.inputs if other != value)
