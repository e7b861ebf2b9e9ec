"""Work in the background stands back where the program wants a processor, and does its work all the same."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace_checkpoint.background import BackgroundWork
from headrace_checkpoint.store import StoredStep
from headrace_checkpoint.threads import in_threads


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
def test_work_lets_the_program_go_first_until_it_is_waited_for() -> None:
    """The step after a save writes all variables elsewhere, and needs the memory for itself."""
    done: list[int] = []
    background = BackgroundWork("saving")
    background.start(lambda: done.append(1), head_start=3600.0)
    assert background.is_running
    assert not done
    background.wait(30)
    assert done == [1]
    background.start(lambda: done.append(2), head_start=3600.0)
    background.start(lambda: done.append(3))
    background.wait(30)
    assert done == [1, 2, 3]


def test_work_is_done_where_priorities_may_not_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(os, "setpriority", refuse)
    done = threading.Event()
    background = BackgroundWork("testing")
    background.start(done.set)
    background.wait()
    assert done.is_set()


def test_an_error_that_nobody_asks_for_is_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OSError("the disk is gone")

    for asks in (True, False):
        background = BackgroundWork("saving to here")
        background.start(fail)
        if asks:
            with pytest.raises(OSError, match="the disk is gone"):
                background.wait()
        else:
            assert background._thread is not None
            background._thread.join()
        del background
        gc.collect()
        assert [record.getMessage() for record in caplog.records] == (
            [] if asks else ["saving to here failed: the disk is gone"]
        )


@pytest.mark.parametrize("fails", [False, True])
def test_a_program_that_ends_without_waiting_has_saved_or_says_why_not(tmp_path: Path, fails: bool) -> None:
    """Pools of `concurrent.futures` refuse work then: the save was lost, and the program ended with code 0."""
    program = f"""
import threading
import numpy as np, headrace as hr, headrace_checkpoint
from headrace_checkpoint.durable import Disk

class Late(Disk):
    def make_directory(self, path):
        threading.main_thread().join()  # what follows is done after the end
        if {fails}:
            raise OSError(28, "No space left")
        super().make_directory(path)

variables = [hr.Variable(np.full(100, n, np.float32), name=str(n)) for n in range(8)]
manager = headrace_checkpoint.CheckpointManager(
    {str(tmp_path / "ckpt")!r}, asynchronous=True, variables=variables, shard_bytes=800, disk=Late()
)
manager.save(None, 1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    if fails:
        assert "failed: [Errno 28] No space left" in done.stderr
    else:
        assert done.stderr == ""
        assert StoredStep(tmp_path / "ckpt" / "step-00000001").read("7").tolist() == [7.0] * 100
