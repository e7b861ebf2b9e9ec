"""Takes the connections of a socket that several workers listen on, so that each has about as many.

The system wakes all of them for each connection, and whoever comes first has it: of four clients that stayed connected
to two workers, one worker had all as often as two. So one that has more than another leaves it alone for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

__all__ = ["Acceptor", "Turns"]

_log = logging.getLogger(__name__)

_ITEM_BYTES = 8
_NOBODY = 2**62
"""What stands for a worker that takes none: one that starts, ends, or is gone."""
_LEAVE_SECONDS = 0.02
_AT_ONCE = 4
_PAUSE_SECONDS = 1.0


class Turns:
    """How many connections each worker has, in memory that all of them share. Mutable; one process writes each number.

    Args:
      file: holds the numbers; from `create`.
      place: this worker's among them.

    Example:
      >>> import tempfile; file = Path(tempfile.mkdtemp(), "connections")
      >>> Turns.create(file, 2)
      >>> first, second = Turns(file, 0), Turns(file, 1)
      >>> first.tell(1); second.tell(0)
      >>> first.is_mine, second.is_mine
      (False, True)
    """

    def __init__(self, file: Path, place: int) -> None:
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), 0)
        self._counts = memoryview(self._memory).cast("q")
        self._place = place

    @staticmethod
    def create(file: Path, workers: int) -> None:
        """Make a file for the numbers of some workers, none of which takes connections yet."""
        file.write_bytes(bytes(_ITEM_BYTES * workers))
        for place in range(workers):
            Turns(file, place).leave()

    def tell(self, connections: int) -> None:
        """Let the others know how many connections this worker has."""
        self._counts[self._place] = connections

    def leave(self) -> None:
        """Let the others not wait for this worker."""
        self.tell(_NOBODY)

    @property
    def is_mine(self) -> bool:
        """Whether no other has fewer connections."""
        return self._counts[self._place] <= min(self._counts)


class Acceptor:
    """Takes connections in an event loop. Mutable.

    Args:
      listener: the socket, listening.
      turns: who has how many.
      protocol: makes what answers a connection.
      connections: how many connections this process has.
      trust: for TLS; None for none.
    """

    def __init__(
        self,
        listener: socket.socket,
        turns: Turns,
        protocol: Callable[[], asyncio.Protocol],
        connections: Callable[[], int],
        trust: ssl.SSLContext | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._turns = turns
        self._protocol = protocol
        self._connections = connections
        self._trust = trust
        self._beginning: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._tell()
        self._listen()

    def close(self) -> None:
        """Take no more."""
        self._turns.leave()
        self._pause()

    def _listen(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listener.fileno(), self._come)

    def _pause(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listener.fileno())

    def _tell(self) -> None:
        self._turns.tell(self._connections() + len(self._beginning))

    def _come(self) -> None:
        """Take a connection that has come, if it is this worker's turn."""
        self._tell()
        if self._turns.is_mine:
            self._take(1)
        else:
            self._pause()
            self._timer = self._loop.call_later(_LEAVE_SECONDS, self._come_late)

    def _come_late(self) -> None:
        """Take what the others have left: they have too much to do."""
        self._listen()
        self._take(_AT_ONCE)

    def _take(self, most: int) -> None:
        for _ in range(most):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # another has it, or it is gone
                return
            except OSError as error:  # too many open files: what waits is kept for later
                _log.error("no connections for %g seconds: %s", _PAUSE_SECONDS, error)
                self._pause()
                self._timer = self._loop.call_later(_PAUSE_SECONDS, self._listen)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._begin(connection))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)
        self._tell()

    async def _begin(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is gone already, or has not agreed on keys
            await self._loop.connect_accepted_socket(self._protocol, connection, ssl=self._trust)
            return
        connection.close()
