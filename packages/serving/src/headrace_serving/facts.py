"""What has been found out about objects that live long, such as signatures, kept as long as they live."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Facts(Generic[K, V]):
    """A function's results, remembered by the identity of its argument. Mutable; thread-safe.

    `functools.cache` would need arguments that can be compared, and keep a model in memory after it is unloaded.

    Args:
      find: the function. What it returns must not hold its argument.

    Example:
      >>> class Model: ...
      >>> facts = Facts(lambda model: print("asked") or 42)
      >>> model = Model()
      >>> facts.of(model), facts.of(model)
      asked
      (42, 42)
    """

    def __init__(self, find: Callable[[K], V]) -> None:
        self._find = find
        self._known: dict[int, tuple[weakref.ref[K], V]] = {}

    def of(self, thing: K) -> V:
        """Return what the function returns for a thing; asked anew each time for one without weak references."""
        key = id(thing)
        entry = self._known.get(key)
        if entry is not None and entry[0]() is thing:
            return entry[1]
        value = self._find(thing)
        with contextlib.suppress(TypeError):
            self._known[key] = weakref.ref(thing, lambda _: self._known.pop(key, None)), value
        return value
