"""Bodies that are meant to do harm: each gets its code, and soon, and the next request gets its answer."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import headrace as hr
from headrace_checkpoint import save_model

COMMAND = [sys.executable, "-c", "from headrace_serving.cli import serve; serve()"]
LIMIT = 4 << 20
SECONDS = 10
"""How long any single answer may take; the slowest needs a fraction of one."""


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int, int]]:
    """Serve y = x / 2 of rows of two numbers; host, port and process."""
    folder = tmp_path_factory.mktemp("models") / "half" / "1"
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        signature = hr.Signature(inputs={"x": x}, outputs={"y": x * 0.5})
    with hr.Session(graph) as session:
        save_model(folder, session, {"serving_default": signature})
    options = ["--model", f"half={folder.parent}", "--port", "0", "--json", "--request-timeout", "0.5"]
    command = [*COMMAND, *options, "--max-request-bytes", str(LIMIT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = urlsplit(json.loads(process.stdout.readline())["url"])
            assert address.hostname is not None
            yield address.hostname, address.port or 0, process.pid
        finally:
            process.kill()


Server = tuple[str, int, int]


def send(server: Server, path: str, body: bytes, *headers: str) -> tuple[int, str]:
    """Send a request in one piece; status and body of the answer."""
    head = [f"POST {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *headers]
    with socket.create_connection(server[:2], timeout=SECONDS) as connection:
        with contextlib.suppress(OSError):  # it may answer, and close, before it has read everything
            connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        return receive(connection)


def receive(connection: socket.socket) -> tuple[int, str]:
    """Return status and body of the answer."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body).get("error", "")


def good(server: Server) -> None:
    """Check that the server still answers."""
    assert send(server, PREDICT, b'{"instances": [[1, 2]]}')[0] == 200


def resident_megabytes(server: Server) -> float:
    """Return the largest memory that the process has had."""
    status = Path(f"/proc/{server[2]}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def bomb(megabytes: int) -> bytes:
    """Return a zlib stream that inflates to so many megabytes of zeros; one flushed block is repeated."""
    deflater = zlib.compressobj(9)
    block = bytes(1 << 20)
    first = deflater.compress(block) + deflater.flush(zlib.Z_FULL_FLUSH)
    again = deflater.compress(block) + deflater.flush(zlib.Z_FULL_FLUSH)
    return first + again * (megabytes - 1)


PREDICT = "/v1/models/half:predict"
INFER = "/v2/models/half/infer"


def described(**changes: object) -> dict[str, object]:
    whole = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]} | changes
    return {key: value for key, value in whole.items() if value is not None}


def infer(**changes: object) -> bytes:
    return json.dumps({"inputs": [described(**changes)]}).encode()


@pytest.mark.parametrize("path", [PREDICT, INFER])
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"instances":['])
def test_depth_of_100_000(server: Server, path: str, opening: bytes) -> None:
    for tail in (b"", b"1" + {b"[": b"]", b'{"a":': b"}"}.get(opening, b"]}") * 100_000):
        assert send(server, path, opening * 100_000 + tail)[0] == 400
    good(server)


def test_depth_that_parsers_take(server: Server) -> None:
    for depth in (33, 500, 990, 1020):
        lists = b"[" * depth + b"]" * depth
        assert send(server, PREDICT, b'{"instances": ' + lists + b"}")[0] == 400
        assert send(server, PREDICT, b'{"inputs": {"x": ' + lists + b"}}")[0] == 400
        assert send(server, PREDICT, b'{"signature_name": ' + lists + b', "inputs": 1}')[0] == 400
        assert send(server, INFER, b'{"inputs": ' + lists + b"}")[0] == 400
        assert send(server, INFER, b'{"id": ' + lists + b', "inputs": []}')[0] == 400
    good(server)


def test_a_gigabyte_of_zeros(server: Server) -> None:
    before = resident_megabytes(server)
    body = bomb(1024)
    assert len(body) < LIMIT
    for path in (PREDICT, INFER):
        code, error = send(server, path, body, "Content-Encoding: deflate")
        assert (code, error.split("\n")[0]) == (413, "the request is too large")
    assert resident_megabytes(server) - before < 100
    good(server)


@pytest.mark.parametrize(
    "shape",
    [
        [-1, 2],
        [10**18, 2],
        [2**63, 2],
        [2**32, 2**32],
        [4611686018427387904, 8],
        [10**400, 2],
        [0, 2**62],
        [1] * 5000,
        "[1, 2]",
        [[1, 2]],
        [None],
        [1.0, 2.0],
        {},
    ],
)
def test_S07_shapes(server: Server, shape: object) -> None:
    for body in (infer(shape=shape, data=[]), infer(shape=shape, data=None, parameters={"binary_data_size": 0})):
        assert send(server, INFER, body)[0] == 400
        assert send(server, INFER, body, f"Inference-Header-Content-Length: {len(body)}")[0] == 400
    good(server)


@pytest.mark.parametrize("raw", [b"", b"\0" * 7, b"\0" * 9, b"\0" * 1000])
@pytest.mark.parametrize("size", [8, 0, 7, 2**70, -8])
def test_short_and_long_binary_parts(server: Server, raw: bytes, size: int) -> None:
    head = infer(data=None, parameters={"binary_data_size": size})
    assert send(server, INFER, head + raw, f"Inference-Header-Content-Length: {len(head)}")[0] == 400
    good(server)


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "+8", "99999999999999999999", "1000000", "3", "0"])
def test_a_header_length_that_is_wrong(server: Server, length: str) -> None:
    head = infer(data=None, parameters={"binary_data_size": 8})
    body = head + struct.pack("<2f", 1, 2)
    assert send(server, INFER, body, f"Inference-Header-Content-Length: {length}")[0] == 400
    assert send(server, INFER, body, f"Inference-Header-Content-Length: {len(head)}")[0] == 200


