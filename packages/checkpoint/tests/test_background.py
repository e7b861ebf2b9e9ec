"""Work in the background stands back where the program wants a processor, and does its work all the same."""

from __future__ import annotations

import os
import sys
import threading

import pytest

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
