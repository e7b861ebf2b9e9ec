"""Recompute: what is cheap to compute again is not kept for later groups. Pure: groups in, additions to them out.

A forward pass makes many values that the backward pass reads much later. Where such a value follows by a few cheap
operators from one that is kept anyway, reading that one costs the same and the value need not be written at all.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from headrace.loops.fusion import Group, Item, produced_by
from headrace.loops.lowering import COSTLY, misfit
from headrace.loops.value import Value

__all__ = ["recomputed"]

DEEPEST = 6
"""Operations in a row that are computed again."""
MOST_OPERATORS = 12
"""Operators of one operation that still count as few."""


def recomputed(items: Sequence[Item], groups: Sequence[Group], kept: Collection[Hashable]) -> list[list[int]]:
    """For each group the items of other groups that it computes again instead of reading what they wrote.

    Args:
      items: see `fusion.fuse`.
      groups: what it gave; their `reads` are brought up to date.
      kept: memory that outlives the step whatever is done here.
    """
    return _Recomputation(items, groups, kept).run()


class _Recomputation:
    def __init__(self, items: Sequence[Item], groups: Sequence[Group], kept: Collection[Hashable]) -> None:
        self.items, self.groups = items, groups
        self.maker: dict[Hashable, int] = {}
        self.home = {position: number for number, group in enumerate(groups) for position in group.items}
        for position, item in enumerate(items):
            for key in item.writes:
                self.maker[key] = position
        self.stored = set(kept)
        self.fixed = set(kept)  # stored whatever is computed again: what runs on its own reads it
        for number, group in enumerate(groups):
            if group.space is None:
                self.fixed |= group.reads
            for key in group.reads:
                if self._home_of(key) != number:
                    self.stored.add(key)

    def _home_of(self, key: Hashable) -> int | None:
        return self.home.get(self.maker[key]) if key in self.maker else None

    def run(self) -> list[list[int]]:
        """Go through the groups in order and decide for each value that it reads."""
        return [self._of_group(number) for number in range(len(self.groups))]

    def _of_group(self, number: int) -> list[int]:
        group = self.groups[number]
        added: list[int] = []
        if group.space is None:
            return added
        for key in sorted((key for key in group.reads if isinstance(key, int)), key=int):
            if self._home_of(key) in (None, number):
                continue
            chain = self._chain(key, 0)
            if chain is None:
                continue
            positions, leaves = chain
            if len(leaves - group.reads) > 1 or not self._fits(group, [*added, *positions]):
                continue
            added += [position for position in positions if position not in added]
            group.reads.discard(key)
            group.reads |= leaves
        return sorted(added)

    def _chain(self, key: Hashable, depth: int) -> tuple[list[int], set[Hashable]] | None:
        """The items that compute a value from memory that is there anyway, and that memory; None if it costs much."""
        position = self.maker.get(key)
        if position is None or depth >= DEEPEST or not _is_cheap(self.items[position]):
            return None
        item = self.items[position]
        if _widens(item):  # keeping the narrow value costs less than keeping this one, whoever made it
            return [position], set(item.reads)
        positions, leaves = [position], set()
        for source in item.reads:
            above = None if self._is_there(source) else self._chain(source, depth + 1)
            if above is None and not self._is_there(source):
                return None
            if above is None:
                leaves.add(source)
            else:
                positions += above[0]
                leaves |= above[1]
        return positions, leaves

    def _is_there(self, key: Hashable) -> bool:
        """True for what no cheap item makes, or what lies in memory whatever is done here."""
        position = self.maker.get(key)
        return position is None or key in self.fixed or (key in self.stored and not _is_cheap(self.items[position]))

    def _fits(self, group: Group, positions: Sequence[int]) -> bool:
        members = [self.items[position] for position in sorted({*group.items, *positions})]
        own = [self.items[position] for position in group.items]
        assert group.space is not None
        outputs = [output for item in own for output in item.outputs]
        return misfit(group.space, group.axes, produced_by(members), outputs) is None


def _widens(item: Item) -> bool:
    """True for a cast of memory to a wider dtype."""
    value = item.outputs[0].value
    return value.op == "cast" and value.args[0].op == "input" and value.args[0].dtype.size < value.dtype.size


def _is_cheap(item: Item) -> bool:
    """Element by element, with few operators and none that is costly, from memory that does not change."""
    if not item.outputs or item.partial or item.mutable or len(item.writes) != 1:
        return False
    found: dict[int, Value] = {}
    stack = [output.value for output in item.outputs]
    while stack:
        value = stack.pop()
        if id(value) not in found:
            found[id(value)] = value
            stack.extend(value.args)
    ops = [value.op for value in found.values()]
    return len(ops) <= MOST_OPERATORS and not ({"reduce", "index"} | COSTLY) & set(ops)
