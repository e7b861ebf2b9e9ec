"""Giving the memory of models back to the system, which the C library would keep for whoever asks next."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers of its options
_APART_BYTES = 1 << 20
_YOUNG_OBJECTS = 10_000
_USUAL_BYTES = 32 << 20
"""The most that glibc allows, and where it ends up by itself once some large blocks have been freed."""


@contextmanager
def returning_memory() -> Iterator[None]:
    """Let what is allocated inside be of the kind that goes back to the system as soon as it is freed.

    Blocks that are mapped one by one do. Those of a thread's heap stay there, however large: two copies of a model's
    weights after each load. Outside, temporary arrays of some megabytes are better in the heap: mapping one anew for
    each request costs more than to fill it.
    """
    _set_option(_MMAP_THRESHOLD, _APART_BYTES)
    try:
        yield
    finally:
        _set_option(_MMAP_THRESHOLD, _USUAL_BYTES)
        _set_option(_TRIM_THRESHOLD, 2 * _USUAL_BYTES)
        return_memory()


def return_memory() -> None:
    """Let the system have the memory back of models that are gone, or of what loading took.

    Models are cycles, which Python frees when it gets round to it, and the C library keeps what is freed until it is
    asked.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _set_option(option: int, number: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no such options
        ctypes.CDLL(None).mallopt(option, number)


def keep_out_of_collections() -> None:
    """Let Python look no more at the objects that there are now, such as modules: no collection would free them.

    Each that looks at all of them keeps every request waiting for some 30 ms. Nor need it look for cycles as soon as
    some 700 objects are there: as many belong to a few requests that wait, and end with them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
