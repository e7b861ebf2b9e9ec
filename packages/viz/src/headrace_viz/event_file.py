"""One event file on disk: named so that no two writers share it, and always a row of whole records."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
from collections.abc import Callable
from io import FileIO, RawIOBase
from pathlib import Path

from headrace_viz.records import frame

_PREFIX = "events.out.tfevents."
_counter = itertools.count()


def event_files(directory: Path) -> list[Path]:
    """Return the event files of one run, in the order in which TensorBoard reads them: by name."""
    return sorted(path for path in directory.iterdir() if "tfevents" in path.name) if directory.is_dir() else []


class EventFile:
    """Mutable: a new event file, with the records that are still waiting to be written to it. Not thread-safe.

    The name holds the time, the host, the process and a counter, so that two writers never share a file. TensorBoard
    reads the files of a run in the order of their names, so the time in the name is later than that of every file that
    is there already, even if less than a second has passed since.

    Args:
      directory: folder of the run; made if it is missing.
      seconds: time since the epoch, for the name.
      open_file: makes the file, which must not be there yet, for unbuffered writing.
    Raises:
      OSError: the folder or the file cannot be made.
    """

    def __init__(self, directory: Path, seconds: float, open_file: Callable[[Path], RawIOBase] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        host, process, number = socket.gethostname().replace("/", "_"), os.getpid(), next(_counter)
        stamp = max([int(seconds), *(_stamp(path) + 1 for path in event_files(directory))])
        self.path = directory / f"{_PREFIX}{stamp:010d}.{host}.{process}.{number}"
        self._file = (open_file or _open_new)(self.path)
        self._pending = bytearray()
        self._whole_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes that `write_pending` would write."""
        return len(self._pending)

    def append(self, event: bytes) -> None:
        """Add a record; it reaches the file with the next `write_pending`."""
        self._pending += frame(event)

    def write_pending(self) -> None:
        """Write all waiting records.

        Raises:
          OSError: the disk is full or gone. The file is cut back to its whole records and the waiting ones are kept, so
            a later call may succeed.
        """
        unwritten = memoryview(bytes(self._pending))
        try:
            while unwritten:
                written = self._file.write(unwritten)
                if not written:
                    raise OSError(errno.EIO, "the device takes no more bytes", str(self.path))
                unwritten = unwritten[written:]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._whole_bytes)
                self._file.seek(self._whole_bytes)
            raise
        self._whole_bytes += len(self._pending)
        self._pending.clear()

    def close(self) -> None:
        """Write all waiting records and close the file.

        Raises:
          OSError: as `write_pending`; the file is closed all the same.
        """
        try:
            self.write_pending()
        finally:
            self._file.close()


def _open_new(path: Path) -> FileIO:
    # Exclusive: appending to a file whose end may be torn would hide every later record from its readers.
    return FileIO(path, "x")


def _stamp(path: Path) -> int:
    """Return the seconds in the name of an event file, or -1 where another program named it otherwise."""
    digits = path.name.removeprefix(_PREFIX).split(".", 1)[0]
    return int(digits) if digits.isascii() and digits.isdigit() else -1
