"""One event file: named so that no two writers share it, and always a row of whole records."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket

from headrace_viz.records import frame
from headrace_viz.storage import Folder

_PREFIX = "events.out.tfevents."
_counter = itertools.count()


class EventFile:
    """Mutable: a new event file, with the records that are still waiting to be written to it. Not thread-safe.

    The name holds the time, the host, the process and a counter, so that two writers never share a file. TensorBoard
    reads the files of a run in the order of their names, so the time in the name is later than that of every file that
    is there already, even if less than a second has passed since.

    Args:
      folder: of the run; made if it is missing.
      seconds: time since the epoch, for the name.
      suffix: end of the name.
      sync: whether each `write_pending` waits until the disk has the bytes.
    Raises:
      OSError: the folder or the file cannot be made.
    """

    def __init__(self, folder: Folder, seconds: float, suffix: str = "", *, sync: bool = False) -> None:
        host, process, number = socket.gethostname().replace("/", "_"), os.getpid(), next(_counter)
        stamp = max([int(seconds), *(_stamp(name) + 1 for name in folder.names() if "tfevents" in name)])
        name = f"{_PREFIX}{stamp:010d}.{host}.{process}.{number}{suffix}"
        self.path = folder.location(name)
        self._stream = folder.create(name, sync=sync)
        self._pending = bytearray()
        self._whole_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes that `write_pending` would write."""
        return len(self._pending)

    @property
    def size(self) -> int:
        """Bytes of the file once all is written."""
        return self._whole_bytes + len(self._pending)

    def append(self, event: bytes) -> None:
        """Add a record; it reaches the file with the next `write_pending`."""
        self._pending += frame(event)

    def drop_pending(self) -> int:
        """Give up the waiting records and return how many bytes they had."""
        dropped = len(self._pending)
        self._pending.clear()
        return dropped

    def write_pending(self) -> None:
        """Write all waiting records.

        Raises:
          OSError: the disk is full or gone. The file is cut back to its whole records and the waiting ones are kept, so
            a later call may succeed.
        """
        if not self._pending:
            return
        unwritten = memoryview(bytes(self._pending))
        try:
            while unwritten:
                written = self._stream.write(unwritten)
                if not written:
                    raise OSError(errno.EIO, "the device takes no more bytes", str(self.path))
                unwritten = unwritten[written:]
            self._stream.commit()
        except OSError:
            with contextlib.suppress(OSError):
                self._stream.truncate(self._whole_bytes)
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
            self._stream.close()


def _stamp(name: str) -> int:
    """Return the seconds in the name of an event file, or -1 where another program named it otherwise."""
    digits = name.removeprefix(_PREFIX).split(".", 1)[0]
    return int(digits) if digits.isascii() and digits.isdigit() else -1
