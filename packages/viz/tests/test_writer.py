"""The writer: what is in its files, in whatever way it is used or stopped."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DTypeError, FailedPreconditionError, InvalidArgumentError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace_viz import EventWriter
from headrace_viz.proto.event_pb2 import Event, SessionLog, Summary
from headrace_viz.proto.run_metadata_pb2 import RunMetadata
from headrace_viz.reading import find_runs, read_run
from headrace_viz.records import frame, read_records
from headrace_viz.tensors import array_of


def _events(path: Path) -> list[Event]:
    return [Event.FromString(data) for data in read_records(path)]


def _points(events: list[Event]) -> list[tuple[str, int, float]]:
    return [(value.tag, event.step, value.tensor.float_val[0]) for event in events for value in event.summary.value]


def _ticks(start: float, step: float) -> Iterator[float]:
    while True:
        yield start
        start += step


def test_scalars_are_read_back(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "new" / "run") as writer:
        writer.scalar("loss", 0.5, 1)
        writer.scalar("loss", np.float32(0.25), 2)
        writer.scalars({"a": 1, "b": 2.5}, 3)
    version, *events = _events(writer.path)
    assert version.file_version == "brain.Event:2"
    assert _points(events) == [("loss", 1, 0.5), ("loss", 2, 0.25), ("a", 3, 1.0), ("b", 3, 2.5)]
    plugins = [event.summary.value[0].metadata.plugin_data.plugin_name for event in events]
    assert plugins == ["scalars", "", "scalars", "scalars"]


def test_B01_writers_at_the_same_time_have_files_of_their_own(tmp_path: Path) -> None:
    def clock() -> float:
        return 1000.0

    first = EventWriter(tmp_path, clock=clock)
    first.scalar("a", 1, 1)
    first.close()
    second, third = EventWriter(tmp_path, clock=clock), EventWriter(tmp_path, clock=clock)
    for writer, value in ((second, 2), (third, 3)):
        writer.scalar("a", value, value)
        writer.close()
    files = find_runs(tmp_path)["."]
    assert files == [first.path, second.path, third.path]  # read in the order in which they were made
    assert [_points(_events(path)) for path in files] == [[("a", 1, 1)], [("a", 2, 2)], [("a", 3, 3)]]


def test_B05_values_that_are_not_finite_are_kept(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        for step, value in enumerate([math.nan, math.inf, -math.inf], start=1):
            writer.scalar("x", value, step)
    nan, *rest = _points(_events(writer.path))
    assert nan[:2] == ("x", 1)
    assert math.isnan(nan[2])
    assert rest == [("x", 2, math.inf), ("x", 3, -math.inf)]


def test_B07_tags_are_kept_as_they_are(tmp_path: Path) -> None:
    tags = ["loss: (a) %", "/x//y", "x/y", "", "损失", "t" * 300, "loss___a___"]
    with EventWriter(tmp_path) as writer:
        for step in (1, 2):
            writer.scalars(dict.fromkeys(tags, step), step)
    assert _points(_events(writer.path)) == [(tag, step, float(step)) for step in (1, 2) for tag in tags]


def test_a_resumed_run_purges_what_came_later(tmp_path: Path) -> None:
    with EventWriter(tmp_path, purge_step=7) as writer:
        pass
    _, *marks = _events(writer.path)
    assert [(mark.step, mark.session_log.status) for mark in marks] == [(7, SessionLog.START)] * 2


@pytest.mark.parametrize("step", [2**63, "7"])
def test_a_purge_step_that_is_no_step_makes_no_file(tmp_path: Path, step: int) -> None:
    with pytest.raises(InvalidArgumentError, match="an event needs a step"):
        EventWriter(tmp_path, purge_step=step)
    assert list(tmp_path.iterdir()) == []


def test_bad_input_writes_nothing(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        with pytest.raises(DTypeError, match="needs a real number"):
            writer.scalars({"a": 1, "b": "text"}, 1)
        with pytest.raises(InvalidArgumentError, match="needs a tag"):
            writer.scalars({"a": 1, 5: 1}, 1)  # type: ignore[dict-item]  # the point of the test
        with pytest.raises(InvalidArgumentError, match="needs a step"):
            writer.scalar("a", 1, 2**63)
        with pytest.raises(InvalidArgumentError, match="needs a tag"):
            writer.scalar("\ud800", 1, 1)
        with pytest.raises(InvalidArgumentError, match="cannot write a summary"):
            writer.summary(b"\xff", 1)
    assert _points(_events(writer.path)) == []


def test_summaries_of_operations(tmp_path: Path) -> None:
    summary = Summary(value=[Summary.Value(tag="a", simple_value=1.5), Summary.Value(tag="b", simple_value=2.5)])
    with EventWriter(tmp_path) as writer:
        writer.summary(summary.SerializeToString(), 4)
    _, event = _events(writer.path)
    assert (event.step, event.summary) == (4, summary)


def test_records_reach_the_file_at_flush_and_when_they_are_due(tmp_path: Path) -> None:
    ticks = _ticks(1000.0, 1.0)
    with EventWriter(tmp_path, flush_seconds=3.0, clock=lambda: next(ticks)) as writer:
        counts = []
        for step in range(6):
            writer.scalar("a", step, step)
            counts.append(len(_events(writer.path)) - 1)
        assert counts == [0, 0, 3, 3, 3, 6]
        writer.scalar("a", 6, 6)
        writer.flush()
        assert len(_events(writer.path)) - 1 == 7


def test_many_records_do_not_wait(tmp_path: Path) -> None:
    with EventWriter(tmp_path, clock=lambda: 1000.0) as writer:
        for step in range(3000):
            writer.scalar("a", step, step)
        assert writer.path.stat().st_size > 64 * 1024


def test_threads_lose_nothing_and_mix_nothing(tmp_path: Path) -> None:
    def write(thread: int) -> None:
        for step in range(500):
            writer.scalar(f"thread{thread % 2}", thread, 1000 * thread + step)

    with EventWriter(tmp_path) as writer, ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    points = _points(_events(writer.path))
    expected = [(f"thread{thread % 2}", 1000 * thread + step, thread) for thread in range(4) for step in range(500)]
    assert sorted(points, key=lambda point: point[1]) == expected


def test_a_closed_writer(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(FailedPreconditionError, match=r"the event writer is closed\n  where: +.*tfevents"):
        writer.scalar("a", 1, 1)
    with pytest.raises(FailedPreconditionError, match="closed"):
        writer.scalars({"a": 1}, 1)
    with pytest.raises(FailedPreconditionError, match="closed"):
        writer.flush()
    with pytest.raises(FailedPreconditionError, match="closed"):
        writer.values([], 1)
    assert len(_events(writer.path)) == 1


@pytest.mark.parametrize("name", ["flush_seconds", "max_queue", "max_file_bytes"])
def test_sizes_and_times_that_are_not_positive(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} of an event writer cannot be used"):
        EventWriter(tmp_path, **{name: 0})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("background", [False, True])
def test_values_are_kept_in_order_with_the_time_that_was_given(tmp_path: Path, background: bool) -> None:
    with EventWriter(tmp_path, background=background) as writer:
        writer.scalar("a", 1, 1, wall_time=10.0)
        writer.values([Summary.Value(tag="b", simple_value=2)], 2, wall_time=20.0)
        writer.values(lambda: [Summary.Value(tag="c", simple_value=3)], 3, wall_time=30.0)
        writer.scalars({"a": 4}, 4, wall_time=40.0)
        writer.summary(Summary().SerializeToString(), 5, wall_time=50.0)
    _, *events = _events(writer.path)
    assert [(event.step, event.wall_time) for event in events] == [(step, 10.0 * step) for step in range(1, 6)]
    assert events[2].summary.value[0].tag == "c"


def test_several_writers_of_one_run_in_the_background(tmp_path: Path) -> None:
    writers = [EventWriter(tmp_path, background=True, filename_suffix=f".w{number}") for number in range(3)]
    for step in range(100):
        for number, writer in enumerate(writers):
            writer.scalar(f"a{number}", step, step)
    for writer in writers:
        writer.close()
    assert [path.name.rsplit(".", 1)[1] for path in find_runs(tmp_path)["."]] == ["w0", "w1", "w2"]
    assert [len(_points(_events(path))) for path in find_runs(tmp_path)["."]] == [100] * 3


def test_a_writer_rotates_its_files(tmp_path: Path) -> None:
    with EventWriter(tmp_path, max_file_bytes=1, clock=lambda: 1000.0) as writer:
        for step in range(3):
            writer.scalar("a", step, step)
            writer.flush()
    files = find_runs(tmp_path)["."]
    assert [point for path in files for point in _points(_events(path))] == [("a", step, step) for step in range(3)]
    assert len(files) == 4


def test_synced_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("headrace_viz.storage.os.fsync", synced.append)
    with EventWriter(tmp_path, fsync=True) as writer:
        made = len(synced)
        writer.scalar("a", 1, 1)
        writer.flush()
        assert len(synced) == made + 1
    with EventWriter(tmp_path / "plain") as writer:
        writer.scalar("a", 1, 1)
    assert len(synced) == made + 1


def test_a_remote_run(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    url = f"memory:/{tmp_path}/run"
    for background in (False, True):
        with EventWriter(url, background=background, max_file_bytes=200) as writer:
            for step in range(6):
                writer.scalar("a", step, step)
                writer.flush()
        assert str(writer.path).startswith("memory://")
    files = fsspec.filesystem("memory")
    names = sorted(files.ls(f"{tmp_path}/run", detail=False))
    assert len(names) > 4
    points = []
    for number, name in enumerate(names):
        local = tmp_path / str(number)
        local.write_bytes(files.cat_file(name))
        points += _points(_events(local))
    assert points == [("a", step, float(step)) for step in range(6)] * 2


def test_a_fork_may_not_write_what_waits_here(tmp_path: Path) -> None:
    program = """
