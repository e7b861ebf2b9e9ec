"""Patterns: groups that differ only in the memory they work on are lowered once; layers of a network are many of one.

The pattern of a group is what `lowering` sees of it, with its memory numbered in the order in which it is first met.
Groups of one pattern have the same regions, not only equal ones, so that what is found out about a region need not be
found out again for the next group.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.loops.ir import shown
from headrace.loops.lowering import Output, lower
from headrace.loops.numbering import LoweredRegion, Partial
from headrace.loops.value import Value

__all__ = ["KEPT_PATTERNS", "lower_once"]

KEPT_PATTERNS = 256
"""Patterns whose regions are kept: some ten kilobytes each."""


def lower_once(
    space: tuple[int, ...], axes: tuple[int, ...], produced: Mapping[Hashable, Value], outputs: Sequence[Output]
) -> list[LoweredRegion]:
    """What `lower` gives, which is kept for other groups of the pattern.

    Args:
      space: the iteration space.
      axes: those that reductions run over.
      produced: what the group computes for keys that its own values take as inputs.
      outputs: what it has to write.
    Raises:
      NotLowered: the group does not fit one of the forms of `lowering`.
    """
    numbers: dict[Hashable, Hashable] = {}
    form = _form(space, axes, produced, outputs, numbers)
    keys = dict(enumerate(numbers))
    return [_renamed(lowered, keys) for lowered in _lowered(_Group(form, (space, axes, produced, outputs), numbers))]


@dataclass(frozen=True, slots=True)
class _Group:
    """A group, equal to those of one form: `arguments` are those of `lower`, `numbers` stand for its keys."""

    form: Hashable
    arguments: tuple[Any, ...] = field(compare=False)
    numbers: Mapping[Hashable, Hashable] = field(compare=False)


@functools.lru_cache(KEPT_PATTERNS)
def _lowered(group: _Group) -> list[LoweredRegion]:
    """The regions of a pattern, with numbers in place of keys."""
    return [_renamed(lowered, group.numbers) for lowered in lower(*group.arguments)]


def _renamed(lowered: LoweredRegion, names: Mapping[Any, Hashable]) -> LoweredRegion:
    """The same region on memory of other names."""
    keys = tuple([key if isinstance(key, Partial) else names[key] for key in lowered.keys])
    return LoweredRegion(lowered.region, keys, frozenset([names[key] for key in lowered.identity]))


def _form(
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

    def row(root: Value) -> int:
        stack = [root]
        while stack:
            value = stack[-1]
            if id(value) not in found:
                missing = [arg for arg in value.args if id(arg) not in found]
                if missing:
                    stack.extend(missing)
                    continue
                payload = number(value.payload) if value.op == "input" else shown(value.payload)
                args = tuple([found[id(arg)] for arg in value.args])
                form = value.op, value.dtype.name, value.shape, args, payload
                found[id(value)] = rows.setdefault(form, len(rows))
            stack.pop()
        return found[id(root)]

    made = tuple([(number(key), row(value)) for key, value in produced.items()])
    written = tuple([(number(output.key), row(output.value), output.piece) for output in outputs])
    return space, axes, made, written, tuple(rows)
