"""A server process to measure, and clients that load it: shared by the scripts beside this module."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import headrace as hr
from headrace_checkpoint import save_model

COMMAND = [sys.executable, "-c", "from headrace_serving.cli import serve; serve()"]
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_PAGE = 4096


@contextmanager
def serving(*options: str, command: Sequence[str] = COMMAND) -> Iterator[tuple[str, int]]:
    """Start a server on a free port; its URL and process. It must print a line of JSON with `url`."""
    arguments = [*command, *options]
    if command is COMMAND:
        arguments += ["--port", "0", "--json", "--lame-duck", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process.pid
        finally:
            process.kill()


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE


def export_perceptron(folder: Path, widths: Sequence[int], scale: float = 1.0) -> None:
    """Export y = scale * relu(...relu(x w1)...wn), with float32 rows of `widths[0]` numbers."""
    numbers = np.random.default_rng(0)
    with hr.Graph().as_default() as graph:
        x = y = hr.placeholder(hr.float32, [None, widths[0]], name="x")
        for fan_in, fan_out in pairwise(widths):
            weights = numbers.normal(0, fan_in**-0.5, [fan_in, fan_out]).astype(np.float32)
            y = hr.nn.relu(y @ hr.Variable(weights))
        y = y * np.float32(scale)
    with hr.Session(graph) as session:
        save_model(folder, session, {"serving_default": hr.Signature(inputs={"x": x}, outputs={"y": y})})


def export_convolutions(folder: Path) -> None:
    """Export a small network of two convolutions over images [28, 28, 1]."""
    numbers = np.random.default_rng(0)

    def weights(*shape: int) -> hr.Variable:
        return hr.Variable(numbers.normal(0, 0.1, shape).astype(np.float32))

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 28, 28, 1], name="x")
        y = hr.nn.relu(hr.nn.conv2d(x, weights(3, 3, 1, 8), strides=2, padding="SAME"))
        y = hr.nn.relu(hr.nn.conv2d(y, weights(3, 3, 8, 16), strides=2, padding="SAME"))
        y = hr.reshape(y, [-1, 7 * 7 * 16]) @ weights(7 * 7 * 16, 10)
    with hr.Session(graph) as session:
        save_model(folder, session, {"serving_default": hr.Signature(inputs={"x": x}, outputs={"y": y})})


def binary_body(x: np.ndarray) -> tuple[bytes, dict[str, str]]:
    """Return an infer request with a raw tensor both ways, and its headers."""
    entry = {
        "name": "x",
        "shape": list(x.shape),
        "datatype": "FP32",
        "parameters": {"binary_data_size": x.nbytes},
    }
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    return head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


@dataclass(frozen=True)
class Load:
    """What a load found.

    Attributes:
      per_second: answers per second.
      p50: median latency, in milliseconds.
      p99: the latency that one in a hundred exceeds, in milliseconds.
      p999: the latency that one in a thousand exceeds, in milliseconds.
      failed: how many answers were not 200.
    """

    per_second: float
    p50: float
    p99: float
    p999: float
    failed: int


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: bytes) -> bool:
        """Send a request and read its answer; whether it is 200."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        found = _LENGTH.search(head)
        assert found is not None
        await self._reader.readexactly(int(found[1]))
        return head[9:12] == b"200"

    def close(self) -> None:
        self._writer.close()


async def _connect(url: str) -> _Connection:
    address = urlsplit(url)
    return _Connection(*await asyncio.open_connection(address.hostname, address.port, limit=1 << 24))


def _request(path: str, body: bytes, headers: dict[str, str]) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _load(latencies: Sequence[float], failed: int, seconds: float) -> Load:
    cuts = statistics.quantiles(latencies, n=1000) if len(latencies) > 1 else [0.0] * 999
    return Load(len(latencies) / seconds, cuts[499] * 1e3, cuts[989] * 1e3, cuts[998] * 1e3, failed)


def closed_loop(
    url: str, path: str, body: bytes, headers: dict[str, str] | None = None, *, clients: int, seconds: float
) -> Load:
    """Let each client send its next request when the last one is answered."""
    return asyncio.run(_closed(url, _request(path, body, headers or {}), clients, seconds))


async def _closed(url: str, request: bytes, clients: int, seconds: float) -> Load:
    connections = [await _connect(url) for _ in range(clients)]
    latencies: list[float] = []
    failed = 0
    start = time.perf_counter()
    end = start + seconds

    async def loop(connection: _Connection) -> None:
        nonlocal failed
        while (before := time.perf_counter()) < end:
            good = await connection.ask(request)
            failed += not good
            latencies.append(time.perf_counter() - before)

    await asyncio.gather(*(loop(connection) for connection in connections))
    for connection in connections:
        connection.close()
    return _load(latencies, failed, time.perf_counter() - start)


def open_loop(
    url: str, path: str, body: bytes, headers: dict[str, str] | None = None, *, rate: float, seconds: float
) -> Load:
    """Send requests at a fixed rate; latencies count from when a request should have been sent."""
    return asyncio.run(_open(url, _request(path, body, headers or {}), rate, seconds))


async def _open(url: str, request: bytes, rate: float, seconds: float) -> Load:
    idle = [await _connect(url) for _ in range(64)]
    latencies: list[float] = []
    failed = 0
    start = time.perf_counter()

    async def one(due: float) -> None:
        nonlocal failed
        connection = idle.pop() if idle else await _connect(url)
        good = await connection.ask(request)
        failed += not good
        latencies.append(time.perf_counter() - due)
        idle.append(connection)

    tasks: set[asyncio.Task[None]] = set()
    for number in range(int(rate * seconds)):
        due = start + number / rate
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for connection in idle:
        connection.close()
    return _load(latencies, failed, time.perf_counter() - start)