import os, sys, headrace_viz
from headrace.errors import FailedPreconditionError
writer = headrace_viz.EventWriter(sys.argv[1])
writer.scalar("a", 1, 1)
child = os.fork()
if child == 0:
    try:
        writer.scalar("a", 2, 2)
    except FailedPreconditionError as error:
        sys.exit(5 if "belongs to another process" in str(error) else 6)
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
writer.scalar("a", 3, 3)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    (path,) = find_runs(tmp_path)["."]
    assert _points(_events(path)) == [("a", 1, 1), ("a", 3, 3)]


def test_a_fork_while_another_thread_writes_does_not_wait_for_it(tmp_path: Path) -> None:
    program = """
import os, sys, threading, headrace_viz
from headrace.errors import FailedPreconditionError
inside, over = threading.Event(), threading.Event()
def clock():
    if threading.current_thread() is not threading.main_thread():
        inside.set()
        over.wait()
    return 1.0
writer = headrace_viz.EventWriter(sys.argv[1], clock=clock)
thread = threading.Thread(target=writer.scalar, args=("a", 1, 1))
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    try:
        writer.scalar("a", 2, 2)
    except FailedPreconditionError:
        writer.close()
        os._exit(5)
over.set()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    (path,) = find_runs(tmp_path)["."]
    assert _points(_events(path)) == [("a", 1, 1)]


def test_a_time_that_is_none_is_refused_where_it_is_given(tmp_path: Path) -> None:
    """In the writer's thread it would be a warning about an event that is lost."""
    with EventWriter(tmp_path, background=True) as writer:
        for write in (
            lambda: writer.scalar("a", 1, 1, wall_time=math.nan),
            lambda: writer.scalars({"a": 1}, 1, wall_time=math.inf),
            lambda: writer.values([], 1, wall_time=math.nan),
            lambda: writer.summary(b"", 1, wall_time=math.nan),
            lambda: writer.graph(hr.Graph(), wall_time=math.nan),
        ):
            with pytest.raises(InvalidArgumentError, match="an event needs a time"):
                write()


