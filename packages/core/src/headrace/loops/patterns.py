"""Patterns: groups that differ only in the memory they work on are lowered once; layers of a network are many of one.

The pattern of a group is what `lowering` sees of it, with its memory numbered in the order in which it is first met.
Groups of one pattern have the same regions, not only equal ones, so that what is found out about a region need not be
found out again for the next group. Where two threads meet a new pattern at once, each may have regions of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.loops.ir import comparable
from headrace.loops.lowering import Output, lower
from headrace.loops.numbering import LoweredRegion, Partial
from headrace.loops.value import Value

__all__ = ["lower_once"]

KEPT_PATTERNS = 256
"""Patterns whose regions are kept: some ten kilobytes each."""


def lower_once(
    space: tuple[int, ...], axes: tuple[int, ...], produced: Mapping[Hashable, Value], outputs: Sequence[Output]
) -> list[LoweredRegion]:
    """What `lower` gives, which is kept for other groups of the pattern.

    Args:
      space: the iteration space.
      axes: those that reductions run over.
      produced: what the group computes for keys that its own values take as inputs. Keys of the first group of a
        pattern are kept with it: they are names, and hold nothing large.
      outputs: what it has to write.
    Raises:
      NotLowered: the group does not fit one of the forms of `lowering`.
    """
    numbers: dict[Hashable, Hashable] = {}
    pattern = _pattern(space, axes, produced, outputs, numbers)
    keys = dict(enumerate(numbers))
    group = _Group(pattern, (space, axes, produced, outputs), numbers)
    return [_renamed(lowered, keys) for lowered in _lowered(group)]


@dataclass(frozen=True, slots=True)
class _Group:
    """A group, equal to those of its pattern: `arguments` are those of `lower`, `numbers` stand for its keys."""

    pattern: Hashable
    arguments: tuple[Any, ...] = field(compare=False)
    numbers: Mapping[Hashable, Hashable] = field(compare=False)


@functools.lru_cache(KEPT_PATTERNS)
def _lowered(group: _Group) -> tuple[LoweredRegion, ...]:
    """The regions of a pattern, with numbers in place of keys."""
    return tuple(_renamed(lowered, group.numbers) for lowered in lower(*group.arguments))


def _renamed(lowered: LoweredRegion, names: Mapping[Any, Hashable]) -> LoweredRegion:
    """The same region on memory of other names."""
    keys = tuple([key if isinstance(key, Partial) else names[key] for key in lowered.keys])
    return LoweredRegion(lowered.region, keys, frozenset([names[key] for key in lowered.identity]))


def _pattern(
    space: tuple[int, ...],
    axes: tuple[int, ...],
    produced: Mapping[Hashable, Value],
    outputs: Sequence[Output],
    numbers: dict[Hashable, Hashable],
) -> Hashable:
    """What is equal for groups of one pattern, whoever made their values; fills `numbers`."""
    rows: dict[Hashable, int] = {}
    found: dict[int, int] = {}

    def number(key: Hashable) -> Hashable:
        return numbers.setdefault(key, len(numbers))

    def row(value: Value) -> int:
        if id(value) not in found:
            args = tuple([row(arg) for arg in value.args])
            payload = number(value.payload) if value.op == "input" else comparable(value.payload)
            told = value.op, value.dtype.name, value.shape, args, payload
            found[id(value)] = rows.setdefault(told, len(rows))
        return found[id(value)]

    made = tuple([(number(key), row(value)) for key, value in produced.items()])
    written = tuple([(number(output.key), row(output.value), output.piece) for output in outputs])
    return space, axes, made, written, tuple(rows)
