"""Bodies that are received in given memory: by both event loops, with and without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvicorn

from headrace_serving import protocol
from headrace_serving.listen import listen
from headrace_serving.protocol import PLACE, HttpProtocol

LARGE = 700_001
pause = threading.Event()


class Digest:
    """Answers the digest of each body, and how it came; after some seconds without all of it, that it is late."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.patience = 30.0
        self.repeat = 1

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            async with asyncio.timeout(self.patience):
                text = await self.read(scope, receive)
        except TimeoutError:
            text = "late"
        except ConnectionResetError:
            self.gone.set()
            return
        text *= self.repeat
        length = (b"content-length", str(len(text)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": text.encode()})

    async def read(self, scope: Any, receive: Any) -> str:
        place = scope.get("extensions", {}).get(PLACE)
        stated = int(dict(scope["headers"]).get(b"content-length", b"0"))
        if scope["path"] == "/late":
            await asyncio.sleep(0)
        memory = memoryview(bytearray(stated))
        if place is not None and await place(memory):
            return f"placed {hashlib.sha256(memory).hexdigest()}"
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        return f"received {hashlib.sha256(body).hexdigest()}"


@pytest.fixture(name="app")
def _app() -> Digest:
    return Digest()


@pytest.fixture(name="connect", params=["uvloop", "asyncio", "uvloop with TLS", "asyncio with TLS"])
def _connect(request: pytest.FixtureRequest, app: Digest, tmp_path: Path) -> Iterator[Any]:
    loop, _, secure = request.param.partition(" with ")
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    options: dict[str, Any] = {"loop": loop}
    trusting = None
    if secure:
        authority = trustme.CA()
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
        options |= {"ssl_certfile": tmp_path / "both.pem"}
    config = uvicorn.Config(app, log_level="error", lifespan="off", http=HttpProtocol, **options)
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listener, contextlib.ExitStack() as connections:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()

        def connect(buffer_bytes: int | None = None) -> socket.socket:
            made = connections.enter_context(socket.socket())
            made.settimeout(30)
            if buffer_bytes is not None:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            made.connect(listener.getsockname())
            if trusting is None:
                return made
            return connections.enter_context(trusting.wrap_socket(made, server_hostname="localhost"))

        try:
            yield connect
        finally:
            connections.close()
            server.should_exit = True
            thread.join()


def head(length: int, *more: str, path: str = "/") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def answers(connection: socket.socket, count: int) -> list[str]:
    """Read some answers."""
    with connection.makefile("rb") as file:
        found = []
        for _ in range(count):
            assert file.readline().split()[1] == b"200"
            length = 0
            while (line := file.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            found.append(file.read(length).decode())
        return found


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def body_of(number: int, size: int = LARGE) -> bytes:
    return bytes([number]) * size


def test_bodies_one_after_another_on_one_connection(connect: Any) -> None:
    connection = connect()
    for number, size in enumerate((LARGE, 3, LARGE, 1 << 16, (1 << 16) - 1, 0)):
        body = body_of(number, size)
        connection.sendall(head(size) + body)
        how = "placed" if size >= 1 << 16 else "received"
        assert answers(connection, 1) == [f"{how} {digest(body)}"]


def test_requests_that_do_not_wait_for_answers(connect: Any) -> None:
    connection = connect()
    bodies = [body_of(1), body_of(2, 5), body_of(3), body_of(4)]
    for body in bodies:
        connection.sendall(head(len(body)) + body)
    assert [answer.split()[1] for answer in answers(connection, 4)] == [digest(body) for body in bodies]


def test_a_body_that_comes_in_small_pieces(connect: Any) -> None:
    connection = connect()
    body = bytes(range(256)) * 300
    connection.sendall(head(len(body)) + body[:10])
    for start in range(10, len(body), 7000):
        connection.sendall(body[start : start + 7000])
    assert answers(connection, 1)[0].split()[1] == digest(body)


def test_who_asks_whether_to_go_on_is_told_so(connect: Any) -> None:
    connection = connect()
    connection.sendall(head(LARGE, "Expect: 100-continue"))
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(body_of(1))
    assert answers(connection, 1) == [f"received {digest(body_of(1))}"]


def test_a_body_in_chunks_has_no_known_place(connect: Any) -> None:
    connection = connect()
    request = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(request + b"%x\r\n%s\r\n0\r\n\r\n" % (LARGE, body_of(1)))
    assert answers(connection, 1) == [f"received {digest(body_of(1))}"]


def test_a_client_that_goes_away(connect: Any, app: Digest) -> None:
    connection = connect()
    connection.sendall(head(LARGE) + b"beginning")
    connection.close()
    assert app.gone.wait(30)
    assert answers_of_another(connect) == f"placed {digest(body_of(2))}"


def answers_of_another(connect: Any) -> str:
    other = connect()
    other.sendall(head(LARGE) + body_of(2))
    return answers(other, 1)[0]


def test_a_body_that_takes_too_long_is_forgotten_and_the_connection_goes_on(connect: Any, app: Digest) -> None:
    app.patience = 0.1
    connection = connect()
    connection.sendall(head(LARGE) + body_of(1)[:100_000])
    assert answers(connection, 1) == ["late"]
    app.patience = 30.0
    connection.sendall(body_of(1)[100_000:] + head(LARGE) + body_of(2))
    assert answers(connection, 1) == [f"placed {digest(body_of(2))}"]


@pytest.mark.parametrize("connect", ["uvloop", "asyncio"], indirect=True)  # with TLS they end such clients themselves
def test_a_client_that_reads_nothing_is_cut_off_but_not_one_that_reads_slowly(
    connect: Any, app: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "READING_SECONDS", 0.2)
    app.repeat = 1 << 18
    slow, idle = connect(1 << 16), connect(1 << 16)
    for connection in (slow, idle):
        connection.sendall(head(0))
    found = 0
    while found < 1 << 20 and (piece := slow.recv(1 << 14)):
        found += len(piece)
        pause.wait(0.02)
    while found < app.repeat * 70 and (piece := slow.recv(1 << 20)):
        found += len(piece)
    assert found > app.repeat * 70
    received = 0
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := idle.recv(1 << 20):
            received += len(piece)
    assert received < app.repeat * 70


class Written:
    """A transport that remembers what it is given, as pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([b"head ", b"body"], [b"head body"]),
        ([b"head ", b""], [b"head "]),
        ([b"head ", b"one", b"two"], [b"head one", b"two"]),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", b"head ", b"body"], [b"HTTP/1.1 100 Continue\r\n\r\n", b"head body"]),
        ([b"head ", b"b" * LARGE], [b"head ", b"b" * LARGE]),
        ([b"head "], [b"head "]),
    ],
)
def test_the_head_of_an_answer_goes_with_its_body(given: list[bytes], sent: list[bytes]) -> None:
    """Two packets and calls of the system for each small answer took a fifth of the time of its request."""
    written = Written()
    transport = protocol._Together(written)  # type: ignore[arg-type]  # as much of one as it needs
    for piece in given:
        transport.write(piece)
    assert not transport.is_closing()
    transport.close()
    assert written.pieces == sent
    assert transport.is_closing()
