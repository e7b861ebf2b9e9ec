"""Make files and folders last: what is written is either there whole after a crash, or not there at all.

POSIX promises little. Data is safe only after `fsync` of the file, a name only after `fsync` of its folder, and
`rename` is the one operation that takes effect at once. Everything here is the same dance: write under a temporary
name, fsync, rename, fsync the folder. After an `fsync` that failed, the kernel may have marked the lost pages as
clean, so a second `fsync` proves nothing (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020):
we give up the temporary file and report, never retry.

The system calls go through a `Disk`, so that tests can fail any one of them or lose what was not yet forced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = [
    "DISK",
    "Bytes",
    "Disk",
    "make_directories",
    "remove_directory",
    "replace_file",
    "staged_directory",
    "sweep",
    "write_file",
]

Bytes = bytes | bytearray | memoryview

_STAGED = ".tmp-"
_DOOMED = ".del-"

# So much at a time is handed to the disk while the file is still being written. Where memory takes all of a large file
# first, the disk stands still meanwhile, and the fsync at the end has everything left to do.
_BEHIND = 8 << 20

# Bytes of a file's name in its temporary one, which must not become longer than the 255 that a name may have.
_SHOWN = 100

# A temporary name of another host, whose processes cannot be asked after, counts as abandoned after a day.
LEASE_SECONDS = 24 * 3600.0


class Disk:
    """The system calls that decide what survives a crash, one method each."""

    def create(self, path: Path) -> int:
        """Create a file that must not exist yet; returns its descriptor. The mode is 0666 less the umask."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the data; returns how many bytes were taken, which may be fewer than given."""
        return os.write(descriptor, data)

    def write_behind(self, descriptor: int, begin: int, size: int) -> None:
        """Let the disk begin with a part of a file that was written; promises nothing, and never fails."""
        # Linux begins to write such a part at once; it drops only what the disk has already.
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                os.posix_fadvise(descriptor, begin, size, os.POSIX_FADV_DONTNEED)

    def sync(self, descriptor: int) -> None:
        """Force a file's data to the disk."""
        if not _forced_by_drive(descriptor):
            os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a file; some file systems report a failed write only here."""
        os.close(descriptor)

    def make_directory(self, path: Path) -> None:
        """Create a folder that must not exist yet."""
        os.mkdir(path)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or folder another name in the same file system, replacing a file of that name, at once."""
        os.rename(source, target)

    def sync_directory(self, path: Path) -> None:
        """Force the names in a folder to the disk."""
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove_file(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_tree(self, path: Path) -> None:
        """Remove a folder and everything in it; of a link to one, the link."""
        if path.is_symlink():  # whose it is, and who else has it, is not known
            self.remove_file(path)
        else:
            shutil.rmtree(path)


def _forced_by_drive(descriptor: int) -> bool:
    """Flush to the platter by the call of its own that macOS has, where fsync stops at the drive's cache."""
    try:
        import fcntl  # POSIX has it
    except ImportError:
        return False
    full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        fcntl.fcntl(descriptor, full_sync)
    return full_sync is not None


DISK = Disk()


def write_file(path: Path, chunks: Iterable[Bytes], disk: Disk = DISK) -> None:
    """Create a file from chunks of bytes and force its data, but not yet its name, to the disk.

    Args:
      path: must not exist yet.
      chunks: written one after the other; nothing is joined in memory.
      disk: whose system calls to use.

    Raises:
      OSError: any call failed; the file is then worth nothing and should be removed.
    """
    descriptor = disk.create(path)
    written = handed_over = 0
    try:
        for chunk in chunks:
            rest = memoryview(chunk).cast("B")
            while rest:
                taken = disk.write(descriptor, rest[:_BEHIND])
                rest = rest[taken:]
                written += taken
                if written - handed_over >= _BEHIND:
                    disk.write_behind(descriptor, handed_over, written - handed_over)
                    handed_over = written
        disk.sync(descriptor)
    except BaseException as error:
        with contextlib.suppress(OSError):
            disk.close(descriptor)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # the system names files where it opens them only
        raise
    disk.close(descriptor)


def replace_file(path: Path, chunks: Iterable[Bytes], disk: Disk = DISK) -> None:
    """Write a file so that its name stands for the old content or the new one, never for anything between.

    Args:
      path: the file; its folder must exist.
      chunks: the new content.
      disk: whose system calls to use.

    Raises:
      OSError: any call failed; the old content is untouched, or, where only the last call (fsync of the folder)
        failed, the new content is there but may be lost by a crash.
    """
    temporary = path.parent / _temporary_name(_STAGED, path.name)
    try:
        write_file(temporary, chunks, disk)
        disk.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove_file(temporary)
        raise
    disk.sync_directory(path.parent)


@contextlib.contextmanager
def staged_directory(path: Path, disk: Disk = DISK) -> Iterator[Path]:
    """Fill a folder under a temporary name; leaving the block without an error gives it its name, for good.

    Files inside must be written with `write_file`, which forces their data to the disk.

    Args:
      path: the folder's name to be; must not exist.
      disk: whose system calls to use.

    Yields:
      The temporary folder.

    Raises:
      FileExistsError: another process has taken the name meanwhile.
      OSError: any call failed; the temporary folder is removed as far as that is still possible.
    """
    temporary = path.parent / _temporary_name(_STAGED, path.name)
    try:
        disk.make_directory(temporary)
        yield temporary
        for folder in sorted((entry for entry in temporary.rglob("*") if entry.is_dir()), reverse=True):
            disk.sync_directory(folder)
        disk.sync_directory(temporary)
        _name(temporary, path, disk)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove_tree(temporary)
        raise
    disk.sync_directory(path.parent)


def _name(temporary: Path, path: Path, disk: Disk) -> None:
    try:
        disk.rename(temporary, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        raise


def make_directories(path: Path, disk: Disk = DISK) -> None:
    """Create a folder and those above it, as far as they are missing, so that their names last.

    Raises:
      OSError: any call failed.
    """
    if not path.is_dir():
        make_directories(path.parent, disk)
        try:
            disk.make_directory(path)
        except FileExistsError:
            return  # another process was quicker
        disk.sync_directory(path.parent)


def remove_directory(path: Path, disk: Disk = DISK) -> None:
    """Remove a folder so that nobody ever sees it half removed: it loses its name first.

    Args:
      path: the folder; one that is gone already, as another process was quicker, is left at that.
      disk: whose system calls to use.

    Raises:
      OSError: any call failed; what is left under a temporary name is removed by a later `sweep`.
    """
    doomed = path.parent / _temporary_name(_DOOMED, path.name)
    try:
        disk.rename(path, doomed)
    except FileNotFoundError:
        return
    disk.sync_directory(path.parent)
    disk.remove_tree(doomed)


def sweep(folder: Path, disk: Disk = DISK, now: float | None = None) -> list[Path]:
    """Remove what dead processes left behind under temporary names.

    Args:
      folder: where to look; not in the folders below it.
      disk: whose system calls to use.
      now: the time in seconds since 1970; the clock's by default.

    Returns:
      What was removed, sorted.
    """
    moment = time.time() if now is None else now
    removed = []
    for entry in sorted(folder.iterdir()):
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            if entry.name.startswith((_STAGED, _DOOMED)) and _is_abandoned(entry, moment):
                (disk.remove_tree if entry.is_dir() else disk.remove_file)(entry)
                removed.append(entry)
    return removed


def _temporary_name(prefix: str, name: str) -> str:
    """A fresh name that says whose it is: `.tmp-<name>~<host>~<process>~<random>`."""
    shown = os.fsdecode(os.fsencode(name)[:_SHOWN])
    return f"{prefix}{shown}~{socket.gethostname().replace('~', '-')}~{os.getpid()}~{uuid.uuid4().hex[:12]}"


def _is_abandoned(entry: Path, now: float) -> bool:
    _, host, process, _ = ("~~~" + entry.name).rsplit("~", 3)
    if host == socket.gethostname().replace("~", "-") and process.isdigit():
        return not _is_alive(int(process))
    return now - entry.lstat().st_mtime > LEASE_SECONDS


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
