"""Fusion: which operations of a segment share a region. Pure: items in, groups out, with what was decided and why.

The items come in an order in which they may run. One after the other, each joins the group with which it shares the
most bytes of memory traffic, or starts a group of its own. The cost model counts bytes: a value that a group computes
or reads already need not be read again, and a value that nobody outside the group wants is never written. Joining is
refused where the group would have to run both before and after another one, where the loops do not fit (`lowering`), or
where a group becomes larger than a compiler should see at once.

A group stands where its first item came, so that a later item can find what it reads in several groups and joins only
one of them: a * x + b * y is such an item. Therefore whole groups move at the end into the one that reads what they
make, if nothing between needs them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.loops.lowering import Output, Trial
from headrace.loops.value import Value, reached

__all__ = ["Group", "Item", "fits_alone", "fuse", "produced_by"]

MAX_ITEMS = 96
"""Operations of one group: code grows with it, and the time to compile it."""
MAX_KEYS = 48
"""Buffers of one group: each is a stream that the memory has to follow."""


@dataclass(frozen=True, slots=True)
class Item:
    """One operation to place.

    Attributes:
      name: of the operation.
      outputs: the memory it writes and the value of each; empty for an operation without loops.
      reads: the memory it reads.
      writes: the memory it writes, also without loops.
      mutable: those of `reads` and `writes` whose content changes during the step (variables).
      after: positions of items that must have run before, beside those that follow from memory.
      partial: it writes only a part of its memory; the other parts are other items.
    """

    name: str
    outputs: tuple[Output, ...]
    reads: tuple[Hashable, ...]
    writes: tuple[Hashable, ...]
    mutable: frozenset[Hashable] = frozenset()
    after: frozenset[int] = frozenset()
    partial: bool = False

    @property
    def has_loops(self) -> bool:
        """False for what runs on its own."""
        return bool(self.outputs)


@dataclass(slots=True)
class Group:
    """Operations that run as one. Mutable while fusion works.

    Attributes:
      items: positions of its items, in order.
      space, axes: see `lowering.lower`; the space is None for an operation without loops.
      reads, writes: the memory it touches.
      decision: in a few words, why it is as it is.
    """

    items: list[int]
    space: tuple[int, ...] | None = None
    axes: tuple[int, ...] = ()
    reads: set[Hashable] = field(default_factory=set)
    writes: set[Hashable] = field(default_factory=set)
    decision: str = ""


def fuse(items: Sequence[Item], sizes: Mapping[Hashable, int]) -> list[Group]:
    """Group items.

    Args:
      items: in an order in which they may run.
      sizes: bytes of each memory.
    Returns:
      The groups in the order in which they must run.
    """
    fusion = _Fusion(items, sizes)
    for position in range(len(items)):
        fusion.place(position)
    fusion.gather()
    return [group for group in fusion.groups if group.items]


@dataclass(slots=True)
class _Fusion:
    items: Sequence[Item]
    sizes: Mapping[Hashable, int]
    groups: list[Group] = field(default_factory=list)
    home: list[int] = field(default_factory=list)  # item -> its group
    writers: dict[Hashable, list[int]] = field(default_factory=dict)  # memory -> the items that wrote its content
    readers: dict[Hashable, list[int]] = field(default_factory=dict)
    touching: dict[Hashable, list[int]] = field(default_factory=dict)  # memory -> groups
    trials: dict[int, Trial] = field(default_factory=dict)  # group -> what knows that its items fit
    forms: list[_Form] = field(default_factory=list)  # of each item

    def __post_init__(self) -> None:
        self.forms += [_Form.of(item) for item in self.items]

    def place(self, position: int) -> None:
        item = self.items[position]
        earliest = self._earliest(position)
        form = self.forms[position]
        chosen, decision = self._choose(position, earliest) if item.has_loops else (None, "runs on its own")
        if chosen is None:
            space, axes = (form.space, form.axes) if item.has_loops else (None, ())
            self.groups.append(Group([], space, axes, decision=decision))
            chosen = len(self.groups) - 1
        group = self.groups[chosen]
        if item.has_loops and group.items:
            group.space, group.axes = _joined_space(group, form) or (group.space, group.axes)
        group.items.append(position)
        self.home.append(chosen)
        for key in (*item.reads, *item.writes):
            touched = self.touching.setdefault(key, [])
            if chosen not in touched:
                touched.append(chosen)
        group.reads.update(item.reads)
        group.writes.update(item.writes)
        for key in item.reads:
            self.readers.setdefault(key, []).append(position)
        for key in item.writes:
            self.writers[key] = [*(self.writers.get(key, ()) if item.partial else ()), position]
            self.readers[key] = []

    def gather(self) -> None:
        """Move groups into those that read what they make, where that is allowed."""
        waiting: dict[int, set[int]] = {}
        for position, item in enumerate(self.items):
            for other in item.after:
                waiting.setdefault(other, set()).add(self.home[position])
        for number, group in enumerate(self.groups):
            if group.space is None:
                continue
            tried: set[int] = set()
            while (source := self._maker(number, tried)) is not None:
                tried.add(source)
                joined = self._joined(source, number, waiting)
                if joined is not None:
                    self._move(source, number, joined, waiting)
                    tried.clear()

    def _maker(self, number: int, tried: set[int]) -> int | None:
        """The earlier group that makes the most bytes of what a group reads, other than those that were tried."""
        shared: dict[int, int] = {}
        for key in self.groups[number].reads:
            for other in self.touching[key]:
                maker = self.groups[other]
                made = other < number and other not in tried and maker.space is not None and key in maker.writes
                if made and maker.items:
                    shared[other] = shared.get(other, 0) + self.sizes.get(key, 0)
        return max(shared, key=lambda other: (shared[other], other), default=None)

    def _joined(self, source: int, target: int, waiting: Mapping[int, set[int]]) -> Group | None:
        """The group that two make, or None if one must run before the other, or before another one between them."""
        first, second = self.groups[source], self.groups[target]
        needing = {other for item in first.items for other in waiting.get(item, ())}
        needing |= {other for key in first.writes for other in self.touching[key]}
        needing |= {other for key in first.reads for other in self.touching[key] if key in self.groups[other].writes}
        if any(source < other < target and self.groups[other].items for other in needing):
            return None
        if not all(self._follows(first, position) for position in second.items):
            return None
        joined = Group(list(first.items), first.space, first.axes, set(first.reads), set(first.writes))
        for position in second.items:
            item = self.items[position]
            if self._obstacle(joined, position) is not None:
                return None
            joined.space, joined.axes = _joined_space(joined, self.forms[position]) or (joined.space, joined.axes)
            joined.items.append(position)
            joined.reads.update(item.reads)
            joined.writes.update(item.writes)
        if self._misfit(joined) is not None:
            return None
        joined.items.sort()
        return joined

    def _follows(self, group: Group, position: int) -> bool:
        """True if an item may run in the group of others that it follows."""
        item = self.items[position]
        if not group.writes.isdisjoint(item.writes):
            return False
        if not group.writes.isdisjoint(item.reads):
            for other in map(self.items.__getitem__, group.items):
                if any(key in item.reads and (key in item.mutable or other.partial) for key in other.writes):
                    return False
        if group.reads.isdisjoint(item.writes):
            return True
        readers = [member for member in group.items if not set(item.writes).isdisjoint(self.items[member].reads)]
        return all(self._in_place(reader, position) for reader in readers)

    def _move(self, source: int, target: int, joined: Group, waiting: Mapping[int, set[int]]) -> None:
        joined.decision = self.groups[target].decision
        for position in self.groups[source].items:
            self.home[position] = target
            for other in self.items[position].after:
                waiting[other].add(target)
        for key in joined.reads | joined.writes:
            if target not in self.touching[key]:
                self.touching[key].append(target)
        self.groups[target] = joined
        self.groups[source] = Group([])
        self.trials.pop(source, None)
        self.trials.pop(target, None)

    def _earliest(self, position: int) -> int:
        """The first group in which the item may run."""
        item = self.items[position]
        earliest = 0
        for key in item.reads:
            for writer in self.writers.get(key, ()):
                strict = key in item.mutable or self.items[writer].partial
                earliest = max(earliest, self._home(writer, strict=strict))
        for key in item.writes:
            for writer in self.writers.get(key, ()):
                if not (item.partial and self.items[writer].partial):
                    earliest = max(earliest, self._home(writer, strict=True))
            for reader in self.readers.get(key, ()):
                together = item.has_loops and self._in_place(reader, position)
                earliest = max(earliest, self._home(reader, strict=not together))
        for other in item.after:
            earliest = max(earliest, self._home(other, strict=False))
        return earliest

    def _home(self, position: int, *, strict: bool) -> int:
        own = self.groups[self.home[position]].space is not None
        return self.home[position] + (strict or not own)

    def _in_place(self, reader: int, position: int) -> bool:
        """True if reading a memory at the place that is written next does not matter: element by element."""
        other, item = self.items[reader], self.items[position]
        group = self.groups[self.home[reader]]
        same = (
            group.space is not None
            and not group.axes
            and all(output.value.shape == group.space for output in item.outputs)
        )
        return same and other.has_loops and self.forms[reader].is_map and self.forms[position].is_map

    def _choose(self, position: int, earliest: int) -> tuple[int | None, str]:
        item = self.items[position]
        shared: dict[int, int] = {}
        for key in {*item.reads, *item.writes}:
            for number in self.touching.get(key, ()):
                if number >= earliest and self.groups[number].space is not None:
                    shared[number] = shared.get(number, 0) + self.sizes.get(key, 0)
        refused = ""
        for number in sorted(shared, key=lambda number: (-shared[number], -number)):
            if not shared[number]:
                continue
            reason = self._refusal(number, position)
            if reason is None:
                return number, ""
            refused = refused or f"does not join {self.items[self.groups[number].items[0]].name}: {reason}"
        return None, refused or "shares no memory with a group that it may join"

    def _refusal(self, number: int, position: int) -> str | None:
        """Why an item cannot join a group, or None."""
        group, item = self.groups[number], self.items[position]
        obstacle = self._obstacle(group, position)
        if obstacle is not None:
            return obstacle
        space, axes = _joined_space(group, self.forms[position]) or ((), ())
        if not axes and self._is_map_of_one_shape(group, position):
            self.trials.pop(number, None)
            return None
        members = [self.items[member] for member in (*group.items, position)]
        if _sees_what_is_changed(members, axes):
            return _TOO_LATE
        trial = self.trials.pop(number, None)
        if trial is None or (trial.space, trial.axes) != (space, axes):
            trial, new = Trial(space, axes), members
        else:
            new = [item]
        reason = trial.misfit(produced_by(new), [output for member in new for output in member.outputs])
        if reason is None:  # it joins
            self.trials[number] = trial
        return reason

    def _obstacle(self, group: Group, position: int) -> str | None:
        """Why an item cannot join a group, as far as that shows without a look at its loops."""
        item = self.items[position]
        if _joined_space(group, self.forms[position]) is None:
            return "another iteration space"
        if len(group.items) >= MAX_ITEMS or len(group.reads | group.writes | {*item.reads, *item.writes}) > MAX_KEYS:
            return "the group is large enough"
        return None

    def _is_map_of_one_shape(self, group: Group, position: int) -> bool:
        """True if a group with one more item goes element by element through memory of its own shape."""
        maps = self.forms[position].is_map and all(self.forms[member].is_map for member in group.items)
        return maps and _in_one_shape(group, self.items[position])

    def _misfit(self, group: Group) -> str | None:
        """Why some items do not make one region, or None."""
        assert group.space is not None
        members = [self.items[position] for position in sorted(group.items)]
        maps = not group.axes and all(self.forms[position].is_map for position in group.items)
        if maps and all(_in_one_shape(group, member) for member in members):
            return None
        if _sees_what_is_changed(members, group.axes):
            return _TOO_LATE
        outputs = [output for member in members for output in member.outputs]
        return Trial(group.space, group.axes).misfit(produced_by(members), outputs)


_TOO_LATE = "a variable is read and then changed, but its elements are needed once more after that"


def fits_alone(item: Item) -> bool:
    """True if an item with loops makes a region of its own."""
    form = _Form.of(item)
    return Trial(form.space, form.axes).misfit({}, item.outputs) is None


def produced_by(items: Sequence[Item]) -> dict[Hashable, Value]:
    """What items compute, by the memory that holds it; what changes variables is never read back in its own group."""
    return {
        output.key: output.value
        for item in items
        for output in item.outputs
        if output.key not in item.mutable and output.piece is None
    }


def _sees_what_is_changed(items: Sequence[Item], axes: Sequence[int]) -> bool:
    """True if one of the items changes a variable before all is computed that follows from what was there before.

    That is so where rows are gone over several times, and where an element is computed from others: what follows from
    a variable element by element is written nowhere, but computed from it wherever it is read.
    """
    changed = {
        key
        for item in items
        for key in item.mutable.intersection(item.writes)
        if any(key in other.reads for other in items if other is not item)
    }
    if axes or not changed:
        return bool(changed)
    for item in items:
        if _takes_others(item, changed):
            return True
        if not changed.isdisjoint(item.reads):
            changed.update(item.writes)
    return False


def _takes_others(item: Item, keys: Collection[Hashable]) -> bool:
    """True if an item computes an element from elements of some memory at other places."""
    for output in item.outputs:
        for value in reached(output.value):
            moves = value.op in ("assemble", "reduce", "view")
            for given in reached(value) if moves else [value]:
                is_there = not moves and given.shape == output.value.shape
                if given.op == "input" and given.payload in keys and not is_there:
                    return True
    return False


@dataclass(frozen=True, slots=True)
class _Form:
    """How an item goes through memory.

    Attributes:
      space: what it iterates over: the space of its reductions, or the shape of its largest output.
      axes: those that its reductions run over.
      is_map: element by element, without views, so that inputs of the space's own shape are read where outputs are
        written.
    """

    space: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    is_map: bool = False

    @classmethod
    def of(cls, item: Item) -> _Form:
        """The form of an item with loops."""
        if not item.outputs:
            return cls()
        values = [value for output in item.outputs for value in reached(output.value)]
        is_map = len({output.value.shape for output in item.outputs}) == 1 and all(
            value.op not in ("reduce", "view") or not _varies(value) for value in values
        )
        reduction = next((value for value in values if value.op == "reduce"), None)
        if reduction is not None:
            return cls(reduction.args[0].shape, reduction.payload[1], is_map)
        return cls(max((output.value.shape for output in item.outputs), key=math.prod), (), is_map)


def _joined_space(group: Group, form: _Form) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The iteration space of a group with one more item, or None if they do not share one."""
    assert group.space is not None
    space, axes = form.space, form.axes
    if space == group.space:
        if not axes or not group.axes or axes == group.axes:
            return space, axes or group.axes
        return None
    if not axes and group.axes and len(group.space) - 1 in group.axes and space in _reduced_shapes(group):
        return group.space, group.axes
    return None


def _reduced_shapes(group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
    assert group.space is not None
    kept = tuple(1 if axis in group.axes else size for axis, size in enumerate(group.space))
    return kept, tuple(size for axis, size in enumerate(group.space) if axis not in group.axes)


def _varies(value: Value) -> bool:
    """False for a number that is repeated: it is no view of memory."""
    return any(part.op != "const" for part in value.args)


def _in_one_shape(group: Group, item: Item) -> bool:
    """True if what the item reads of the group has the shape in which the group makes it."""
    made = group.writes
    return all(
        value.shape == group.space
        for output in item.outputs
        for value in reached(output.value)
        if value.op == "input" and value.payload in made
    )
