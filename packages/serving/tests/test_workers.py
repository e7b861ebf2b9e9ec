"""Several processes behind one socket: their answers, sums and end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import headrace as hr
from headrace_checkpoint import save_model
from headrace_serving.siblings import Siblings

COMMAND = [sys.executable, "-c", "from headrace_serving.cli import serve; serve()"]
Served = tuple[subprocess.Popen[str], str]


def export(folder: Path, size: int | None = None) -> None:
    """Export y = x / 2: of a number, or as a product of rows of some size with a matrix."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None] if size is None else [None, size], name="x")
        half = hr.Variable(np.float32(0.5) if size is None else np.eye(size, dtype=np.float32) / 2)
        signature = hr.Signature(inputs={"x": x}, outputs={"y": x * half if size is None else x @ half})
    with hr.Session(graph) as session:
        save_model(folder, session, {"serving_default": signature})


@contextmanager
def serving(folder: Path, workers: int = 2) -> Iterator[Served]:
    """Serve the model `half` by several workers."""
    options = ["--model", f"half={folder}", "--workers", str(workers), "--port", "0", "--json", "--lame-duck", "0"]
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(name="served")
def _served(tmp_path: Path) -> Iterator[Served]:
    export(tmp_path / "half" / "1")
    with serving(tmp_path / "half") as found:
        yield found


def ask(url: str, verb: str, path: str, body: bytes = b"") -> tuple[int, str]:
    """Send a request on a connection of its own."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    try:
        connection.request(verb, path, body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_workers_answer_together(served: Served) -> None:
    process, url = served
    assert len(children(process.pid)) == 2
    for _ in range(20):
        assert ask(url, "POST", "/v1/models/half:predict", b'{"instances": [3]}') == (200, '{"predictions":[1.5]}')
    for _ in range(5):  # whichever of them is asked
        _, text = ask(url, "GET", "/monitoring/prometheus/metrics")
        assert ':tensorflow:serving:request_count{model_name="half",status="OK"} 20\n' in text
        assert (
            ':tensorflow:serving:request_latency_count{model_name="half",API="Predict",entrypoint="REST"} 20\n' in text
        )
        assert 'headrace_serving_versions{model_name="half",state="AVAILABLE"} 1\n' in text
        (entry,) = json.loads(ask(url, "GET", "/v2/models/stats")[1])["model_stats"]
        assert (entry["inference_count"], entry["inference_stats"]["success"]["count"]) == (20, 20)
    assert ask(url, "POST", "/v2/repository/models/half/unload")[0] == 200
    assert [ask(url, "POST", "/v1/models/half:predict", b"{}")[0] for _ in range(8)] == [404] * 8
    assert ask(url, "POST", "/v2/repository/models/half/load")[0] == 200
    assert [ask(url, "GET", "/v2/models/half/ready")[0] for _ in range(8)] == [200] * 8
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def proportional_bytes(process: int) -> int:
    """Return the memory of all workers; what several of them share counts once."""
    texts = [Path(f"/proc/{child}/smaps_rollup").read_text() for child in children(process)]
    return sum(int(found) * 1024 for text in texts for found in re.findall(r"^Pss: +(\d+) kB", text, re.MULTILINE))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_workers_share_the_memory_of_weights(tmp_path: Path) -> None:
    size, weights_bytes = 2048, 4 * 2048**2
    export(tmp_path / "half" / "1", size)
    with serving(tmp_path / "half", workers=3) as (process, url):
        loaded = proportional_bytes(process.pid)
        assert ask(url, "POST", "/v2/repository/models/half/unload")[0] == 200
        unloaded = proportional_bytes(process.pid)
        assert 0.5 * weights_bytes < loaded - unloaded < 1.5 * weights_bytes  # copies would take three times as much
        assert ask(url, "POST", "/v2/repository/models/half/load")[0] == 200
        assert proportional_bytes(process.pid) - unloaded < 1.5 * weights_bytes


def counted(url: str) -> tuple[int, int]:
    """Return how many requests the metrics and the statistics count."""
    text = ask(url, "GET", "/monitoring/prometheus/metrics")[1]
    found = re.search(r':request_count{model_name="half",status="OK"} (\d+)\n', text)
    assert found is not None
    (entry,) = json.loads(ask(url, "GET", "/v2/models/stats")[1])["model_stats"]
    return int(found[1]), entry["inference_stats"]["success"]["count"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_worker_that_dies_is_replaced(served: Served) -> None:
    process, url = served
    first = children(process.pid)
    for _ in range(20):  # some to each of them
        assert ask(url, "POST", "/v1/models/half:predict", b'{"instances": [3]}')[0] == 200
    assert counted(url) == (20, 20)
    os.kill(first[0], signal.SIGKILL)
    end = time.monotonic() + 60
    while (now := children(process.pid)) == first or len(now) < 2:
        assert ask(url, "GET", "/v2/health/live")[0] == 200
        assert counted(url) == (20, 20)
        assert time.monotonic() < end
    assert first[1] in now
    assert ask(url, "POST", "/v1/models/half:predict", b'{"instances": [3]}')[0] == 200
    assert counted(url) == (21, 21)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_one_that_stands_still_keeps_nobody_waiting(served: Served) -> None:
    process, url = served
    worker = children(process.pid)[0]
    os.kill(worker, signal.SIGSTOP)
    try:
        for _ in range(10):
            assert ask(url, "GET", "/v2/health/live")[0] == 200
    finally:
        os.kill(worker, signal.SIGCONT)


def test_workers_that_do_not_end_are_killed() -> None:
    script = """
