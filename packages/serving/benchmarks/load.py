"""Load on one server: `load.py [--quick] [--peer NAME=PYTHON]... [--json FILE]`.

Every number is from one run on one machine, clients and server sharing its cores, each beside something that does the
least or the usual for the same requests: a bare ASGI callable, a FastAPI application with a validated body, other
servers in environments of their own, and the model called directly.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from serving_process import (
    EARLY_NETWORK,
    LATER_NETWORK,
    DigitsNetwork,
    binary_request,
    export_digits_network,
    export_perceptron,
    many_clients,
    serving,
)

from headrace_checkpoint import load_model
from headrace_serving.load import LoadRequest, open_loop

PREDICT = "/v1/models/m:predict"
INFER = "/v2/models/m/infer"
PEERS = Path(__file__).parent / "peers"
PEER_WORKERS = 2
"""How many processes MLServer is by default: one that receives, and one that computes."""
BATCH_ROWS, BATCHING_ROUNDS = 16, 3

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
import numpy as np
async def app(scope, receive, send):
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message["body"])
        more = message.get("more_body", False)
    body = b"".join(pieces)
    x = np.frombuffer(body[-896000:], np.float32).reshape(1000, 224)
    answer = x[:, :10].tobytes()
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
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
    return {"predictions": np.maximum(np.array(body.instances, np.float32) @ w, 0).tolist()}
"""


def small(folder: Path, seconds: float) -> dict[str, object]:
    """Measure a small perceptron by JSON, beside a bare ASGI callable."""
    export_perceptron(folder / "small" / "1", [4, 3])
    request = LoadRequest(PREDICT, b'{"instances": [[1.0, 2.0, 3.0, 4.0]]}')
    with serving("--model", f"m={folder / 'small'}") as (url, _):
        many_clients(url, request, clients=16, seconds=seconds / 4)
        ours = many_clients(url, request, clients=16, seconds=seconds)
        fixed = open_loop(url, request, rate=min(2000.0, ours["per_second"] / 3), seconds=seconds).summary()
    with serving(command=[sys.executable, "-c", BARE + _LISTEN]) as (url, _):
        bare = many_clients(url, request, clients=16, seconds=seconds)
    return {"ours": ours, "open_loop": fixed, "bare": bare}


def large(folder: Path, seconds: float, peers: dict[str, Path]) -> dict[str, object]:
    """Measure 1000 rows of 224 numbers by JSON and as raw bytes, beside other servers and the least one can do."""
    export_perceptron(folder / "large" / "1", [224, 10])
    x = np.random.default_rng(1).normal(size=[1000, 224]).astype(np.float32)
    by_rows = LoadRequest(PREDICT, json.dumps({"instances": x.tolist()}).encode(), {"Content-Type": "application/json"})
    by_bytes = binary_request(INFER, x)
    entry = {"name": "x", "shape": [1000, 224], "datatype": "FP32", "data": x.ravel().tolist()}
    open_json = json.dumps({"inputs": [entry]}).encode()
    with serving("--model", f"m={folder / 'large'}") as (url, _):
        result: dict[str, object] = {
            "json": many_clients(url, by_rows, clients=4, seconds=seconds),
            "bytes": many_clients(url, by_bytes, clients=4, seconds=seconds),
        }
    with serving("--model", f"m={folder / 'large'}", "--workers", str(PEER_WORKERS)) as (url, _):
        many_clients(url, by_rows, clients=4, seconds=seconds / 4)
        result["json_by_workers"] = many_clients(url, by_rows, clients=4, seconds=seconds)
    with serving(command=[sys.executable, "-c", VALIDATED + _LISTEN]) as (url, _):
        result["fastapi"] = many_clients(url, by_rows, clients=4, seconds=seconds)
    with serving(command=[sys.executable, "-c", COPY + _LISTEN]) as (url, _):
        result["copied"] = many_clients(url, by_bytes, clients=4, seconds=seconds)
    by_open_json = LoadRequest(INFER, open_json, {"Content-Type": "application/json"})
    ways = {
        "litserve": [("litserve", [], LoadRequest("/predict", by_rows.body, by_rows.headers))],
        "mlserver": [
            ("mlserver", ["0"], by_open_json),
            ("mlserver_by_workers", [str(PEER_WORKERS - 1)], by_open_json),
        ],
    }
    for peer, python in peers.items():
        for name, options, request in ways[peer]:
            with serving(command=[str(python), str(PEERS / f"{peer}_peer.py"), *options]) as (url, _):
                answering(url, request)
                result[name] = many_clients(url, request, clients=4, seconds=seconds)
    return result


