"""How the worker processes of one server know of each other: each answers the others on a socket in a shared folder.

What is asked of one of them and concerns all, such as metrics or the loading of a model, it asks the others too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

_ANSWER_SECONDS = 60.0
"""Long enough for a model that is loaded."""
_SUFFIX = ".socket"


class Siblings:
    """The other workers of a server. Thread-safe.

    Args:
      folder: where all of them have their sockets.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened = os.open(folder, os.O_RDONLY)
        self._path = folder / f"{os.getpid()}{_SUFFIX}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._address(self._path.name))
        self._listener.listen()

    def _address(self, name: str) -> str:
        """Return how a socket of the folder is reached: its address holds about 100 bytes."""
        short = Path(f"/proc/self/fd/{self._opened}")
        return str((short if short.is_dir() else self._folder) / name)

    def answer(self, respond: Callable[[str, str], object]) -> None:
        """Answer the others from now on, on a thread.

        Args:
          respond: takes what is asked and about which model, and returns something that JSON can hold.
        """
        threading.Thread(target=self._serve, args=(respond,), name="headrace-serving-siblings", daemon=True).start()

    def _serve(self, respond: Callable[[str, str], object]) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with connection, contextlib.suppress(OSError, ValueError):
                connection.settimeout(_ANSWER_SECONDS)
                what, about = json.loads(_received(connection))
                try:
                    answer = respond(what, about)
                except Exception as error:
                    _log.warning("'%s' asked by another worker failed: %s", what, error)
                    answer = None
                connection.sendall(json.dumps(answer).encode())

    def ask(self, what: str, about: str = "") -> list[Any]:
        """Return the answers of all others that are there; None of one that failed."""
        answers = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            if path != self._path:
                with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(_ANSWER_SECONDS)
                    connection.connect(self._address(path.name))
                    connection.sendall(json.dumps([what, about]).encode())
                    connection.shutdown(socket.SHUT_WR)
                    answers.append(json.loads(_received(connection)))
        return answers

    def close(self) -> None:
        """Be no longer there."""
        self._path.unlink(missing_ok=True)
        self._listener.close()
        os.close(self._opened)


def _received(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)
