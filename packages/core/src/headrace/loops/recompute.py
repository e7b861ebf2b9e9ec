"""Recompute: what is cheap to compute again is not kept for later groups. Pure: groups in, additions to them out.

A forward pass makes many values that the backward pass reads much later. Where such a value follows by a few cheap
operators from one that is kept anyway, reading that one costs the same and the value need not be written at all. Where
it has to be written for something that comes soon, it need at least not be kept for what comes late: whatever is alive
by then serves to compute it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence

from headrace.loops.fusion import Group, Item, produced_by
from headrace.loops.lowering import misfit
from headrace.loops.row_buffers import COSTLY
from headrace.loops.value import Value, reached

__all__ = ["recomputed"]

DEEPEST = 8
"""Operations in a row that are computed again."""
MOST_OPERATORS = 12
"""Operators of one operation that still count as few."""
FAR = 1 << 21
"""Bytes of a value that no cache near a core keeps: reading it again takes longer than the operators in `SWIFT`."""
SWIFT = frozenset({"div", "exp", "rsqrt", "sigmoid", "sqrt", "tanh"})
"""Costly operators of some ten to twenty instructions for a vector."""


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
        self.kept = kept
        self.fixed = set(kept)  # stored whatever is computed again: what runs on its own reads it
        self.until: dict[Hashable, int] = {}  # the last group that runs on its own and reads it
        self.readers: dict[Hashable, set[int]] = {}
        for number, group in enumerate(groups):
            for key in group.reads:
                self.readers.setdefault(key, set()).add(number)
            if group.space is None:
                self.fixed |= group.reads
                self.until.update(dict.fromkeys(group.reads, number))
            for key in group.reads:
                if self._home_of(key) != number:
                    self.stored.add(key)

    def _home_of(self, key: Hashable) -> int | None:
        return self.home.get(self.maker[key]) if key in self.maker else None

    def run(self) -> list[list[int]]:
        """Go through the groups in order and decide for each value that it reads, then for those that live long."""
        again = [self._of_group(number) for number in range(len(self.groups))]
        return [self._outlived(number, added) for number, added in enumerate(again)]

    def _replace(self, number: int, key: Hashable, leaves: set[Hashable]) -> None:
        """Let a group read what tells a value instead of the value."""
        self.groups[number].reads.discard(key)
        self.readers[key].discard(number)
        for leaf in leaves:
            self.groups[number].reads.add(leaf)
            self.readers.setdefault(leaf, set()).add(number)

    def _outlived(self, number: int, added: list[int]) -> list[int]:
        """What a group computes again, with values that would be kept only for it though others tell them."""
        group = self.groups[number]
        if group.space is None:
            return added

        def is_alive(source: Hashable) -> bool:
            if source == key:
                return False
            if source in group.reads or source in self.kept or source not in self.maker:
                return True
            return any(reader > number for reader in self.readers.get(source, ()))

        for key in sorted((key for key in group.reads if isinstance(key, int)), key=int):
            is_last = key not in self.kept and all(reader <= number for reader in self.readers[key])
            if not is_last or self._home_of(key) in (None, number):
                continue
            chain = self._chain(key, 0, is_alive)
            if chain is None:
                continue
            positions, leaves = chain
            size = self._bytes(key)
            read = sum(self._bytes(leaf, otherwise=size) for leaf in leaves - group.reads)
            if read > size or not self._fits(group, [*added, *positions]):
                continue
            added = sorted({*added, *positions})
            self._replace(number, key, leaves)
        return added

    def _bytes(self, key: Hashable, otherwise: int = 0) -> int:
        """Bytes of what an item with loops makes, or some other number."""
        outputs = self.items[self.maker[key]].outputs if key in self.maker else ()
        return next((_bytes_of(output.value) for output in outputs if output.key == key), otherwise)

    def _lives_longer(self, key: Hashable, number: int, leaves: set[Hashable]) -> bool:
        """True if a value is kept for something that runs on its own when all that tells it would be gone."""
        others = [reader for leaf in leaves for reader in self.readers.get(leaf, ()) if reader != number]
        return self.until.get(key, -1) > max(others, default=len(self.groups))

    def _of_group(self, number: int) -> list[int]:
        group = self.groups[number]
        added: list[int] = []
        if group.space is None:
            return added
        for key in sorted((key for key in group.reads if isinstance(key, int)), key=int):
            if self._home_of(key) in (None, number):
                continue
            chain = self._chain(key, 0, self._is_there)
            if chain is None:
                continue
            positions, leaves = chain
            new = leaves - group.reads
            if len(new) > 1 or (new and self._lives_longer(key, number, new)):
                continue
            if not self._fits(group, [*added, *positions]):
                continue
            added += [position for position in positions if position not in added]
            self._replace(number, key, leaves)
        return sorted(added)

    def _chain(
        self, key: Hashable, depth: int, is_there: Callable[[Hashable], bool]
    ) -> tuple[list[int], set[Hashable]] | None:
        """The items that compute a value from memory that is there anyway, and that memory; None if it costs much."""
        position = self.maker.get(key)
        if position is None or depth >= DEEPEST or not _is_cheap(self.items[position]):
            return None
        item = self.items[position]
        if _widens(item):  # keeping the narrow value costs less than keeping this one, whoever made it
            return [position], set(item.reads)
        positions, leaves = [position], set()
        for source in item.reads:
            above = None if is_there(source) else self._chain(source, depth + 1, is_there)
            if above is None and not is_there(source):
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
    """Element by element, with few operators, none of which costs more than reading, from memory that stays so."""
    if not item.outputs or item.partial or item.mutable or len(item.writes) != 1:
        return False
    ops = [value.op for value in reached(*(output.value for output in item.outputs))]
    is_far = _bytes_of(item.outputs[0].value) >= FAR
    return len(ops) <= MOST_OPERATORS and not ({"reduce", "index"} | COSTLY - (SWIFT if is_far else set())) & set(ops)


def _bytes_of(value: Value) -> int:
    return math.prod(value.shape) * value.dtype.size