def answering(url: str, request: LoadRequest, patience: float = 60.0) -> None:
    """Wait until a server answers a request with 200."""
    address = urlsplit(url)
    end = time.monotonic() + patience
    while True:
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=patience)
        try:
            connection.request("POST", request.path, request.body, dict(request.headers))
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        if time.monotonic() > end:
            raise TimeoutError(f"{url} does not answer")
        time.sleep(0.2)


def batching(folder: Path, network: DigitsNetwork, seconds: float) -> dict[str, object]:
    """Measure a network for 64 clients, with and without batching, beside what a row costs in the model alone.

    Batches hold a quarter of the clients, so that two are computed while the others' answers and requests are on their
    way. Both ways take turns, and the median of each counts: what else a machine does changes a rate by a tenth.
    """
    export_digits_network(folder / "1", network)
    request = binary_request(INFER, np.zeros([1, 28, 28, 1], np.float32))
    runs: dict[str, list[dict[str, float]]] = {"single": [], "batched": []}
    batches = ["--max-batch-size", str(BATCH_ROWS), "--threads", "2"]
    for _ in range(BATCHING_ROUNDS):
        for name, options in (("single", []), ("batched", batches)):
            with serving("--model", f"m={folder}", *options) as (url, _):
                many_clients(url, request, clients=64, seconds=seconds / 4)
                runs[name].append(many_clients(url, request, clients=64, seconds=seconds))
    loads: dict[str, object] = {
        name: sorted(found, key=lambda run: run["per_second"])[BATCHING_ROUNDS // 2] for name, found in runs.items()
    }
    with load_model(folder / "1") as model:
        signature = model.signatures["serving_default"]
        for name, rows in (("row_alone", 1), ("row_of_batch", BATCH_ROWS)):
            x = np.zeros([rows, 28, 28, 1], np.float32)
            samples = []
            for _ in range(30):
                start = time.process_time()  # of all threads
                signature(x=x)
                samples.append((time.process_time() - start) / rows)
            loads[name] = min(samples) * 1e3
    return loads


def overhead(folder: Path, seconds: float) -> dict[str, object]:
    """Measure one client's latency beside that of the model itself."""
    x = np.ones([1, 4], np.float32)
    request = binary_request(INFER, x)
    with serving("--model", f"m={folder / 'small'}") as (url, _):
        many_clients(url, request, clients=1, seconds=seconds / 4)
        served = many_clients(url, request, clients=1, seconds=seconds)
    with load_model(folder / "small" / "1") as model:
        signature = model.signatures["serving_default"]
        samples = []
        for _ in range(2000):
            start = time.perf_counter()
            signature(x=x)
            samples.append(time.perf_counter() - start)
    return {"served": served, "direct_p99": statistics.quantiles(samples, n=100)[98] * 1e3}


def main() -> None:
    """Measure all, and print or write it as JSON."""
    parser = argparse.ArgumentParser(description="Load on one model server")
    parser.add_argument("--quick", action="store_true", help="two seconds for each load instead of six")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help="litserve or mlserver")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    seconds = 2.0 if arguments.quick else 6.0
    peers = {name: Path(python) for name, _, python in (peer.partition("=") for peer in arguments.peer)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = {
            "small": small(folder, seconds),
            "large": large(folder, seconds, peers),
            "batching": batching(folder / "early", EARLY_NETWORK, seconds),
            "batching_later": batching(folder / "later", LATER_NETWORK, seconds),
            "overhead": overhead(folder, seconds),
        }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
