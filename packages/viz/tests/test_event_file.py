"""Files: named apart, ordered, and whole whatever the disk does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from headrace_viz.event_file import EventFile
from headrace_viz.reading import find_runs
from headrace_viz.records import read_records
from headrace_viz.storage import LocalFolder, LocalStream


class SmallDisk(LocalStream):
    """A file that takes `room` bytes more and no others; with None it takes nothing, without an error."""

    room: int | None = 1000

    def write(self, data: memoryview) -> int | None:
        """Write what there is room for."""
        if self.room is None:
            return None
        written = super().write(data[: self.room])
        assert written is not None
        self.room -= written
        if not written:
            raise OSError(28, "No space left on device")
        return written


class SmallDiskFolder(LocalFolder):
    """Keeps the files that it makes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.disks: list[SmallDisk] = []

    def create(self, name: str, *, sync: bool) -> SmallDisk:
        """Make one."""
        self.disks.append(SmallDisk(self.location(name), sync=sync))
        return self.disks[-1]


def test_the_name_tells_time_host_and_process(tmp_path: Path) -> None:
    file = EventFile(LocalFolder(tmp_path), 1234.5)
    file.close()
    prefix, number = file.path.name.rsplit(".", 1)
    assert prefix == f"events.out.tfevents.0000001234.{socket.gethostname()}.{os.getpid()}"
    assert number.isdigit()


def test_names_come_after_those_of_earlier_files_whatever_the_clock_says(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.2000000000.other.1.0").touch()
    (tmp_path / "some.tfevents.of.another.program").touch()
    file = EventFile(LocalFolder(tmp_path), 1000.0)
    file.close()
    assert file.path.name.startswith("events.out.tfevents.2000000001.")


def test_event_files_of_a_folder(tmp_path: Path) -> None:
    names = ["events.out.tfevents.0000000002.h.1.0", "events.out.tfevents.0000000001.h.1.0", "notes.txt"]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in find_runs(tmp_path)["."]] == [names[1], names[0]]


def test_a_full_disk_leaves_whole_records_and_keeps_the_rest(tmp_path: Path) -> None:
    folder = SmallDiskFolder(tmp_path)
    file = EventFile(folder, 1000.0)
    (disk,) = folder.disks
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
    folder = SmallDiskFolder(tmp_path)
    file = EventFile(folder, 1000.0)
    folder.disks[0].room = None
    file.append(b"first")
    with pytest.raises(OSError, match="the device takes no more bytes"):
        file.close()
