"""Memory planning: which buffer of the arena each value of a plan lives in. Pure: steps in, offsets out.

Values live from the step that makes them to the last step that reads them or a view of them. Two values may share bytes
if their lives do not overlap; an in-place step may write over an input that dies with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Allocation", "Step", "last_uses", "plan_memory"]

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
      For each value the index of the last step that needs its memory (`len(steps)` for results), and for each value the
      set of values whose memory it may be a view of, itself included.
    """
    roots: dict[int, frozenset[int]] = {}
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        for value in step.inputs:
            for root in roots.setdefault(value, frozenset({value})):
                last[root] = index
        viewed = frozenset().union(*(roots[step.inputs[position]] for position in step.aliases))
        for value in step.outputs:
            roots[value] = viewed | {value}
            for root in roots[value]:
                last[root] = index
    for value in results:
        for root in roots.setdefault(value, frozenset({value})):
            last[root] = len(steps)
    return last, roots


def plan_memory(steps: Sequence[Step], results: Sequence[int]) -> Allocation:
    """Place the outputs that go to the arena, greedily: the lowest offset at which a value overlaps no living one.

    Args:
      steps: the steps in order.
      results: values that must outlive the last step.
    """
    last, roots = last_uses(steps, results)
    living: list[tuple[int, int, int]] = []  # (offset, end, value), sorted by offset
    offsets: dict[int, int] = {}
    ends: dict[int, int] = {}
    high_water = 0
    for index, step in enumerate(steps):
        living = [item for item in living if last[item[2]] >= index]
        for position, (value, size) in enumerate(zip(step.outputs, step.sizes, strict=True)):
            if size is None:
                continue
            donor = _donor(step, index, size, last, roots, ends, offsets) if position == 0 else None
            if donor is not None:
                offset = offsets[donor]
                living = [item for item in living if item[2] != donor]
            else:
                offset = _first_gap(living, size)
            end = offset + _aligned(size)
            offsets[value], ends[value] = offset, end
            living.append((offset, end, value))
            living.sort()
            high_water = max(high_water, end)
    return Allocation(offsets, high_water)


def _aligned(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)


def _donor(
    step: Step,
    index: int,
    size: int,
    last: dict[int, int],
    roots: dict[int, frozenset[int]],
    ends: dict[int, int],
    offsets: dict[int, int],
) -> int | None:
    """An input in the arena that dies here and whose memory nobody else sees."""
    for position in step.in_place:
        value = step.inputs[position]
        same_size = value in offsets and ends[value] - offsets[value] == _aligned(size)
        if same_size and last[value] == index and roots[value] == {value} and _seen_once(step, value, roots):
            return value
    return None


def _seen_once(step: Step, value: int, roots: dict[int, frozenset[int]]) -> bool:
    """True unless a view of `value` is read by the same step: writing in place would change that view."""
    return all(value not in roots[other] for other in step.inputs if other != value)


def _first_gap(living: Sequence[tuple[int, int, int]], size: int) -> int:
    offset = 0
    for start, end, _ in living:
        if start - offset >= _aligned(size):
            return offset
        offset = max(offset, end)
    return offset
