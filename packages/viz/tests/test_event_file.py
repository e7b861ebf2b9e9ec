"""Files: named apart, ordered, and whole whatever the disk does."""

from __future__ import annotations

import os
import socket
from io import FileIO
from pathlib import Path

import pytest

from headrace_viz.event_file import EventFile, event_files
from headrace_viz.records import read_records


class SmallDisk(FileIO):
    """A file that takes `room` bytes more and no others."""

    def __init__(self, path: Path, room: int | None) -> None:
        super().__init__(path, "x")
        self.room = room

    def write(self, data: memoryview) -> int | None:  # type: ignore[override]  # only what EventFile gives
        """Write what there is room for."""
        if self.room is None:
            return None
        written = super().write(data[: self.room])
        self.room -= written
        if not written:
            raise OSError(28, "No space left on device")
        return written


def test_the_name_tells_time_host_and_process(tmp_path: Path) -> None:
    file = EventFile(tmp_path, 1234.5)
    file.close()
    prefix, number = file.path.name.rsplit(".", 1)
    assert prefix == f"events.out.tfevents.0000001234.{socket.gethostname()}.{os.getpid()}"
    assert number.isdigit()


def test_names_come_after_those_of_earlier_files_whatever_the_clock_says(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.2000000000.other.1.0").touch()
    (tmp_path / "some.tfevents.of.another.program").touch()
    file = EventFile(tmp_path, 1000.0)
    file.close()
    assert file.path.name.startswith("events.out.tfevents.2000000001.")


def test_event_files_of_a_folder(tmp_path: Path) -> None:
    names = ["events.out.tfevents.0000000002.h.1.0", "events.out.tfevents.0000000001.h.1.0", "notes.txt"]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in event_files(tmp_path)] == [names[1], names[0]]
    assert event_files(tmp_path / "absent") == []


def test_a_full_disk_leaves_whole_records_and_keeps_the_rest(tmp_path: Path) -> None:
    disks: list[SmallDisk] = []

    def open_file(path: Path) -> SmallDisk:
        disks.append(SmallDisk(path, 1000))
        return disks[0]

    file = EventFile(tmp_path, 1000.0, open_file)
    (disk,) = disks
    file.append(b"first")
    file.write_pending()
    disk.room = 10
    file.append(b"second")
    with pytest.raises(OSError, match="No space left"):
        file.write_pending()
    assert list(read_records(file.path)) == [b"first"]
    disk.room = 1000
    file.append(b"third")
    file.close()
    assert list(read_records(file.path)) == [b"first", b"second", b"third"]
    assert file.pending_bytes == 0


def test_a_device_that_takes_nothing(tmp_path: Path) -> None:
    file = EventFile(tmp_path, 1000.0, lambda path: SmallDisk(path, None))
    file.append(b"first")
    with pytest.raises(OSError, match="the device takes no more bytes"):
        file.close()
