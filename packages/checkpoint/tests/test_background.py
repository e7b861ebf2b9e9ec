"""Work in the background stands back where the program wants a processor, and does its work all the same."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from headrace_checkpoint import checksum
from headrace_checkpoint.background import BackgroundWork
from headrace_checkpoint.checksum import in_threads


def _niceness(_: object = None) -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems know the priority of a process only")
def test_the_work_and_its_threads_stand_back_behind_the_program() -> None:
    found: list[int] = []
    mine = _niceness()
    background = BackgroundWork("testing")
    background.start(lambda: found.extend([_niceness(), *in_threads(_niceness, range(4))]))
    background.wait()
    assert set(found) == {min(19, mine + 10)}
    assert _niceness() == mine


def _meet(count: int) -> bool:
    """Whether `in_threads` has so many threads that they wait for each other."""
    barrier = threading.Barrier(count)
    try:
        in_threads(lambda _: barrier.wait(0.5), range(count))
    except threading.BrokenBarrierError:
        return False
    return True


def test_the_work_leaves_a_processor_to_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum, "_THREADS", 3)
    found: list[bool] = []
    background = BackgroundWork("testing")
    background.start(lambda: found.extend(map(_meet, (2, 3))))
    background.wait()
    assert found == [True, False]
    assert _meet(3)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems know the priority of a process only")
def test_work_is_done_where_priorities_may_not_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(os, "setpriority", refuse)
    done = threading.Event()
    background = BackgroundWork("testing")
    background.start(done.set)
    background.wait()
    assert done.is_set()