import sys
from headrace_serving import workers
from headrace_serving.listen import listen
stuck = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
workers._COMMAND, workers._SPARE_SECONDS = (sys.executable, "-c", stuck), 0.2
sys.exit(workers.supervise([], listen("127.0.0.1", 0), 2, lambda said: print(said, flush=True), 0.1))
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(30) == 1
        assert "workers do not end, and are killed" in process.stderr.read()


def test_workers_that_cannot_start(tmp_path: Path) -> None:
    options = ["--model", f"half={tmp_path}", "--workers", "2", "--port", "0"]
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert re.search("no exported model to serve", done.stderr)


@pytest.mark.parametrize("depth", [0, 2])
def test_siblings_answer_each_other(tmp_path: Path, depth: int) -> None:
    """In a folder whose path is longer than a socket's address may be, too (107 bytes on Linux)."""
    tmp_path = tmp_path.joinpath(*["deep" * 25] * depth)
    tmp_path.mkdir(parents=True, exist_ok=True)
    first, second = Siblings(tmp_path), None
    first._path.rename(tmp_path / "1.socket")  # both are in this process

    def respond(what: str, about: str) -> Any:
        if what == "fail":
            raise ZeroDivisionError("oops")
        return [what, about]

    first.answer(respond)
    second = Siblings(tmp_path)
    assert second.ask("metrics", "m") == [["metrics", "m"]]
    assert second.ask("fail") == [None]
    (tmp_path / "gone.socket").touch()
    with socket.socket(socket.AF_UNIX) as stranger:  # whose words cannot be read
        stranger.connect(second._address("1.socket"))
        stranger.sendall(b"?")
    assert second.ask("metrics") == [["metrics", ""]]
    second.close()
    first.close()


def test_what_one_that_is_gone_has_counted_is_answered_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "7-7.kept").write_text('{"metrics": [1], "statistics": [2]}')
    (tmp_path / "8-8.kept").write_text("damaged")
    (tmp_path / "9-9.socket").touch()
    siblings = Siblings(tmp_path)
    assert [siblings.ask(what) for what in ("metrics", "statistics", "load")] == [[[1]], [[2]], []]
    siblings.answer(lambda what, about: None, lambda: {"metrics": [3]})
    siblings.close()
    another = Siblings(tmp_path)
    assert sorted(another.ask("metrics")) == [[1], [3]]
    another.close()
