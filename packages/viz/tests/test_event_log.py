"""Event logs: full disks, rotation, and the thread that writes in the background."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import pytest

from headrace_viz import event_log
from headrace_viz.event_log import BackgroundLog, EventLog, EventWriteWarning, FileOptions
from headrace_viz.proto.event_pb2 import Event
from headrace_viz.reading import find_runs
from headrace_viz.records import read_records
from headrace_viz.storage import LocalFolder, LocalStream

ONE = b"\x00\x00\x80?"


class Disk(LocalStream):
    """A file on a disk that is full when its folder says so."""

    folder: DiskFolder

    def write(self, data: memoryview) -> int | None:
        """Write, or fail."""
        if self.folder.full:
            raise OSError(28, "No space left on device")
        return super().write(data)


class DiskFolder(LocalFolder):
    """A folder on such a disk."""

    full = False

    def create(self, name: str, *, sync: bool) -> Disk:
        """Make a file, or fail."""
        if self.full:
            raise OSError(28, "No space left on device")
        disk = Disk(self.location(name), sync=sync)
        disk.folder = self
        return disk


def _log(folder: LocalFolder, **options: int) -> EventLog:
    return EventLog(folder, FileOptions(5.0, **options), 1000.0, [])


def _events(path: Path) -> list[Event]:
    return [Event.FromString(data) for data in read_records(path)]


def _steps(path: Path) -> list[int]:
    return [event.step for event in _events(path) if event.HasField("summary")]


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskFolder:
    monkeypatch.setattr(event_log, "_RETRY_AFTER_FAILURES_SECONDS", 0.0)
    return DiskFolder(tmp_path)


def test_a_full_disk_gives_one_warning_and_loses_nothing_that_fits_into_memory(folder: DiskFolder) -> None:
    log = _log(folder)
    log.scalar(1000, 1000, 1, "a", ONE)
    log.flush(1000.0)
    folder.full = True
    log.scalar(1000, 1000, 2, "a", ONE)
    with pytest.warns(
        EventWriteWarning, match=r"tfevents.*: events cannot be written; .* No space left on device; free"
    ):
        log.flush(1000.0)
    log.flush(1000.0)  # without another warning
    folder.full = False
    log.scalar(1000, 1000, 3, "a", ONE)
    log.close()
    assert _steps(Path(log.path)) == [1, 2, 3]


def test_records_beyond_what_is_kept_are_counted(folder: DiskFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_KEPT_LIMIT_BYTES", 100)
    log = _log(folder)
    folder.full = True
    for step in range(4):
        log.scalar(1000, 1000, step, "a", ONE)
    with pytest.warns(EventWriteWarning, match="cannot be written"):
        log.flush(1000.0)
    folder.full = False
    log.scalar(1000, 1000, 9, "a", ONE)
    with pytest.warns(EventWriteWarning, match=r"written again; \d+ bytes of them were lost"):
        log.flush(1000.0)
    log.close()
    (event,) = _events(Path(log.path))[1:]
    assert event.step == 9
    assert event.summary.value[0].metadata.plugin_data.plugin_name == "scalars"  # told anew, since the first was lost


def test_a_disk_that_stays_full(folder: DiskFolder) -> None:
    log = _log(folder)
    folder.full = True
    log.scalar(1000, 1000, 1, "a", ONE)
    with pytest.warns(EventWriteWarning, match=r"\d+ bytes of events are lost"):
        log.close()
    assert len(_events(Path(log.path))) == 1


def test_a_failing_disk_is_not_tried_at_each_record(folder: DiskFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(folder)
    folder.full = True
    with pytest.warns(EventWriteWarning, match="cannot be written"):
        log.scalar(2000, 2000, 1, "a", ONE)
    monkeypatch.setattr(event_log, "_RETRY_AFTER_FAILURES_SECONDS", 1e9)
    log._retry_at = event_log.time.monotonic() + 1e9
    folder.full = False
    log.scalar(3000, 3000, 2, "a", ONE)
    assert _steps(Path(log.path)) == []
    log.flush(1000.0)  # asked for, so tried at once
    assert _steps(Path(log.path)) == [1, 2]
    log.close()


def test_each_file_of_a_rotated_log_can_be_read_by_itself(folder: DiskFolder, tmp_path: Path) -> None:
    log = _log(folder, max_file_bytes=300)
    for step in range(12):
        log.scalar(1000, 1000, step, "a", ONE)
        log.flush(1000.0)
    log.close()
    files = [_events(path) for path in find_runs(tmp_path)["."]]
    assert len(files) > 2
    assert [event.step for events in files for event in events[1:]] == list(range(12))
    for events in files:
        assert events[0].file_version == "brain.Event:2"
        assert [event.HasField("session_log") for event in events] == [False] * len(events)
    plugins = [events[1].summary.value[0].metadata.plugin_data.plugin_name for events in files if len(events) > 1]
    assert set(plugins) == {"scalars"}


def test_where_no_new_file_can_be_made_the_old_one_grows(folder: DiskFolder, tmp_path: Path) -> None:
    log = _log(folder, max_file_bytes=10)
    log.scalar(1000, 1000, 1, "a", ONE)

    def create(name: str, *, sync: bool) -> Disk:
        raise OSError(28, "No space left on device")

    folder.create = create  # type: ignore[method-assign]  # the disk fills up between two files
    with pytest.warns(EventWriteWarning, match="no new event file can be made"):
        log.flush(1000.0)
    log.scalar(1000, 1000, 2, "a", ONE)
    with pytest.warns(EventWriteWarning, match="no new event file"):
        log.flush(1000.0)
    log.close()
    (path,) = find_runs(tmp_path)["."]
    assert _steps(path) == [1, 2]


def _background(folder: LocalFolder, flush_seconds: float = 1e6, max_queue: int = 2) -> BackgroundLog:
    return BackgroundLog(_log(folder), flush_seconds, max_queue, lambda: 1000.0)


def test_the_thread_keeps_the_order(folder: DiskFolder) -> None:
    log = _background(folder)
    for step in range(5000):
        log.scalar(1000, 1000, step, "a", ONE)
        if step % 100 == 0:
            log.add(1000, Event(step=step).SerializeToString)
    log.flush(1000.0)
    seen = [event.step for event in _events(Path(log.path))[1:]]
    assert seen == sorted(seen)
    assert len(seen) == 5050
    log.close()


def test_records_that_take_long_to_make_are_made_in_the_thread(folder: DiskFolder) -> None:
    threads: list[threading.Thread] = []

    def make() -> bytes:
        threads.append(threading.current_thread())
        return Event(step=1).SerializeToString()

    log = _background(folder)
    log.add(1000, make)
    log.close()
    assert [thread.name for thread in threads] == ["headrace-viz-writer"]
    assert not threads[0].is_alive()


def test_no_more_than_max_queue_wait(folder: DiskFolder) -> None:
    go, started = threading.Event(), threading.Event()

    def slow() -> bytes:
        started.set()
        assert go.wait(30)
        return Event(step=1).SerializeToString()

    log = _background(folder, max_queue=2)
    log.add(1000, slow)
    log.add(1000, slow)
    assert started.wait(30)
    third = threading.Thread(target=log.add, args=(1000, slow))
    third.start()
    third.join(0.05)
    assert third.is_alive()
    go.set()
    third.join(30)
    log.close()
    assert len(_events(Path(log.path))) == 4


def test_the_thread_writes_when_nothing_else_comes(folder: DiskFolder) -> None:
    times = iter([1000.0, *[2000.0] * 1_000_000])
    log = BackgroundLog(_log(folder), 0.001, 2, lambda: next(times))
    log.scalar(1000, 1000, 7, "a", ONE)
    deadline = event_log.time.monotonic() + 30
    while not _steps(Path(log.path)) and event_log.time.monotonic() < deadline:
        threading.Event().wait(0.001)
    assert _steps(Path(log.path)) == [7]
    log.close()


def test_a_log_that_is_closed_in_its_own_thread(folder: DiskFolder) -> None:
    log = _background(folder)
    thread = log._thread

    def collect() -> bytes:
        log.close()  # as the finalizer of a writer does that is collected here
        return Event(step=5).SerializeToString()

    log.add(1000, collect)
    thread.join(30)
    assert not thread.is_alive()
    assert [event.step for event in _events(Path(log.path))] == [0, 5]


def test_a_record_that_cannot_be_made_is_told_and_the_others_come_through(folder: DiskFolder) -> None:
    def fail() -> bytes:
        raise ValueError("a bad picture")

    log = _background(folder)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        log.add(1000, fail)
        log.add(1000, Event(step=5).SerializeToString)
        log.close()
    assert [str(warning.message).partition(": ")[2] for warning in told] == [
        "an event is lost: ValueError: a bad picture"
    ]
    assert [event.step for event in _events(Path(log.path))] == [0, 5]


def test_where_warnings_are_errors_the_caller_of_flush_gets_them(folder: DiskFolder) -> None:
    log = _background(folder)
    log.scalar(1000, 1000, 1, "a", ONE)
    folder.full = True
    with pytest.raises(EventWriteWarning, match="cannot be written"):
        log.flush(1000.0)
    folder.full = False
    log.close()
    assert _steps(Path(log.path)) == [1]


def test_flushing_often_does_not_put_off_what_is_due(folder: DiskFolder) -> None:
    log = _log(folder)
    for _ in range(10):
        log.flush(1000.0)
    log.scalar(1005.0, 1005.0, 1, "a", ONE)
    assert _steps(Path(log.path)) == [1]
    log.close()


def test_time_to_wait_is_bounded_by_flush_seconds(folder: DiskFolder) -> None:
    log = _log(folder)
    log.scalar(1000, 1000, 1, "a", ONE)
    log.flush_if_due(1004.0)
    assert _steps(Path(log.path)) == []
    log.flush_if_due(1005.0)
    assert _steps(Path(log.path)) == [1]
    log.close()