def test_a_full_disk_does_not_stop_a_training(tmp_path: Path) -> None:
    program = """
import resource, signal, sys, warnings, headrace_viz
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = headrace_viz.EventWriter(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for step in range(2000):
        writer.scalar("loss", step, step)
        if step % 100 == 0:
            writer.flush()
assert [warning.category for warning in told] == [headrace_viz.EventWriteWarning], told
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.close()
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    (path,) = find_runs(tmp_path)["."]
    assert [point[1] for point in _points(_events(path))] == list(range(2000))


def test_a_graph_beside_that_of_the_run(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        hr.constant(1.0, name="one")
    with EventWriter(tmp_path) as writer:
        writer.graph(graph)
        writer.graph(graph, tag="optimised")
    _, run, tagged = _events(writer.path)
    (value,) = tagged.summary.value
    assert (value.tag, value.metadata.plugin_data.plugin_name) == ("optimised", "graph_run_metadata_graph")
    metadata = RunMetadata.FromString(array_of(value.tensor)[0])
    assert metadata.function_graphs[0].pre_optimization_graph == GraphDef.FromString(run.graph_def)


def test_what_steps_took(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        y = hr.exp(x, name="y")
    trace = hr.Trace()
    hr.Session(graph).run(y, feeds={x: [0, 1]}, trace=trace)
    with EventWriter(tmp_path) as writer:
        writer.run_metadata(trace, "step 1")
    _, event = _events(writer.path)
    assert event.tagged_run_metadata.tag == "step 1"
    metadata = RunMetadata.FromString(event.tagged_run_metadata.run_metadata)
    (device,) = metadata.step_stats.dev_stats
    assert [node.node_name for node in device.node_stats] == ["y"]


def test_a_killed_writer_leaves_whole_records_and_its_successor_one_clean_curve(tmp_path: Path) -> None:
    program = """
