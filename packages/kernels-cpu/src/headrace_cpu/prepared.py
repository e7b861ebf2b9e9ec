"""Prepared factors: copies of weights as products like to read them, of constants and of what variables hold."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.interfaces import VariableStorage
from headrace.types import Array

__all__ = ["Copies", "Make", "Prepared", "PreparedCopy", "copies"]

Make = Callable[[Array], Array]
"""Makes a copy of an array in another form. Two are equal if they make the same one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a call reads in place of an input: a copy, which is good as long as the input stays what it is.

    Attributes:
      position: of the input.
      make: makes the copy.
    """

    position: int
    make: Make


class PreparedCopy:
    """A copy of what a variable holds, made again when that has changed. Mutable; threads may make it at once.

    Args:
      storage: the variable.
      make: makes the copy.
    """

    def __init__(self, storage: VariableStorage, make: Make) -> None:
        self._storage, self._make = storage, make
        self._latest: tuple[int | None, Array | None] = (None, None)

    def __call__(self) -> Array:
        """The copy of the present value."""
        version = self._storage.version  # before the value is read: what changes after that is seen next time
        known, copy = self._latest
        if copy is None or version != known:
            copy = self._make(self._storage.read())
            self._latest = version, copy
        return copy


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
        """What gives a copy of the present value of a variable.

        Args:
          storage: the variable.
          make: makes the copy.
        """
        found: PreparedCopy = self._shared(storage, make, lambda: PreparedCopy(storage, make))
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
        entry = make, weakref.ref(result, lambda _: made.remove(entry))
        made.append(entry)
        return result


copies = Copies()
"""Those of this process."""
