"""Processors: a thread of the pool does not stay where the first thread runs, if that may use others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace_cpu.driver.processors import look_around

several = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two processors"
)

SCRIPT = """
import os, sys, threading
import numpy as np
import headrace as hr

allowed = sorted(os.sched_getaffinity(0))
with hr.Graph().as_default() as graph:
    x = hr.Variable(np.zeros(1 << 20, np.float32))
    result = x.assign(hr.sin(x.value) + 1.0)
with hr.config(threads=2, backend="cpu"):
    session = hr.Session(graph)

def count():
    threads = set(os.listdir("/proc/self/task"))
    session.run(result)
    pool = [int(thread) for thread in set(os.listdir("/proc/self/task")) - threads]
    moved = 0
    for attempt in range(50):
        here = int(open("/proc/thread-self/stat").read().rsplit(")", 1)[1].split()[36])
        if "bound" in sys.argv:
            os.sched_setaffinity(0, {here})
        for thread in pool:
            os.sched_setaffinity(thread, {here})
        session.run(result)
        found = [os.sched_getaffinity(thread) for thread in pool]
        moved += any(mask == set(allowed) - {here} for mask in found)
    print(len(pool), moved)

if "thread" in sys.argv:
    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
else:
    count()
"""


def moves(*case: str, **variables: str) -> tuple[int, int]:
    """Threads of the pool, and in how many of 50 steps one moved that was where the first thread was."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *case], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    pool, moved = map(int, done.stdout.split())
    return pool, moved


@several
def test_a_thread_leaves_the_processor_of_the_first_one() -> None:
    pool, moved = moves()
    assert pool >= 1
    assert moved >= 25  # the first thread may itself move in between


@several
def test_it_stays_where_the_first_one_has_no_other_processor_or_the_user_says_so() -> None:
    assert moves("bound")[1] == 0
    assert moves(HEADRACE_PROCESSORS="off")[1] == 0


@several
def test_a_bound_thread_of_a_process_keeps_its_own_on_its_processors() -> None:
    pool, moved = moves("thread", "bound")
    assert pool >= 1
    assert moved == 0


def test_elsewhere_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ("sched_setaffinity" in look_around()) is (sys.platform == "linux")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not any("sched" in text for text in look_around().values())
