"""Saving takes little memory beside the state, and asynchronous saves leave none behind; `measure` has large rows."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from pathlib import Path

import pytest

import headrace as hr
from headrace_checkpoint.durable import Disk
from headrace_checkpoint.saver import CheckpointManager, Saver

STATE = 8 << 20
COUNT = 8


class Many:
    """A session with eight variables, 8 MiB together, and an operation that changes all of them."""

    def __init__(self) -> None:
        graph = hr.Graph()
        shape = [STATE // COUNT // 4]
        with graph.as_default():
            self.variables = [hr.Variable(hr.zeros(shape), name=f"v{number}") for number in range(COUNT)]
            updates = [variable.assign_add(hr.ones(shape)) for variable in self.variables]
            self.update = hr.group(updates)
        self.session = hr.Session(graph)
        self.session.run(self.update)


class Unforced(Disk):
    """Forces nothing to the disk, which takes no memory, but time."""

    def sync(self, descriptor: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""


def traced_peak(work: object) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        assert callable(work)
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shard_bytes", [None, STATE // 3])
def test_T11_a_save_copies_less_than_a_quarter_of_the_state(tmp_path: Path, shard_bytes: int | None) -> None:
    state = Many()
    saver = Saver(shard_bytes=shard_bytes)
    assert traced_peak(lambda: saver.save(state.session, tmp_path, step=1)) < STATE // 4


def test_T11_a_verified_restore_takes_no_more_than_the_new_values(tmp_path: Path) -> None:
    state = Many()
    saver = Saver()
    saver.save(state.session, tmp_path, step=1)
    assert traced_peak(lambda: saver.restore(state.session, tmp_path)) < STATE * 5 // 4


def test_T11_asynchronous_saves_leave_nothing_behind(tmp_path: Path) -> None:
    state = Many()
    threads = set(threading.enumerate())
    levels = []
    gc.collect()
    tracemalloc.start()
    try:
        with CheckpointManager(tmp_path, keep_latest=1, asynchronous=True, disk=Unforced()) as manager:
            for step in range(16):
                manager.save(state.session, step)
                state.session.run(state.update)
                manager.wait()
                gc.collect()
                levels.append(tracemalloc.get_traced_memory()[0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert levels[-1] - max(levels[:8]) < STATE // 20
    assert peak < 2.25 * STATE  # a variable that is updated while it is written gets other memory
    assert set(threading.enumerate()) <= threads  # those of tests before this one may end
    assert state.session.run(state.variables[0])[0] == 17
