"""A server process to measure, and clients that load it: shared by the scripts beside this module."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

import headrace as hr
from headrace_checkpoint import save_model
from headrace_serving.load import LoadRequest, closed_loop

COMMAND = [sys.executable, "-c", "from headrace_serving.cli import serve; serve()"]
_SCRIPT = """
local file = io.open("{body}", "rb")
wrk.method, wrk.body = "POST", file:read("*all")
file:close()
{headers}
"""
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


@contextmanager
def serving(*options: str, command: Sequence[str] = COMMAND) -> Iterator[tuple[str, int]]:
    """Start a server on a free port; its URL and process. It must print a line of JSON with `url`."""
    arguments = [*command, *options]
    if command is COMMAND:
        arguments += ["--port", "0", "--json", "--lame-duck", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # some servers have processes of their own


def proportional_bytes(process: int) -> int:
    """Return the memory of a process and its children; what several share counts once (PSS)."""
    own = Path(f"/proc/{process}/smaps_rollup").read_text()
    found = re.search(r"^Pss: +(\d+) kB", own, re.MULTILINE)
    assert found is not None
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(found[1]) * 1024 + sum(proportional_bytes(int(child)) for child in children)


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


@dataclass(frozen=True, slots=True)
class DigitsNetwork:
    """A network for handwritten digits, over images [28, 28, 1]: two convolutions, some units, then 10.

    Attributes:
      window: width and height of the filters.
      padding: of the convolutions.
      pooled: after which convolutions there is pooling by 2 x 2.
      units: how many there are.
    """

    window: int
    padding: str
    pooled: tuple[bool, bool]
    units: int


EARLY_NETWORK = DigitsNetwork(5, "SAME", (True, True), 1024)
"""That of TensorFlow's tutorial of the time of its paper. A call of one image mostly waits for the 13 MB of weights of
its units, and a call of many images reads them as often."""
LATER_NETWORK = DigitsNetwork(3, "VALID", (False, True), 128)
"""That of later tutorials. It hardly waits for weights: nine tenths of its 24 million operations are one convolution's,
for which a row costs little less in a call of many."""


def export_digits_network(folder: Path, network: DigitsNetwork) -> None:
    """Export a network for handwritten digits."""
    numbers = np.random.default_rng(0)

    def weights(*shape: int) -> hr.Variable:
        scale = int(np.prod(shape[:-1])) ** -0.5
        return hr.Variable(numbers.normal(0, scale, shape).astype(np.float32))

    with hr.Graph().as_default() as graph:
        x = y = hr.placeholder(hr.float32, [None, 28, 28, 1], name="x")
        for (fan_in, fan_out), pooled in zip(pairwise([1, 32, 64]), network.pooled, strict=True):
            filters = weights(network.window, network.window, fan_in, fan_out)
            y = hr.nn.relu(hr.nn.conv2d(y, filters, strides=1, padding=network.padding))
            y = hr.nn.max_pool2d(y, 2, 2, "SAME") if pooled else y
        features = math.prod(size for size in y.shape.dims or () if size is not None)
        y = hr.nn.relu(hr.reshape(y, [-1, features]) @ weights(features, network.units)) @ weights(network.units, 10)
    with hr.Session(graph) as session:
        save_model(folder, session, {"serving_default": hr.Signature(inputs={"x": x}, outputs={"y": y})})


def binary_request(path: str, x: np.ndarray) -> LoadRequest:
    """Return an infer request with a raw tensor both ways."""
    entry = {
        "name": "x",
        "shape": list(x.shape),
        "datatype": "FP32",
        "parameters": {"binary_data_size": x.nbytes},
    }
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    return LoadRequest(path, head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))})


def many_clients(url: str, request: LoadRequest, *, clients: int, seconds: float) -> dict[str, float]:
    """Put a closed loop on a server, by wrk if it is installed: a client in Python is as busy as the server.

    Returns:
      answers per second, latencies in milliseconds, how many answers were not 200, and whether wrk was there.
    """
    wrk = shutil.which("wrk")
    if wrk is None:
        return closed_loop(url, request, clients=clients, seconds=seconds).summary() | {"wrk": 0.0}
    with tempfile.TemporaryDirectory() as name:
        body, script = Path(name, "body"), Path(name, "script.lua")
        body.write_bytes(request.body)
        headers = "\n".join(f"wrk.headers['{key}'] = '{value}'" for key, value in request.headers.items())
        script.write_text(_SCRIPT.format(body=body, headers=headers))
        command = [
            wrk,
            "-t1",
            f"-c{clients}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            "60s",
            "--latency",
            "-s",
            str(script),
        ]
        said = subprocess.run([*command, url + request.path], capture_output=True, text=True, check=True).stdout
    shares = {
        share: float(number) * _UNITS[unit]
        for share, number, unit in re.findall(r"^ +(50|99)% +([0-9.]+)(us|ms|s|m)$", said, re.MULTILINE)
    }
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    rate = re.search(r"Requests/sec: +([0-9.]+)", said)
    assert rate is not None, said
    return {
        "per_second": float(rate[1]),
        "p50": shares.get("50", math.nan),
        "p99": shares.get("99", math.nan),
        "failed": float(failed[1]) if failed is not None else 0.0,
        "wrk": 1.0,
    }
