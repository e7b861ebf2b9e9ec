"""Connections that several workers take from one socket."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from headrace_serving import acceptor
from headrace_serving.acceptor import Acceptor, Turns
from headrace_serving.listen import listen


class Greeter(asyncio.Protocol):
    """Says which worker it belongs to, and is counted while the connection lasts."""

    def __init__(self, name: bytes, held: set[Any]) -> None:
        self._name = name
        self._held = held

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._held.add(self)
        transport.write(self._name)

    def connection_lost(self, exc: Exception | None) -> None:
        self._held.discard(self)


def taking(listener: socket.socket, turns: Turns, name: bytes, trust: ssl.SSLContext | None = None) -> Acceptor:
    held: set[Any] = set()
    return Acceptor(listener, turns, lambda: Greeter(name, held), lambda: len(held), trust)


async def greeted(listener: socket.socket, times: int, trust: ssl.SSLContext | None = None) -> list[bytes]:
    """Connect some times, one after the other, and stay connected; who has answered each."""
    names, writers = [], []
    host, port = listener.getsockname()
    for _ in range(times):
        hostname = None if trust is None else "localhost"
        reader, writer = await asyncio.open_connection(host, port, ssl=trust, server_hostname=hostname)
        names.append(await asyncio.wait_for(reader.readexactly(1), 30))
        writers.append(writer)
    for writer in writers:
        writer.close()
        await writer.wait_closed()
    return names


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    Turns.create(tmp_path / "turns", 2)
    return tmp_path / "turns"


def run(scenario: Callable[[socket.socket], Any]) -> None:
    with listen("127.0.0.1", 0) as listener:
        asyncio.run(asyncio.wait_for(scenario(listener), 60))


def test_each_gets_as_many(file: Path) -> None:
    async def scenario(listener: socket.socket) -> None:
        with listener.dup() as other:  # as another process has it
            takers = taking(listener, Turns(file, 0), b"a"), taking(other, Turns(file, 1), b"b")
            for _ in range(2):  # those that have ended do not count
                assert sorted(await greeted(listener, 10)) == [b"a"] * 5 + [b"b"] * 5
            for taker in takers:
                taker.close()

    run(scenario)


def test_nobody_waits_long_for_one_that_does_not_come(file: Path) -> None:
    async def scenario(listener: socket.socket) -> None:
        Turns(file, 1).tell(0)
        taker = taking(listener, Turns(file, 0), b"a")
        assert await greeted(listener, 10) == [b"a"] * 10
        taker.close()

    run(scenario)


def test_one_that_ends_leaves_all_to_the_others(file: Path) -> None:
    async def scenario(listener: socket.socket) -> None:
        with listener.dup() as other:
            first, second = taking(listener, Turns(file, 0), b"a"), taking(other, Turns(file, 1), b"b")
            second.close()
            assert Turns(file, 0).is_mine
            assert await greeted(listener, 3) == [b"a"] * 3
            first.close()
            assert Turns(file, 0).is_mine  # nobody is there to wait for

    run(scenario)


def test_tls_and_clients_that_do_not_speak_it(file: Path) -> None:
    authority = trustme.CA()
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(ours)
    authority.configure_trust(theirs)

    async def scenario(listener: socket.socket) -> None:
        taker = taking(listener, Turns(file, 0), b"a", ours)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert b"a" not in await reader.read()
        writer.close()
        assert await greeted(listener, 2, theirs) == [b"a"] * 2
        taker.close()

    run(scenario)


def test_when_the_system_has_no_more_files_it_tries_again_later(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "_PAUSE_SECONDS", 0.05)

    class Full(socket.socket):
        failures = 2

        def accept(self) -> tuple[socket.socket, Any]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    async def scenario(listener: socket.socket) -> None:
        full = Full(fileno=listener.detach())
        taker = taking(full, Turns(file, 0), b"a")
        assert await greeted(full, 2) == [b"a"] * 2
        taker.close()
        full.close()

    run(scenario)
    assert caplog.messages == ["no connections for 0.05 seconds: [Errno 24] Too many open files"] * 2
