"""Processors: a thread of the pool does not stay where the first thread runs, if that may use others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from written import compiled

from headrace_cpu.driver.processors import look_around
from headrace_cpu.llvm.text import Text

several = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two processors"
)

SCRIPT = """
import os, sys, threading, time
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
    steps, moved, deadline = 0, 0, time.monotonic() + 30
    while steps < 50 if "all" in sys.argv else not moved and time.monotonic() < deadline:
        steps += 1
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
    """Threads of the pool, and in how many steps one moved that was where the first thread was: of the steps until
    it did, or of 50."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *case], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    pool, moved = map(int, done.stdout.split())
    return pool, moved


def written(name: str) -> Callable[..., int]:
    """One of the two functions, called with a place."""

    def write(t: Text, places: list[str]) -> None:
        t.functions |= look_around()
        t.line(f"call void @{name}(ptr {places[0]})")

    return compiled(write, 1)


def left(there: int, first: int) -> set[int]:
    """Where a thread that ran on the first processor may run once it has looked around."""
    place = np.array([there, first], np.int64)

    def look() -> set[int]:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        written("look_around")(place)
        return os.sched_getaffinity(0)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(look).result()


@several
def test_a_thread_says_where_it_is() -> None:
    place = np.zeros(2, np.int64)

    def say() -> tuple[int, int]:
        here = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {here})
        written("say_where")(place)
        return here, threading.get_ident()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(say).result() == tuple(place)


@several
def test_a_thread_leaves_the_processor_of_the_first_one() -> None:
    here, *others = sorted(os.sched_getaffinity(0))
    assert left(here, threading.get_ident()) == set(others)
    assert left(others[0], threading.get_ident()) == {here}


@several
def test_it_stays_where_the_first_one_may_run_nowhere_else() -> None:
    here = min(os.sched_getaffinity(0))

    def bound() -> int:
        os.sched_setaffinity(0, {here})
        return threading.get_ident()

    with ThreadPoolExecutor(1) as pool:  # the first thread lives until the other one has looked
        assert left(here, pool.submit(bound).result()) == {here}


@several
def test_threads_of_the_pool_leave_in_a_step() -> None:
    pool, moved = moves()
    assert pool >= 1
    assert moved  # not each time: the system may move the first thread in between


@several
def test_they_stay_where_the_first_one_has_no_other_processor_or_the_user_says_so() -> None:
    assert moves("all", "bound")[1] == 0
    assert moves("all", HEADRACE_PROCESSORS="off")[1] == 0


@several
def test_a_bound_thread_of_a_process_keeps_its_own_on_its_processors() -> None:
    pool, moved = moves("all", "thread", "bound")
    assert pool >= 1
    assert moved == 0


def test_elsewhere_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ("sched_setaffinity" in look_around()) is (sys.platform == "linux")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not any("sched" in text for text in look_around().values())