@pytest.mark.parametrize(
    "values",
    [
        '[["1.5", 2]]',
        "[[true, 2]]",
        "[[null, 2]]",
        "[[1, 2], [3]]",
        "[[1, 2], 3]",
        "[[1, [2]]]",
        '[[{"b64": "AAAA"}, 2]]',
        "[[1e400, 2]]",
        "[[" + "9" * 10_000 + ", 2]]",
        '[["\\ud800", 2]]',
        "[[1, 2,]]",
        "[[1 2]]",
        "[[0x10, 2]]",
        "[]",
        "{}",
        '""',
    ],
)
def test_values_of_the_wrong_kind(server: Server, values: str) -> None:
    for body in (f'{{"instances": {values}}}', f'{{"inputs": {values}}}', f'{{"inputs": {{"x": {values}}}}}'):
        assert send(server, PREDICT, body.encode())[0] == 400
    body = infer().replace(b"[1, 2]}", values.encode() + b"}")
    assert send(server, INFER, body)[0] == 400
    good(server)


def test_nan_and_duplicate_keys_are_taken(server: Server) -> None:
    for text in ('{"instances": [[NaN, -Infinity]]}', '{"instances": [["x"]], "instances": [[1, 2]]}'):
        assert send(server, PREDICT, text.encode())[0] == 200


@pytest.mark.parametrize("body", [b"\xff\xfe", b"\0" * 1000, "{}".encode("utf-16"), b"\x80" * 1000, b"{" * 10])
def test_bytes_that_are_no_json(server: Server, body: bytes) -> None:
    for path in (PREDICT, INFER, "/v1/models/half:classify"):
        assert send(server, path, body)[0] == 400
    assert send(server, "/v2/repository/index", body)[0] == 400
    good(server)


def test_random_bytes_in_every_place_get_4xx(server: Server) -> None:
    random = np.random.default_rng(3)
    whole = infer(data=None, parameters={"binary_data_size": 8}) + struct.pack("<2f", 1, 2)
    for _ in range(60):
        body = bytearray(whole)
        for place in random.integers(len(body), size=random.integers(1, 4)):
            body[place] = random.integers(256)
        code, _ = send(server, INFER, bytes(body), f"Inference-Header-Content-Length: {len(whole) - 8}")
        assert code in (200, 400)
    good(server)


def test_slow_senders_get_504_and_delay_nobody(server: Server) -> None:
    connections = [socket.create_connection(server[:2], timeout=SECONDS) for _ in range(50)]
    for connection in connections:
        connection.sendall(f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
    good(server)
    for connection in connections:
        with connection:
            connection.settimeout(SECONDS)
            assert connection.recv(65536).split()[1] == b"504"
    good(server)


def test_a_body_beyond_the_limit(server: Server) -> None:
    assert send(server, PREDICT, b" " * (LIMIT + 1))[0] == 413
    good(server)
