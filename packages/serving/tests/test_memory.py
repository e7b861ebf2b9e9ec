"""What goes back to the system."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from headrace_serving.memory import return_memory, returning_memory

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
MEGABYTE = 1 << 20


def resident() -> int:
    """Return the bytes that the process has of its own."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def fill() -> None:
    """Take 24 MB in three blocks, and free them."""
    blocks = [np.ones(MEGABYTE, np.float64) for _ in range(3)]
    assert len(blocks) == 3


def grown(*, returning: bool) -> int:
    """Return how many bytes more the process has after a thread took and freed some, and still lives."""
    before, after = resident(), 0

    def work() -> None:
        nonlocal after
        if returning:
            with returning_memory():
                fill()
        else:
            fill()
        after = resident()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return after - before


def test_what_a_thread_has_freed_goes_back() -> None:
    code = (
        "import test_memory as t; from headrace_serving.memory import *\n"
        "with returning_memory(): pass\n"
        "print(t.grown(returning=False) // t.MEGABYTE, t.grown(returning=True) // t.MEGABYTE)"
    )
    folder = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    kept, returned = map(int, done.stdout.split())
    assert kept >= 20  # as it is for temporary arrays of requests
    assert returned <= 2


def test_cycles_are_freed_at_once() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self
            self.weights = np.ones(4 * MEGABYTE, np.float32)

    before = resident()
    Cycle()
    return_memory()
    assert resident() - before < 4 * MEGABYTE


def test_collections_look_at_what_is_made_later_alone() -> None:
    code = (
        "import gc, headrace_serving.cli; from headrace_serving.memory import *\n"
        "keep_out_of_collections(); print(len(gc.get_objects()), gc.get_freeze_count())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    looked_at, frozen = map(int, done.stdout.split())
    assert looked_at < 1000
    assert frozen > 10_000
