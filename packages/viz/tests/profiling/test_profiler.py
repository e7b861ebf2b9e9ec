"""The profiler: which steps it records, what it leaves on disk, and what it refuses."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.errors import FailedPreconditionError, InvalidArgumentError
from headrace.runtime.trace import active_traces
from headrace_viz.profiling import Profile, profile
from headrace_viz.profiling import profiler as profiler_module
from headrace_viz.profiling.ceilings import Ceilings
from headrace_viz.profiling.xspace import read_xspace


@pytest.fixture(autouse=True)
def _known_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler_module, "measured_ceilings", lambda: Ceilings(100.0, 10.0))


def _session() -> tuple[hr.Session, hr.Tensor, hr.Tensor]:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4], name="x")
        y = hr.sum(hr.tanh(x), name="y")
    return hr.Session(graph), x, y


VALUE = np.ones((3, 4), np.float32)


def test_every_step_of_the_block_is_recorded_and_written(tmp_path: Path) -> None:
    session, x, y = _session()
    step = session.make_callable(y, [x])
    step(VALUE)
    with profile(tmp_path, session="first") as recording:
        step(VALUE)
        session.run(y, feeds={x: VALUE})
        thread = threading.Thread(target=step, args=(VALUE,), name="worker")
        thread.start()
        thread.join()
    step(VALUE)
    found = recording.timeline
    assert len(found.steps) == 3
    assert sorted(found.threads.values()) == sorted([threading.current_thread().name, "worker"])
    assert [found.ops[event.op].type for event in found.steps[0].events] == ["Tanh", "Sum"]
    assert found.start_ns <= found.steps[0].called_ns < found.steps[-1].end_ns <= found.end_ns
    assert recording.xspace_path is not None
    assert recording.trace_path is not None
    folder = tmp_path / "plugins" / "profile" / "first"
    assert sorted(folder.iterdir()) == sorted([recording.xspace_path, recording.trace_path])
    assert recording.xspace_path.name == f"{found.host}-{os.getpid()}.xplane.pb"
    back = read_xspace(recording.xspace_path)
    assert (back.steps, back.memory, back.ceilings) == (found.steps, found.memory, found.ceilings)
    trace = json.loads(gzip.decompress(recording.trace_path.read_bytes()))
    assert sum(event.get("cat") == "operation" for event in trace["traceEvents"]) == 6
    assert "Tanh" in recording.table()
    assert "y" in recording.table(by="name", limit=2)


def test_only_the_steps_that_ask_for_it_are_recorded(tmp_path: Path) -> None:
    session, x, y = _session()
    with profile(tmp_path, every_step=False) as recording:
        session.run(y, feeds={x: VALUE})
        session.run(y, feeds={x: VALUE}, trace=recording.trace)
    assert len(recording.timeline.steps) == 1


def test_a_step_with_the_trace_is_recorded_once(tmp_path: Path) -> None:
    session, x, y = _session()
    with profile(tmp_path) as recording:
        session.run(y, feeds={x: VALUE}, trace=recording.trace)
    assert len(recording.timeline.steps) == 1


def test_steps_of_many_threads_at_once_are_all_recorded(tmp_path: Path) -> None:
    session, x, y = _session()
    step = session.make_callable(y, [x])

    def work() -> None:
        for _ in range(50):
            step(VALUE)

    with profile(tmp_path) as recording:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = recording.timeline
    assert len(found.steps) == len({step.step for step in found.steps}) == 200
    for recorded in found.steps:
        ends = [event.end_ns for event in recorded.events]
        assert recorded.start_ns <= recorded.events[0].start_ns
        assert ends == sorted(ends)
        assert ends[-1] == recorded.end_ns
    assert recording.xspace_path is not None
    back = read_xspace(recording.xspace_path)
    assert sorted(back.steps, key=lambda step: step.step) == sorted(found.steps, key=lambda step: step.step)


def test_memory_is_sampled_after_steps(tmp_path: Path) -> None:
    session, x, y = _session()
    with profile(tmp_path) as recording:
        session.run(y, feeds={x: VALUE})
    (sample,) = recording.timeline.memory
    assert sample.time_ns == recording.timeline.steps[0].end_ns
    assert 1_000_000 < sample.resident_bytes < 1_000_000_000_000


def test_memory_is_looked_at_no_more_after_the_block(tmp_path: Path) -> None:
    session, x, y = _session()
    with profile(tmp_path, every_step=False) as recording:
        pass
    session.run(y, feeds={x: VALUE}, trace=recording.trace)
    assert len(recording.trace.steps) == 1
    assert recording.trace.memory == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_looks_at_its_own_memory(tmp_path: Path) -> None:
    read, write = os.pipe()
    with profile(tmp_path) as recording:
        kept = np.ones(50_000_000, np.uint8)
        child = os.fork()
        if child == 0:
            del kept
            os.write(write, str(recording.trace.resident.bytes()).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        mine = recording.trace.resident.bytes()
    with os.fdopen(read) as pipe:
        text = pipe.read()
    assert mine is not None
    assert 0 < int(text) < mine - 40_000_000


def test_two_recordings_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    recordings = []
    for _ in range(3):
        with profile(tmp_path, session="same") as recording:
            pass
        recordings.append(recording.xspace_path)
    assert len(set(recordings)) == 3


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, data: bytes) -> int:
        raise OSError("no space left on the device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="no space left"), profile(tmp_path, session="full"):
        pass
    assert list((tmp_path / "plugins" / "profile" / "full").iterdir()) == []


def test_what_an_error_interrupts_is_written_too(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        y = hr.check_numerics(hr.log(hr.placeholder(hr.float32, [], name="x")), "log")
    recording = profile(tmp_path)
    with pytest.raises(InvalidArgumentError, match="log"), recording:
        hr.Session(graph).run(y, feeds={"x:0": -1.0})
    assert [step.error for step in recording.timeline.steps] == ["InvalidArgumentError"]
    assert active_traces == []


def test_steps_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    session, x, y = _session()
    with profile(tmp_path, max_operations=3) as recording:
        for _ in range(5):
            session.run(y, feeds={x: VALUE})
    assert (len(recording.timeline.steps), recording.timeline.skipped_steps) == (2, 3)
    assert "3 more steps ran after the limit" in recording.table()


def test_the_session_is_the_time_where_it_has_no_name(tmp_path: Path) -> None:
    with profile(tmp_path) as recording:
        pass
    assert recording.xspace_path is not None
    time.strptime(recording.xspace_path.parent.name, "%Y_%m_%d_%H_%M_%S")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_session_names_that_are_no_folders_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot have this session name(.|\n)*try:"):
        profile(tmp_path, session=name)


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="max_operations >= 1"):
        profile(tmp_path, max_operations=0)
    recording = profile(tmp_path)
    with pytest.raises(FailedPreconditionError, match="not complete"):
        recording.table()
    with pytest.raises(FailedPreconditionError, match="was not begun"):
        recording.__exit__(None, None, None)
    with recording:
        pass
    with pytest.raises(FailedPreconditionError, match="records once"):
        recording.__enter__()
    assert isinstance(recording, Profile)


def test_the_times_of_operations_are_nearly_the_time_of_their_step(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [256, 256])
        y = x
        for _ in range(10):
            y = hr.tanh(hr.matmul(y, x))
    session = hr.Session(graph)
    value = np.zeros((256, 256), np.float32)
    session.run(y, feeds={x: value}, trace=hr.Trace())
    with profile(tmp_path) as recording:
        for _ in range(5):
            session.run(y, feeds={x: value})
    # The median: the machine may stop one of the steps between two operations.
    shares = sorted(step.op_ns / (step.end_ns - step.start_ns) for step in recording.timeline.steps)
    assert 0.9 <= shares[2] <= 1.0
