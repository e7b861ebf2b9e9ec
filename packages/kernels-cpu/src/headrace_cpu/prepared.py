"""Prepared factors: copies of weights as products like to read them, of constants and of what variables hold."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.interfaces import VariableStorage
from headrace.types import Array

__all__ = ["Copies", "Prepared", "PreparedCopy"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a call reads in place of an input: a copy, which is good as long as the input stays what it is.

    Attributes:
      position: of the input.
      form: what the copy is like.
      make: makes it of the input.
      is_same: says whether two forms are the same.
    """

    position: int
    form: Any
    make: Callable[[Array], Array]
    is_same: Callable[[Any, Any], bool]


class PreparedCopy:
    """A copy of what a variable holds, made again when that has changed. Mutable; threads may make it at once.

    Args:
      storage: the variable.
      make: makes the copy.
    """

    def __init__(self, storage: VariableStorage, make: Callable[[Array], Array]) -> None:
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


_Copy = tuple[Any, "weakref.ref[Array]"]
"""The form of a copy, and the copy."""


class Copies:
    """Copies of arrays that nobody changes, as long as somebody has them and what they are copies of is there.

    Without a lock: what is called when an array ends may run while this thread holds one. Two threads that ask at once
    make two copies.
    """

    def __init__(self) -> None:
        self._copies: dict[int, tuple[weakref.ref[Array], list[_Copy]]] = {}

    def of(self, value: Array, prepared: Prepared) -> Array:
        """A copy of an array: one that somebody still has, or made now.

        Args:
          value: the array.
          prepared: what the copy is like, and what makes it.
        """
        copies = self._copies_of(value)
        for form, copy in list(copies):
            held = copy()
            if held is not None and prepared.is_same(form, prepared.form):
                return held
        result = prepared.make(value)
        entry = prepared.form, weakref.ref(result, lambda _: copies.remove(entry))
        copies.append(entry)
        return result

    def _copies_of(self, value: Array) -> list[_Copy]:
        """The copies of an array, by its id, as long as it is there."""
        key = id(value)
        if key not in self._copies:
            self._copies[key] = weakref.ref(value, lambda _: self._copies.pop(key, None)), []
        return self._copies[key][1]