import sys, headrace_viz
writer = headrace_viz.EventWriter(sys.argv[1], purge_step=int(sys.argv[2]), background=bool(int(sys.argv[3])))
for step in range(int(sys.argv[2]), 10**9):
    writer.scalar("loss", step, step)
    if step % 100 == 0:
        writer.flush()
        print(step, flush=True)
"""
    for start, background in ((0, 0), (150, 1), (270, 0)):
        command = [sys.executable, "-c", program, str(tmp_path), str(start), str(background)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(3):
                process.stdout.readline()
            process.kill()
    values = read_run(find_runs(tmp_path)["."], strict=False)
    steps = [value.step for value in values]
    assert steps == list(range(len(steps)))
    assert len(steps) >= 470
    assert [value.value for value in values] == steps


@pytest.mark.parametrize("background", [False, True])
def test_a_forgotten_writer_keeps_its_records(tmp_path: Path, background: bool) -> None:
    writer = EventWriter(tmp_path, background=background)
    writer.scalar("a", 1, 1)
    path = writer.path
    del writer
    gc.collect()
    assert _points(_events(path)) == [("a", 1, 1)]


def test_a_program_that_forgets_to_close_keeps_its_records(tmp_path: Path) -> None:
    program = """
import sys, headrace_viz
for background in (False, True):
    writer = headrace_viz.EventWriter(sys.argv[1], background=background)
    globals()[f"kept{background}"] = writer
    writer.scalar("a", 1, 1)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    assert [_points(_events(path)) for path in find_runs(tmp_path)["."]] == [[("a", 1, 1)]] * 2


def test_torn_tail_gives_exactly_the_whole_records(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "run") as writer:
        for step in range(6):
            writer.scalar("loss", step / 4, step)
    image = writer.path.read_bytes()
    records = list(read_records(writer.path))
    ends = np.cumsum([len(frame(data)) for data in records])
    torn = tmp_path / "torn"
    for size in range(int(ends[-4]), len(image) + 1):
        torn.write_bytes(image[:size])
        assert list(read_records(torn, torn_tail_ok=True)) == records[: int((ends <= size).sum())]


def test_the_graphs_of_a_step(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None], name="x")
        with hr.device("CPU:1"):
            y = hr.exp(hr.identity(x, name="nothing"), name="y")
        with hr.device("CPU:0"):
            z = hr.negative(y, name="z")
    trace = hr.Trace()
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2}))
    session.run(z, feeds={x: [0, 1]}, trace=trace)
    with EventWriter(tmp_path) as writer:
        writer.step_graphs(session, z, {x: [0, 1]}, tag="training", trace=trace)
        writer.step_graphs(session, z, {x: [0, 1]}, tag="plain")
    _, event, plain = _events(writer.path)
    found = {value.tag: RunMetadata.FromString(array_of(value.tensor)[0]) for value in event.summary.value}
    plugins = {value.tag: value.metadata.plugin_data.plugin_name for value in event.summary.value}
    assert plugins == {
        "training/built": "graph_run_metadata_graph",
        "training/optimised": "graph_run_metadata",
        "training/divided": "graph_run_metadata",
    }
    assert {value.metadata.plugin_data.plugin_name for value in plain.summary.value} == {"graph_run_metadata_graph"}
    nodes = {
        tag: {node.name: node for node in metadata.function_graphs[0].pre_optimization_graph.node}
        for tag, metadata in found.items()
    }
    assert set(nodes["training/built"]) == {"x", "nothing", "y", "z"}
    assert {name: nodes["training/optimised"][name].device[-5:] for name in ("y", "z")} == {"y": "CPU:1", "z": "CPU:0"}
    assert {"CPU_1/y", "CPU_0/z"} < set(nodes["training/divided"])
    for tag, name in (("training/optimised", "y"), ("training/divided", "CPU_1/y")):
        devices = found[tag].step_stats.dev_stats
        assert name in {stats.node_name for device in devices for stats in device.node_stats}
