"""Garbage: what Python looks for while a plan is made."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rare_collections"]

USUAL_OBJECTS = 2_000
"""Objects between two collections where nobody has chosen another number: 700, or 2,000 from Python 3.13 on."""
YOUNG_OBJECTS = 100_000
"""Objects between two collections: some passes' worth of copies of a graph of a thousand operations."""

_lock = threading.Lock()
_inside = 0
_usual = (0, 0, 0)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for garbage seldom inside, in all threads.

    Making a plan makes objects that stay, and every 700 of them Python looks at all that are young: that takes a sixth
    of the time. Copies of graphs are cycles, which only a collection frees, so it must not stop looking. A threshold
    that somebody has raised stays: a server chooses how long a collection may keep its requests waiting.
    """
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            if 0 < _usual[0] <= USUAL_OBJECTS:
                gc.set_threshold(YOUNG_OBJECTS, *_usual[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and gc.get_threshold()[0] == YOUNG_OBJECTS:
                gc.set_threshold(*_usual)
