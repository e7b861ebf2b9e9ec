"""A schedule: the groups of a program, what computes each, and the memory that they share.

Memory has keys: an int for the value of an operation, `("variable", n)` for the state behind a handle, `("packed", n)`
for a factor in the layout that products like, `("prepared", n)` for one that is kept for many steps. Values that are
only another view of the same elements (reshape, identity) share the key of what they view.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace import Tensor
from headrace.interfaces import VariableStorage
from headrace.loops.fusion import Group, Item
from headrace.plan import Program
from headrace.types import Array
from headrace_cpu.prepared import Prepared
from headrace_cpu.scheduling.lists import ListUse

__all__ = ["Key", "Schedule", "is_variable"]

Key = Any
"""What names a memory: an int, or a tuple for what is no value of the program."""

Variable = tuple[str, int]


@dataclass(slots=True)
class Schedule:
    """What runs. Mutable while it is made.

    Attributes:
      program: the segment.
      items: the operations that do something, with `lines` beside them: the positions of their lines.
      groups: fused items; `order` says in which order they run: (kind, groups), kind being host, compute or update.
      storages: the variables, by number.
      roots: for each value the key of its memory.
      sizes: bytes of each memory; `specs`: elements and dtype of each that is an array.
      together: for items that do the work of several lines the positions of these.
      library: for items that a library computes, or that are loops or branches, what it does.
      nested: those of them that are loops or branches.
      checks: for items whose integers must be in `[0, bound)` the key of these and the bound.
      memory: for items that a library computes the keys of what it reads and writes.
      extras: for items that a library computes the keys of what it reads only after that.
      prepared: for items that a library computes the keys of what is made of their inputs beforehand.
      copies: for each of these keys the variable, and what makes the copy.
      again: for each group the items of others that it computes again.
      lists: the tensor lists that live in native memory.
    """

    program: Program
    items: list[Item] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    order: list[tuple[str, list[int]]] = field(default_factory=list)
    storages: list[VariableStorage] = field(default_factory=list)
    roots: dict[int, Key] = field(default_factory=dict)
    sizes: dict[Key, int] = field(default_factory=dict)
    specs: dict[Key, Tensor] = field(default_factory=dict)
    together: dict[int, tuple[int, ...]] = field(default_factory=dict)
    library: dict[int, Any] = field(default_factory=dict)
    nested: set[int] = field(default_factory=set)
    checks: dict[int, tuple[Key, int]] = field(default_factory=dict)
    memory: dict[int, tuple[tuple[Key, ...], tuple[Key, ...]]] = field(default_factory=dict)
    extras: dict[int, tuple[Key, ...]] = field(default_factory=dict)
    prepared: dict[int, tuple[Key, ...]] = field(default_factory=dict)
    copies: dict[Key, tuple[Variable, Prepared]] = field(default_factory=dict)
    again: list[list[int]] = field(default_factory=list)
    lists: ListUse = field(default_factory=ListUse)

    def lines_of(self, item: int) -> tuple[int, ...]:
        """The positions of the lines whose work an item does, in order."""
        return self.together.get(item, (self.lines[item],))

    def root(self, number: int) -> Key:
        """The key of a value's memory."""
        return self.roots.get(number, number)

    def constant(self, number: int) -> Array | None:
        """The array that a value is known to be, or None."""
        value = self.program.constants.get(number)
        return value if isinstance(value, np.ndarray) else None

    def storage(self, number: int) -> VariableStorage | None:
        """The variable behind a handle that is known when the plan is made."""
        found: Any = self.program.constants.get(number)
        if self.program.tensors[number].dtype.kind != "resource" or not hasattr(found, "acquire"):
            return None
        if found.shape.is_fully_defined and found.dtype.size:
            return found  # type: ignore[no-any-return]  # what a handle stands for
        return None

    def memory_of(self, number: Key) -> Key:
        """The key of a value's memory, or of the variable behind a handle; of a key itself."""
        if isinstance(number, tuple):
            return number
        storage = self.storage(number)
        return self.root(number) if storage is None else self.storage_key(storage)

    def prepared_key(self, variable: Variable, prepared: Prepared) -> Key:
        """The key of a copy of a variable; calls that read copies of one form read the same one."""
        for key, (known, other) in self.copies.items():
            if (known, other.make) == (variable, prepared.make):
                return key
        key = ("prepared", len(self.copies))
        self.copies[key] = variable, prepared
        return key

    def readers(self) -> dict[Key, set[int]]:
        """For each memory the groups that read it."""
        found: dict[Key, set[int]] = {}
        for number, group in enumerate(self.groups):
            for key in group.reads:
                found.setdefault(key, set()).add(number)
        return found

    def storage_key(self, storage: VariableStorage) -> Variable:
        """The key of a variable's memory."""
        for number, known in enumerate(self.storages):
            if known is storage:
                return ("variable", number)
        self.storages.append(storage)
        return ("variable", len(self.storages) - 1)


def is_variable(key: Key) -> bool:
    """True for the state behind a handle."""
    return isinstance(key, tuple) and key[0] == "variable"
