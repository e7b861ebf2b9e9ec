"""How the worker processes of one server know of each other: each answers the others on a socket in a shared folder.

What is asked of one of them and concerns all, such as metrics or the loading of a model, it asks the others too. What
they have counted stays in files of that folder, for sums that never fall: not even when one of them is killed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

_ANSWER_SECONDS = 60.0
"""Long enough for a model that is loaded."""
_KEEP_SECONDS = 1.0
_SOCKET, _KEPT = ".socket", ".kept"


class Siblings:
    """The other workers of a server. Thread-safe.

    Args:
      folder: where all of them have their sockets.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened = os.open(folder, os.O_RDONLY)
        self._path = folder / f"{os.getpid()}-{time.time_ns()}{_SOCKET}"  # process numbers come again
        self._counts: Callable[[], Mapping[str, object]] = dict
        self._closed = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._address(self._path.name))
        self._listener.listen()

    def _address(self, name: str) -> str:
        """Return how a socket of the folder is reached: its address holds about 100 bytes."""
        short = Path(f"/proc/self/fd/{self._opened}")
        return str((short if short.is_dir() else self._folder) / name)

    def answer(self, respond: Callable[[str, str], object], counts: Callable[[], Mapping[str, object]] = dict) -> None:
        """Answer the others from now on, on a thread.

        Args:
          respond: takes what is asked and about which model, and returns something that JSON can hold.
          counts: returns answers that are to be given in the place of this process when it is gone, by what is asked.
        """
        self._counts = counts
        for work in (functools.partial(self._serve, respond), self._keep_now_and_then):
            threading.Thread(target=work, name="headrace-serving-siblings", daemon=True).start()

    def keep(self) -> None:
        """Write down what has been counted, before anybody is told of it."""
        file = self._path.with_suffix(_KEPT)
        draft = file.with_suffix(f".{threading.get_ident()}")
        draft.write_text(json.dumps(self._counts()))
        draft.replace(file)

    def _keep_now_and_then(self) -> None:
        while not self._closed.wait(_KEEP_SECONDS):
            with contextlib.suppress(OSError):  # the folder goes when the server ends
                self.keep()

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
        """Return the answers of all others, or what those that are gone have left; None of one that failed."""
        names = {path.stem for suffix in (_SOCKET, _KEPT) for path in self._folder.glob(f"*{suffix}")}
        answers = []
        for name in sorted(names - {self._path.stem}):
            try:
                answers.append(self._ask_one(name, what, about))
            except (OSError, ValueError):
                with contextlib.suppress(OSError, ValueError):
                    kept = json.loads((self._folder / f"{name}{_KEPT}").read_text())
                    answers += [kept[what]] if what in kept else []
        return answers

    def _ask_one(self, name: str, what: str, about: str) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(self._address(f"{name}{_SOCKET}"))
            connection.sendall(json.dumps([what, about]).encode())
            connection.shutdown(socket.SHUT_WR)
            return json.loads(_received(connection))

    def close(self) -> None:
        """Be no longer there."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self.keep()
        self._path.unlink(missing_ok=True)
        self._listener.close()
        os.close(self._opened)


def _received(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)
