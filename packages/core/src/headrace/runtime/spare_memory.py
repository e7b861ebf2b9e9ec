"""SpareMemory: where variables go on while earlier values of them are still being read."""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from headrace.plan.alignment import aligned_array
from headrace.types import Array

__all__ = ["SpareMemory"]

_Kind = tuple[tuple[int, ...], np.dtype[np.generic]]

_PAGE = 4096  # bytes: the smallest that a system hands out


class SpareMemory:
    """Memory for the next values of variables that are saved while they are trained. Mutable and thread-safe.

    An update of a variable whose value somebody reads writes elsewhere. Fresh memory would do, but a system hands it
    out page by page and clears each first, which takes as long as the update itself. So the memory that variables
    leave is kept here, and used again once nobody reads it any more.

    Example:
      >>> import headrace as hr, numpy as np
      >>> v = hr.Variable(np.zeros(2, np.float32))
      >>> spare = hr.SpareMemory()
      >>> before = v.numpy(copy=False, spare=spare)
      >>> v.assign_add(np.ones(2, np.float32))
      >>> print(before, v.numpy())
      [0. 0.] [1. 1.]
      >>> spare.close()
    """

    def __init__(self) -> None:
        self._wanted: Counter[_Kind] = Counter()
        self._kept: dict[_Kind, list[Array]] = {}
        self._lock = threading.Lock()

    def reserve(self, values: Iterable[Array]) -> None:
        """Keep memory for one more copy of these values from now on, and no more; takes none yet.

        Args:
          values: what variables have now. Arrays of Python objects need none.
        """
        wanted = Counter(_kind(value) for value in values if value.dtype != object)
        with self._lock:
            self._wanted = wanted
            kept = {kind: self._kept.get(kind, []) for kind in wanted}
            self._kept = {
                kind: [arrays[n] for n in range(len(arrays)) if _is_unshared(arrays, n)][: wanted[kind]]
                for kind, arrays in kept.items()
            }

    @property
    def bytes(self) -> int:
        """Bytes of the copy that memory is kept for."""
        with self._lock:
            return sum(count * math.prod(shape) * dtype.itemsize for (shape, dtype), count in self._wanted.items())

    def fill(self) -> None:
        """Take the memory that is still missing, best in a thread beside the updates that will need it."""
        for kind in list(self._wanted.elements()):
            with self._lock:
                if len(self._kept.get(kind, ())) >= self._wanted[kind]:
                    continue
            fresh = aligned_array(*kind)
            fresh.reshape(-1).view(np.uint8)[::_PAGE] = 0  # without the lock: no update must wait for this
            with self._lock:
                if kind in self._kept:
                    self._kept[kind].append(fresh)

    def exchange(self, left: Array, shape: Sequence[int]) -> Array:
        """Memory of any content for a new value.

        Args:
          left: the value that its variable leaves, whose memory is used again when nobody holds it any more.
          shape: of the new value, which has the dtype of the old one.
        """
        with self._lock:
            arrays = self._kept.get((tuple(shape), left.dtype), [])
            free = next((n for n in range(len(arrays)) if _is_unshared(arrays, n)), None)
            found = None if free is None else arrays.pop(free)
            kind = _kind(left)
            if kind in self._kept and _is_reusable(left):
                self._kept[kind].append(left)
        return aligned_array(shape, left.dtype) if found is None else found

    def close(self) -> None:
        """Give all memory back, and keep none until it is reserved again."""
        with self._lock:
            self._wanted.clear()
            self._kept.clear()


def _kind(value: Array) -> _Kind:
    return value.shape, value.dtype


def _is_reusable(array: Array) -> bool:
    """False for memory of others, such as mapped files: a variable holds that only if nobody writes to it."""
    return array.flags.writeable and array.flags.c_contiguous


def _references(arrays: list[Array], position: int) -> int:
    return sys.getrefcount(arrays[position])


_ALONE = _references([np.zeros(1)], 0)
"""What `_references` gives for an array that only the list holds; it differs between Python versions."""


def _is_unshared(arrays: list[Array], position: int) -> bool:
    return _references(arrays, position) <= _ALONE
