"""A served process: where it listens, and how it ends."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
import uvicorn

from headrace_serving import ModelRepository, ModelServer, create_app, protocol
from headrace_serving.listen import listen, url_of
from headrace_serving.protocol import HttpProtocol

SERVE_A_MODEL_THAT_WAITS = """
import sys
from types import SimpleNamespace
import numpy as np
from headrace.types import Shape, float32
from headrace_serving import ModelRepository, ModelServer, ModelVersion, create_app
from headrace_serving.listen import listen, run, url_of

class WaitForPipe:
    inputs = outputs = {"x": SimpleNamespace(dtype=float32, shape=Shape(), name="x:0")}
    def __call__(self, x):
        print("predicting", flush=True)
        with open(sys.argv[1]) as pipe:
            return {"x": x + np.float32(pipe.read())}

model = SimpleNamespace(signatures={"serving_default": WaitForPipe()})
app = create_app(ModelServer(ModelRepository([ModelVersion("wait", 1, model)])))
listener = listen("127.0.0.1", 0)
run(app, listener, lambda: print(url_of(listener), flush=True))
print("ended", flush=True)
"""


@pytest.fixture(name="pipe")
def _pipe(tmp_path: Path) -> Path:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    return pipe


@pytest.fixture(name="process")
def _process(pipe: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SERVE_A_MODEL_THAT_WAITS, str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _predict(url: str) -> tuple[int, bytes]:
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    try:
        connection.request("POST", "/v1/models/wait:predict", b'{"inputs": 1}')
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_that_were_taken_are_answered_before_the_end(
    process: subprocess.Popen[str], pipe: Path, number: signal.Signals
) -> None:
    url = _line(process)
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(_predict, url)
        assert _line(process) == "predicting"
        process.send_signal(number)
        pipe.write_text("41")
        assert answer.result(30) == (200, b'{"outputs":42.0}')
    assert _line(process) == "ended"
    assert process.wait(30) == 0


def test_a_server_without_requests_ends_at_once(process: subprocess.Popen[str]) -> None:
    _line(process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_the_address_is_taken() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {port}: "):
            listen("127.0.0.1", port)


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_ipv6() -> None:
    try:
        listener = listen("::1", 0)
    except OSError:
        pytest.skip("the loopback interface has no IPv6 address")
    with listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_a_model_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    script = SERVE_A_MODEL_THAT_WAITS.replace(
        "url_of(listener), flush=True))",
        "url_of(listener), flush=True), grace=1)\nfrom headrace_serving.cli import _end\n_end(app.state.executor)",
    )
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", script, str(pipe)], stdout=subprocess.PIPE, text=True) as process:
        url = _line(process)
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(_predict, url)
            assert _line(process) == "predicting"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert answer.result(30)[0] == 500


def test_small_answers_are_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # what asyncio looks at before it turns waiting off


def _run_in_thread(listener: socket.socket, **options: Any) -> tuple[threading.Thread, Callable[[], None]]:
    """Serve nothing but health; the thread, and what ends it."""
    app = create_app(ModelServer(ModelRepository([])))
    config = uvicorn.Config(app, log_level="error", lifespan="off", http=HttpProtocol, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join()

    return thread, end


def test_clients_that_do_not_say_what_they_want_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.2)
    health = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n"
    with listen("127.0.0.1", 0) as listener:
        _, end = _run_in_thread(listener)
        try:
            for beginning in (b"", b"GET /v2/health/live HTTP/1.1\r\nHo", health + b"\r\n" + health):
                with socket.create_connection(listener.getsockname(), timeout=30) as connection:
                    connection.sendall(beginning)
                    received = b""
                    while piece := connection.recv(1 << 16):
                        received += piece
                    assert received.count(b"200 OK") == beginning.count(b"\r\n\r\n")
        finally:
            end()


def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(files[0])
    certificate.private_key_pem.write_to_path(files[1])
    script = """
import sys
from pathlib import Path
from headrace_serving import ModelRepository, ModelServer, create_app
from headrace_serving.listen import listen, run, url_of
listener = listen("127.0.0.1", 0)
files = Path(sys.argv[1]), Path(sys.argv[2])
app = create_app(ModelServer(ModelRepository([])))
run(app, listener, lambda: print(url_of(listener, "https"), flush=True), certificate=files)
"""
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    command = [sys.executable, "-c", script, *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = urlsplit(_line(process))
        assert address.scheme == "https"
        for context in (trusting, ssl.create_default_context()):
            connection = http.client.HTTPSConnection("localhost", address.port, timeout=30, context=context)
            try:
                connection.request("GET", "/v2/health/live")
                assert connection.getresponse().status == 200
                assert context is trusting
            except ssl.SSLCertVerificationError:
                assert context is not trusting
            finally:
                connection.close()
        process.terminate()
        assert process.wait(30) == 0


SERVE_WITHOUT_POSIX = """
import signal, sys
sys.modules.update(dict.fromkeys(["fcntl", "termios", "resource", "uvloop"]))  # as on Windows
del signal.SIGHUP
from headrace_serving import ModelRepository, ModelServer, create_app
from headrace_serving.listen import listen, run, url_of

listener = listen("127.0.0.1", 0)
run(create_app(ModelServer(ModelRepository([]))), listener, lambda: print(url_of(listener), flush=True))
"""


def test_requests_for_websockets_are_answered_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(uvicorn.config.WS_PROTOCOLS, "auto", "asyncio:Protocol")  # as if one were installed
    listener = listen("127.0.0.1", 0)
    thread, stop = _run_in_thread(listener)
    with socket.create_connection(listener.getsockname()[:2], timeout=30) as connection:
        connection.sendall(
            b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
    stop()
    thread.join(30)


def test_a_request_about_the_whole_server_gets_an_error_as_others_do() -> None:
    listener = listen("127.0.0.1", 0)
    thread, stop = _run_in_thread(listener)
    with socket.create_connection(listener.getsockname()[:2], timeout=30) as connection:
        connection.sendall(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
        head, body = connection.recv(1000).split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
        assert body == b'{"error":"Not Found: *"}'
    stop()
    thread.join(30)


def test_it_serves_where_there_are_no_parts_of_posix() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVE_WITHOUT_POSIX], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = urlsplit(_line(process))
            connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
            connection.request("GET", "/v2/health/live")
            assert connection.getresponse().status == 200
            connection.close()
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
