"""Whatever call fails, a name stands for the old content or the new, and nothing is left lying about."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace_checkpoint import durable
from headrace_checkpoint.durable import Disk

CALLS = ["create", "write", "sync", "close", "make_directory", "rename", "sync_directory", "remove_file", "remove_tree"]


class FaultyDisk(Disk):
    """Logs every call, and fails the n-th one, or from the n-th one on."""

    def __init__(self, fail_at: int | None = None, error: int = errno.EIO, persistent: bool = False) -> None:
        self.log: list[str] = []
        self._fail_at, self._error, self._persistent = fail_at, error, persistent

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return self._logged(name, found) if name in CALLS else found

    def _logged(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            index = len(self.log)
            self.log.append(name)
            if name == "close":
                call(*args)  # a close that fails has still closed
            if self._fail_at is not None and (index == self._fail_at or (self._persistent and index > self._fail_at)):
                raise OSError(self._error, os.strerror(self._error))
            return None if name == "close" else call(*args)

        return run


class ShortWrites(Disk):
    """Takes three bytes at a time."""

    def write(self, descriptor: int, data: memoryview) -> int:
        return super().write(descriptor, data[:3])


def _leftovers(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name.startswith("."))


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_replace_file_makes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "f"
    durable.replace_file(path, [b"ab", bytearray(b"c"), memoryview(b"de")])
    assert path.read_bytes() == b"abcde"
    durable.replace_file(path, [])
    assert path.read_bytes() == b""
    assert _leftovers(tmp_path) == []


def test_short_writes_are_continued(tmp_path: Path) -> None:
    durable.replace_file(tmp_path / "f", [b"0123456789"], ShortWrites())
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_the_mode_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        durable.replace_file(tmp_path / "f", [b"x"])
    finally:
        os.umask(old)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


def test_the_order_of_calls_is_the_safe_one(tmp_path: Path) -> None:
    disk = FaultyDisk()
    durable.replace_file(tmp_path / "f", [b"x"], disk)
    assert disk.log == ["create", "write", "sync", "close", "rename", "sync_directory"]
    disk = FaultyDisk()
    with durable.staged_directory(tmp_path / "d", disk) as folder:
        durable.write_file(folder / "f", [b"x"], disk)
    made = ["make_directory", "create", "write", "sync", "close"]
    assert disk.log == [*made, "sync_directory", "rename", "sync_directory"]
    disk = FaultyDisk()
    durable.remove_directory(tmp_path / "d", disk)
    assert disk.log == ["rename", "sync_directory", "remove_tree"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("fail_at", range(6))
def test_replace_file_with_the_nth_call_failing(tmp_path: Path, fail_at: int, error: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    before = _open_descriptors()
    with pytest.raises(OSError, match=os.strerror(error)):
        durable.replace_file(path, [b"new"], FaultyDisk(fail_at, error))
    # Only the last call, the folder's fsync, comes after the new name is there.
    assert path.read_bytes() == (b"new" if fail_at == 5 else b"old")
    assert _leftovers(tmp_path) == []
    assert _open_descriptors() == before


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("fail_at", range(8))
def test_staged_directory_with_the_nth_call_failing(tmp_path: Path, fail_at: int, persistent: bool) -> None:
    path = tmp_path / "d"
    disk = FaultyDisk(fail_at, persistent=persistent)
    before = _open_descriptors()
    with (  # the block is what is tested
        pytest.raises(OSError, match=os.strerror(errno.EIO)),
        durable.staged_directory(path, disk) as folder,
    ):
        durable.write_file(folder / "f", [b"x"], disk)
    assert path.exists() == (fail_at == 7)
    assert _open_descriptors() == before
    if not persistent:
        assert _leftovers(tmp_path) == []


def test_an_error_in_the_block_removes_the_folder(tmp_path: Path) -> None:
    def fail() -> None:
        with durable.staged_directory(tmp_path / "d") as folder:
            durable.write_file(folder / "f", [b"x"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_staged_directory_never_replaces_a_filled_one(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"old")

    def stage() -> None:
        with durable.staged_directory(tmp_path / "d") as folder:
            durable.write_file(folder / "f", [b"new"])

    with pytest.raises(FileExistsError, match="File exists"):
        stage()
    assert (tmp_path / "d" / "f").read_bytes() == b"old"
    assert _leftovers(tmp_path) == []


def test_sweep_takes_what_dead_processes_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk(fail_at=2)
    (tmp_path / "d").mkdir()
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        durable.remove_directory(tmp_path / "d", disk)
    (left,) = _leftovers(tmp_path)
    assert durable.sweep(tmp_path) == []  # we are alive
    monkeypatch.setattr(durable, "_is_alive", lambda process: False)
    assert durable.sweep(tmp_path) == [tmp_path / left]
    assert list(tmp_path.iterdir()) == []


def test_sweep_leaves_a_live_process_of_another_host_its_day(tmp_path: Path) -> None:
    other = tmp_path / ".tmp-step~elsewhere~1~abc"
    other.mkdir()
    odd = tmp_path / ".tmp-odd"
    odd.write_bytes(b"")
    kept = tmp_path / "step"
    kept.mkdir()
    now = other.stat().st_mtime
    assert durable.sweep(tmp_path, now=now + 3600) == []
    assert durable.sweep(tmp_path, now=now + durable.LEASE_SECONDS + 3600) == [odd, other]
    assert kept.is_dir()


def _dead_process() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def test_is_alive() -> None:
    child = _dead_process()
    assert not durable._is_alive(child)
    assert durable._is_alive(os.getpid())
    assert durable._is_alive(1)
    assert durable._is_alive(10**30)


def test_the_disk_is_given_large_files_while_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "_BEHIND", 10)
    calls: list[tuple[str, int, int]] = []

    class Watched(Disk):
        def write_behind(self, descriptor: int, begin: int, size: int) -> None:
            super().write_behind(descriptor, begin, size)
            calls.append(("behind", begin, size))

        def sync(self, descriptor: int) -> None:
            super().sync(descriptor)
            calls.append(("sync", 0, os.fstat(descriptor).st_size))

    durable.replace_file(tmp_path / "f", [b"0123", b"456789ABCDEFGHIJKLMNO", b"", b"P"], Watched())
    assert (tmp_path / "f").read_bytes() == b"0123456789ABCDEFGHIJKLMNOP"
    assert calls == [("behind", 0, 14), ("behind", 14, 10), ("sync", 0, 26)]


def test_what_cannot_be_written_behind_is_left_to_fsync() -> None:
    reading, writing = os.pipe()
    try:
        Disk().write_behind(writing, 0, 10)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("has_call", [True, False], ids=["macOS", "elsewhere"])
def test_data_is_flushed_to_the_platter_where_the_system_has_a_call_for_it(
    monkeypatch: pytest.MonkeyPatch, has_call: bool
) -> None:
    fcntl = pytest.importorskip("fcntl")
    calls: list[tuple[int, int]] = []
    synced: list[int] = []
    monkeypatch.setattr(fcntl, "fcntl", lambda *given: calls.append(given))
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    if has_call:
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    Disk().sync(7)
    assert (calls, synced) == (([(7, 51)], []) if has_call else ([], [7]))


def test_files_are_replaced_where_the_system_is_not_posix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    durable.replace_file(tmp_path / "f", [b"ab"])
    assert (tmp_path / "f").read_bytes() == b"ab"


def test_what_another_process_sweeps_or_removes_is_not_missed(tmp_path: Path) -> None:
    class Late(Disk):
        def remove_tree(self, path: Path) -> None:
            super().remove_tree(path)
            super().remove_tree(path)

    for name in (".tmp-a~elsewhere~1~x", ".del-b~elsewhere~1~x"):
        (tmp_path / name).mkdir()
    assert durable.sweep(tmp_path, Late(), now=2e10) == []
    assert list(tmp_path.iterdir()) == []
    durable.remove_directory(tmp_path / "gone")


def test_a_link_to_a_folder_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    """A step that somebody moved to another disk: `shutil.rmtree` refuses links, so no manager opened any more."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    (tmp_path / "step").symlink_to(tmp_path / "elsewhere")
    durable.remove_directory(tmp_path / "step")
    left = tmp_path / f".del-step~{socket.gethostname()}~{_dead_process()}~abc"
    left.symlink_to(tmp_path / "elsewhere")
    dangling = tmp_path / ".del-step~another host~1~abc"
    dangling.symlink_to(tmp_path / "nowhere")
    assert durable.sweep(tmp_path, now=4e9) == sorted([left, dangling])
    assert [entry.name for entry in tmp_path.iterdir()] == ["elsewhere"]
    assert (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.parametrize("name", ["x" * 255, "\u00e9" * 127], ids=["ascii", "two bytes a letter"])
def test_the_longest_name_that_a_file_may_have(tmp_path: Path, name: str) -> None:
    durable.replace_file(tmp_path / name, [b"content"])
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [(name, b"content")]
