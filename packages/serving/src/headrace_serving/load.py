"""Load on a server, and the latencies that it finds.

A closed loop of clients, each of which waits for its answer before it asks again, slows down with the server and so
hides how long others would have waited. An open loop asks at a fixed rate, whatever the answers do, and counts each
latency from when its request was due.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headrace.errors import DeadlineExceededError, UnavailableError

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_OPEN_CONNECTIONS = 64
_LARGEST_HEAD = 1 << 24
PATIENCE = 60.0
"""Seconds after the end of a load in which its last answers must come."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A request that is sent again and again.

    Attributes:
      path: of the URL.
      body: what is sent.
      headers: beside those that HTTP needs.
    """

    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def wire(self, host: str) -> bytes:
        """Return the request as HTTP has it."""
        lines = [f"POST {self.path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


@dataclass(frozen=True, slots=True)
class Load:
    """What a load found.

    Attributes:
      seconds: how long it lasted.
      latencies: of all answers, in seconds, ascending.
      failed: how many answers were not 200.
    """

    seconds: float
    latencies: tuple[float, ...]
    failed: int

    @property
    def per_second(self) -> float:
        """Answers in a second."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Return the latency, in milliseconds, that no more than a share of the answers is above of.

        Example:
          >>> Load(1.0, (0.001, 0.002, 0.003, 0.004), 0).quantile(0.5)
          2.0
        """
        if not self.latencies:
            return math.nan
        return self.latencies[max(0, math.ceil(share * len(self.latencies)) - 1)] * 1e3

    def summary(self) -> dict[str, float]:
        """Return the numbers that matter: rate, and latencies in milliseconds."""
        return {
            "per_second": self.per_second,
            "p50": self.quantile(0.5),
            "p99": self.quantile(0.99),
            "p999": self.quantile(0.999),
            "answers": len(self.latencies),
            "failed": self.failed,
        }


def closed_loop(
    url: str, request: LoadRequest, *, clients: int, seconds: float, trust: ssl.SSLContext | None = None
) -> Load:
    """Let each client send its next request when the last one is answered.

    Args:
      url: the server.
      request: what they send.
      clients: how many there are.
      seconds: for how long.
      trust: whom to believe, for HTTPS; by default those whom the system does.
    Raises:
      UnavailableError: the server cannot be reached, or goes away.
      DeadlineExceededError: it leaves requests without an answer.
    """
    return _run(_closed(_Target(url, request, trust), clients, seconds), seconds)


def open_loop(
    url: str, request: LoadRequest, *, rate: float, seconds: float, trust: ssl.SSLContext | None = None
) -> Load:
    """Send requests at a fixed rate; latencies count from when a request should have been sent.

    Args:
      url: the server.
      request: what is sent.
      rate: requests per second.
      seconds: for how long.
      trust: whom to believe, for HTTPS; by default those whom the system does.
    Raises:
      UnavailableError: the server cannot be reached, or goes away.
      DeadlineExceededError: it leaves requests without an answer.
    """
    return _run(_open(_Target(url, request, trust), rate, seconds), seconds)


def _run(coroutine: Coroutine[Any, Any, Load], seconds: float) -> Load:
    try:
        return asyncio.run(asyncio.wait_for(coroutine, seconds + PATIENCE))
    except TimeoutError as error:
        raise DeadlineExceededError(
            "the server does not answer any more",
            expected=f"all answers within {PATIENCE:g} seconds of the load's end",
            got="none of some",
            hint="send less at a time",
        ) from error
    except (OSError, asyncio.IncompleteReadError) as error:
        raise UnavailableError(
            "the server cannot be reached, or went away", got=str(error), hint="look whether it runs there"
        ) from error


class _Target:
    def __init__(self, url: str, request: LoadRequest, trust: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._trust = (trust or ssl.create_default_context()) if secure else None
        self._wire = request.wire(self._host)

    async def connect(self) -> _Connection:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=_LARGEST_HEAD, ssl=self._trust)
        return _Connection(reader, writer, self._wire)


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = wire

    async def ask(self) -> bool:
        """Send the request and read its answer; whether it is 200."""
        self._writer.write(self._wire)
        head = await self._reader.readuntil(b"\r\n\r\n")
        found = _LENGTH.search(head)
        await self._reader.readexactly(int(found[1]) if found is not None else 0)
        return head[9:12] == b"200"

    def close(self) -> None:
        self._writer.close()


def _load(latencies: Sequence[float], failed: int, seconds: float) -> Load:
    return Load(seconds, tuple(sorted(latencies)), failed)


async def _closed(target: _Target, clients: int, seconds: float) -> Load:
    async with _connections(target) as connect:
        return await _asked_in_turn([await connect() for _ in range(clients)], seconds)


@asynccontextmanager
async def _connections(target: _Target) -> AsyncIterator[Callable[[], Awaitable[_Connection]]]:
    """Give a function that makes connections, and close them all at the end."""
    made: list[_Connection] = []

    async def connect() -> _Connection:
        made.append(await target.connect())
        return made[-1]

    try:
        yield connect
    finally:
        for connection in made:
            connection.close()


async def _asked_in_turn(connections: Sequence[_Connection], seconds: float) -> Load:
    latencies: list[float] = []
    failed = 0
    start = time.perf_counter()
    end = start + seconds

    async def loop(connection: _Connection) -> None:
        nonlocal failed
        while (before := time.perf_counter()) < end:
            good = await connection.ask()
            failed += not good
            latencies.append(time.perf_counter() - before)

    await asyncio.gather(*(loop(connection) for connection in connections))
    return _load(latencies, failed, time.perf_counter() - start)


async def _open(target: _Target, rate: float, seconds: float) -> Load:
    async with _connections(target) as connect:
        return await _asked_when_due(connect, rate, seconds)


async def _asked_when_due(connect: Callable[[], Awaitable[_Connection]], rate: float, seconds: float) -> Load:
    idle = [await connect() for _ in range(min(_OPEN_CONNECTIONS, math.ceil(rate)))]
    latencies: list[float] = []
    failed = 0
    start = time.perf_counter()

    async def one(due: float) -> None:
        nonlocal failed
        connection = idle.pop() if idle else await connect()
        good = await connection.ask()
        failed += not good
        latencies.append(time.perf_counter() - due)
        idle.append(connection)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * seconds)):
            due = start + number / rate
            wait = due - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.create_task(one(due))
    return _load(latencies, failed, time.perf_counter() - start)
