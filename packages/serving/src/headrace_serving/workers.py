"""Several worker processes behind one listening socket, kept by a parent that serves nothing itself.

Workers are started anew, not forked: threads of linear algebra and locks do not survive a fork. Each is this command
again, with the socket that the parent listens on; the kernel gives each connection to one of them.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from headrace_serving.acceptor import Turns

_log = logging.getLogger(__name__)

_VARIABLE = "HEADRACE_SERVING_WORKER"
_COMMAND = (sys.executable, "-c", "from headrace_serving.cli import serve; serve()")
_TURNS = "turns"
_POLL_SECONDS = 0.1
_SPARE_SECONDS = 10.0
_SHORTEST_LIFE = 2.0
"""A worker that ends sooner than this after its start is not started again at once."""


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """What a worker process has been given by its parent.

    Attributes:
      listener: the socket to take connections from.
      folder: where workers find each other.
      turns: whose turn it is to take a connection.
    """

    listener: socket.socket
    folder: Path
    turns: Turns


def worker_place() -> WorkerPlace | None:
    """Return what this process has been given if it is a worker, else None."""
    given = os.environ.pop(_VARIABLE, None)
    if given is None:
        return None
    number, folder, turn = json.loads(given)
    listener = socket.socket(fileno=number)
    # The protocol must be known for small answers to go at once; a socket by number has lost it in some systems.
    return WorkerPlace(listener, Path(folder), Turns(Path(folder, _TURNS), turn))


def supervise(
    arguments: Sequence[str],
    listener: socket.socket,
    workers: int,
    announce: Callable[[str], None],
    last_seconds: float,
) -> int:
    """Run workers until SIGTERM or SIGINT, and return the exit code: 0 if each has ended well.

    Args:
      arguments: options of `headrace serve`, for each worker.
      listener: what they take connections from.
      workers: how many.
      announce: is given what the first worker says once all are ready.
      last_seconds: how long a worker may take to end; one that takes much longer is killed.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-serving-") as folder, listener:
        return _Supervisor(arguments, listener, Path(folder), last_seconds + _SPARE_SECONDS).run(workers, announce)


class _Supervisor:
    def __init__(self, arguments: Sequence[str], listener: socket.socket, folder: Path, patience: float) -> None:
        self._arguments = list(arguments)
        self._listener = listener
        self._folder = folder
        self._patience = patience
        self._ending = False
        self._end_by = float("inf")
        self._children: dict[subprocess.Popen[str], tuple[float, int]] = {}  # when it began, and which turn it has

    def run(self, workers: int, announce: Callable[[str], None]) -> int:
        previous = {
            number: signal.signal(number, self._handle) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        try:
            Turns.create(self._folder / _TURNS, workers)
            for turn in range(workers):
                self._start(turn)
            said = [self._said(child) for child in list(self._children)]
            if not all(said):
                self._signal(signal.SIGKILL)
                return 0 if self._ending else 1
            announce(said[0])
            return self._watch()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _start(self, turn: int) -> None:
        number = self._listener.fileno()
        environment: Mapping[str, str] = os.environ | {_VARIABLE: json.dumps([number, str(self._folder), turn])}
        child = subprocess.Popen(
            [*_COMMAND, *self._arguments], env=environment, pass_fds=[number], stdout=subprocess.PIPE, text=True
        )
        self._children[child] = time.monotonic(), turn
        if self._ending:  # the signal came while the child was being made, and went to the others
            child.terminate()

    def _said(self, child: subprocess.Popen[str]) -> str:
        assert child.stdout is not None
        return child.stdout.readline()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._ending = True
            self._end_by = min(self._end_by, time.monotonic() + self._patience)
        self._signal(signal.Signals(number))

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.poll() is None:
                child.send_signal(number)

    def _watch(self) -> int:
        code = 0
        while self._children:
            time.sleep(_POLL_SECONDS)
            if time.monotonic() > self._end_by:
                _log.error("workers do not end, and are killed: %s", ", ".join(str(c.pid) for c in self._children))
                self._signal(signal.SIGKILL)
            for child, (started, turn) in list(self._children.items()):
                if child.poll() is None:
                    continue
                del self._children[child]
                Turns(self._folder / _TURNS, turn).leave()
                for socket_of_it in self._folder.glob(f"{child.pid}-*.socket"):
                    socket_of_it.unlink(missing_ok=True)
                if self._ending:
                    # One that was only just starting has taken no requests, and dies of the signal.
                    code = code or int(child.returncode not in (0, -signal.SIGTERM, -signal.SIGINT))
                    continue
                _log.error("worker %d has ended with %d; another takes its place", child.pid, child.returncode)
                if time.monotonic() - started < _SHORTEST_LIFE:
                    time.sleep(_SHORTEST_LIFE)
                self._start(turn)
        return code
