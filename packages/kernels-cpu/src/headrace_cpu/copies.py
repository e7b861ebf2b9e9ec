"""Copies of constants as the code that reads them likes them, made once for all plans of a process."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from headrace.types import Array

__all__ = ["Copies"]

_Copy = tuple[Any, "weakref.ref[Array]"]
"""The form of a copy, and the copy."""


class Copies:
    """Copies of arrays that nobody changes, as long as somebody has them and what they are copies of is there.

    Without a lock: what is called when an array ends may run while this thread holds one. Two threads that ask at once
    make two copies.
    """

    def __init__(self) -> None:
        self._copies: dict[int, tuple[weakref.ref[Array], list[_Copy]]] = {}

    def of(
        self,
        value: Array,
        form: Any,
        make: Callable[[], Array],
        is_same: Callable[[Any, Any], bool] = lambda a, b: a == b,
    ) -> Array:
        """A copy of an array: one that somebody still has, or made now.

        Args:
          value: the array.
          form: what the copy is like.
          make: makes it.
          is_same: says whether two forms are the same.
        """
        copies = self._copies_of(value)
        for other, copy in list(copies):
            held = copy()
            if held is not None and is_same(other, form):
                return held
        result = make()
        entry = form, weakref.ref(result, lambda _: copies.remove(entry))
        copies.append(entry)
        return result

    def _copies_of(self, value: Array) -> list[_Copy]:
        """The copies of an array, by its id, as long as it is there."""
        key = id(value)
        if key not in self._copies:
            self._copies[key] = weakref.ref(value, lambda _: self._copies.pop(key, None)), []
        return self._copies[key][1]
