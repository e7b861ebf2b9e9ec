"""Load on one server: `load.py [--quick] [--json FILE]`.

Every number is from one run on one machine, clients and server sharing its cores, each beside something that does the
least or the usual for the same requests: a bare ASGI callable that copies or computes, a FastAPI application with a
validated body, and the model called directly.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from serving_process import (
    binary_body,
    closed_loop,
    export_convolutions,
    export_perceptron,
    open_loop,
    serving,
)

from headrace_checkpoint import load_model

PREDICT = "/v1/models/m:predict"
INFER = "/v2/models/m/infer"

_LISTEN = """
import json, socket, uvicorn
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # as asyncio wants it for no delay
listener.bind(("127.0.0.1", 0))
listener.listen()
print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")).run(sockets=[listener])
"""
BARE = """
import numpy as np, orjson
w = np.ones([4, 3], np.float32)
async def app(scope, receive, send):
    message = await receive()
    y = np.array(orjson.loads(message["body"])["instances"], np.float32) @ w
    body = orjson.dumps({"predictions": y}, option=orjson.OPT_SERIALIZE_NUMPY)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
"""
COPY = """
async def app(scope, receive, send):
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message["body"])
        more = message.get("more_body", False)
    body = b"".join(pieces)[:40000]
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
"""
VALIDATED = """
import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel
w = np.ones([224, 10], np.float32)
class Body(BaseModel):
    instances: list[list[float]]
app = FastAPI()
@app.post("/v1/models/m:predict")
def predict(body: Body):
    return {"predictions": (np.array(body.instances, np.float32) @ w).tolist()}
"""


def small(folder: Path, seconds: float) -> dict[str, object]:
    """Measure a small perceptron by JSON, beside a bare ASGI callable."""
    export_perceptron(folder / "small" / "1", [4, 3])
    body = b'{"instances": [[1.0, 2.0, 3.0, 4.0]]}'
    with serving("--model", f"m={folder / 'small'}") as (url, _):
        closed_loop(url, PREDICT, body, clients=16, seconds=seconds / 4)
        ours = closed_loop(url, PREDICT, body, clients=16, seconds=seconds)
        fixed = open_loop(url, PREDICT, body, rate=ours.per_second / 3, seconds=seconds)
    with serving(command=[sys.executable, "-c", BARE + _LISTEN]) as (url, _):
        bare = closed_loop(url, PREDICT, body, clients=16, seconds=seconds)
    return {"ours": asdict(ours), "open_loop": asdict(fixed), "bare": asdict(bare)}


def large(folder: Path, seconds: float) -> dict[str, object]:
    """Measure 1000 rows of 224 numbers by JSON and as raw bytes, beside FastAPI with a validated body and a copy."""
    export_perceptron(folder / "large" / "1", [224, 10])
    x = np.random.default_rng(1).normal(size=[1000, 224]).astype(np.float32)
    body = json.dumps({"instances": x.tolist()}).encode()
    raw, headers = binary_body(x)
    with serving("--model", f"m={folder / 'large'}") as (url, _):
        by_json = closed_loop(url, PREDICT, body, clients=4, seconds=seconds)
        by_bytes = closed_loop(url, INFER, raw, headers, clients=4, seconds=seconds)
    with serving(command=[sys.executable, "-c", VALIDATED + _LISTEN]) as (url, _):
        validated = closed_loop(url, PREDICT, body, clients=4, seconds=seconds)
    with serving(command=[sys.executable, "-c", COPY + _LISTEN]) as (url, _):
        copied = closed_loop(url, INFER, raw, headers, clients=4, seconds=seconds)
    return {
        "json": asdict(by_json),
        "bytes": asdict(by_bytes),
        "validated": asdict(validated),
        "copied": asdict(copied),
    }


def batching(folder: Path, seconds: float) -> dict[str, object]:
    """Measure a network of convolutions for 64 clients, with and without batching."""
    export_convolutions(folder / "conv" / "1")
    body, headers = binary_body(np.zeros([1, 28, 28, 1], np.float32))
    loads = {}
    for name, options in (("single", []), ("batched", ["--max-batch-size", "64", "--threads", "2"])):
        with serving("--model", f"m={folder / 'conv'}", *options) as (url, _):
            closed_loop(url, INFER, body, headers, clients=64, seconds=seconds / 4)
            loads[name] = asdict(closed_loop(url, INFER, body, headers, clients=64, seconds=seconds))
    return dict(loads)


def overhead(folder: Path, seconds: float) -> dict[str, object]:
    """Measure one client's latency beside that of the model itself."""
    x = np.ones([1, 4], np.float32)
    body, headers = binary_body(x)
    with serving("--model", f"m={folder / 'small'}") as (url, _):
        closed_loop(url, INFER, body, headers, clients=1, seconds=seconds / 4)
        served = closed_loop(url, INFER, body, headers, clients=1, seconds=seconds)
    with load_model(folder / "small" / "1") as model:
        signature = model.signatures["serving_default"]
        samples = []
        for _ in range(2000):
            start = time.perf_counter()
            signature(x=x)
            samples.append(time.perf_counter() - start)
    return {"served": asdict(served), "direct_p99": statistics.quantiles(samples, n=100)[98] * 1e3}


def main() -> None:
    """Measure all, and print or write it as JSON."""
    parser = argparse.ArgumentParser(description="Load on one model server")
    parser.add_argument("--quick", action="store_true", help="a second for each load instead of five")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    seconds = 1.0 if arguments.quick else 5.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = {
            "small": small(folder, seconds),
            "large": large(folder, seconds),
            "batching": batching(folder, seconds),
            "overhead": overhead(folder, seconds),
        }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
