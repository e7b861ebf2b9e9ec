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

from headrace.errors import DTypeError, FailedPreconditionError, InvalidArgumentError
from headrace_viz import EventWriter
from headrace_viz.event_file import event_files
from headrace_viz.proto.event_pb2 import Event, SessionLog, Summary
from headrace_viz.records import frame, read_records


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
    files = event_files(tmp_path)
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
    assert len(_events(writer.path)) == 1


def test_a_forgotten_writer_keeps_its_records(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.scalar("a", 1, 1)
    path = writer.path
    del writer
    gc.collect()
    assert _points(_events(path)) == [("a", 1, 1)]


def test_a_program_that_forgets_to_close_keeps_its_records(tmp_path: Path) -> None:
    program = "import sys, headrace_viz; w = headrace_viz.EventWriter(sys.argv[1]); w.scalar('a', 1, 1)"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    (path,) = event_files(tmp_path)
    assert _points(_events(path)) == [("a", 1, 1)]


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
