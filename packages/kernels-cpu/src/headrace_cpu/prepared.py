"""Prepared factors: copies of weights as products like to read them, of constants and of what variables hold."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.interfaces import VariableStorage
from headrace.types import Array

__all__ = ["Copies", "Make", "Prepared", "PreparedCopy", "Snapshots", "copies"]

Make = Callable[[Array], Array]
"""Makes a copy of an array in another form. Two are equal if they make the same one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a call reads in place of an input: a copy, which is good as long as the input stays what it is.

    Attributes:
      position: of the input.
      make: makes the copy.
      size: bytes of the copy.
    """

    position: int
    make: Make
    size: int


class PreparedCopy:
    """A copy of what a variable holds, made again when that has changed. Mutable; threads may make it at once.

    Args:
      make: makes the copy.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._latest: tuple[int | None, Array | None] = (None, None)

    def of(self, value: Array, version: int) -> Array:
        """The copy of a value.

        Args:
          value: what the variable holds.
          version: the number that goes with it (see `VariableStorage.snapshot`).
        """
        known, copy = self._latest
        if copy is None or version != known:
            copy = self._make(value)
            self._latest = version, copy
        return copy


@dataclass(frozen=True, slots=True)
class Snapshots:
    """What native code reads of a variable: its value, and copies of the same value.

    Attributes:
      storage: the variable.
      copies: gives the copies.
    """

    storage: VariableStorage
    copies: tuple[PreparedCopy, ...]

    def __call__(self) -> list[Array]:
        """The value of this moment, then the copies."""
        value, version = self.storage.snapshot()
        return [value, *(copy.of(value, version) for copy in self.copies)]


class Copies:
    """What is made of arrays that nobody changes, and of variables, as long as somebody has it and they are there.

    Without a lock: what is called when an array ends may run while this thread holds one. Two threads that ask at once
    make two copies.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], list[tuple[Make, weakref.ref[Any]]]]] = {}

    def of(self, value: Array, make: Make) -> Array:
        """A copy of an array: one that somebody still has, or made now.

        Args:
          value: the array.
          make: makes the copy.
        """
        found: Array = self._shared(value, make, lambda: make(value))
        return found

    def of_variable(self, storage: VariableStorage, make: Make) -> PreparedCopy:
        """What gives copies of the values of a variable.

        Args:
          storage: the variable.
          make: makes the copy.
        """
        found: PreparedCopy = self._shared(storage, make, lambda: PreparedCopy(make))
        return found

    def _shared(self, source: Any, make: Make, create: Callable[[], Any]) -> Any:
        """What was made of a source and somebody still has, or what `create` gives."""
        key = id(source)
        if key not in self._found:
            self._found[key] = weakref.ref(source, lambda _: self._found.pop(key, None)), []
        made = self._found[key][1]
        for other, held in list(made):
            known = held() if other == make else None
            if known is not None:
                return known
        result = create()

        def forget(ended: weakref.ref[Any]) -> None:
            made[:] = [entry for entry in made if entry[1] is not ended]

        made.append((make, weakref.ref(result, forget)))
        return result


copies = Copies()
"""Those of this process."""
