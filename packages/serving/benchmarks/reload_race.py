"""Clients that ask while versions come and go: `reload_race.py [--seconds N] [--cycles N] [--json FILE]`.

Version n answers n times its input, so an answer tells which version gave it, and none may be older than one that the
same client got before. Then a model is loaded and unloaded many times, and the memory of all processes (PSS) is
compared; and that of several workers with a large model is compared with the model's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from serving_process import export_perceptron, proportional_bytes, serving

from headrace.errors import HeadraceError
from headrace_serving import Client

CLIENTS = 8
PAUSE = 0.5
"""Seconds between two versions."""


def ask(url: str, done: threading.Event) -> tuple[list[float], int, int]:
    """Ask until told; latencies in seconds, answers that were none, and answers of an older version than before."""
    x = np.ones([1, 4], np.float32)
    latencies: list[float] = []
    failed = backward = 0
    newest = 0.0
    with Client(url) as client:
        while not done.is_set():
            start = time.perf_counter()
            try:
                answer = float(client.predict("m", {"x": x})["y"][0, 0])
            except HeadraceError as error:
                print(error)
                failed += 1
                continue
            latencies.append(time.perf_counter() - start)
            backward += answer < newest
            newest = max(newest, answer)
    return latencies, failed, backward


def asked(url: str, seconds: float, writer: threading.Thread | None) -> tuple[list[float], int, int]:
    """Let all clients ask for some seconds, while a writer works."""
    done = threading.Event()
    with ThreadPoolExecutor(CLIENTS) as threads:
        futures = [threads.submit(ask, url, done) for _ in range(CLIENTS)]
        if writer is not None:
            writer.start()
            writer.join()
        else:
            time.sleep(seconds)
        done.set()
        results = [future.result() for future in futures]
    return (
        [latency for latencies, _, _ in results for latency in latencies],
        sum(failed for _, failed, _ in results),
        sum(backward for _, _, backward in results),
    )


def race(folder: Path, seconds: float) -> dict[str, float]:
    """Measure answers before and while a writer adds and removes versions.

    They are exported before, and come by a rename: a writer that exported them here would take the interpreter from the
    clients that measure.
    """
    versions, staged = folder / "race", folder / "staged"
    export_perceptron(versions / "1", [4, 3])
    last = 2 + int(seconds / PAUSE)
    for version in range(2, last + 1):
        export_perceptron(staged / str(version), [4, 3], scale=version)
    written = 1

    def write() -> None:
        nonlocal written
        while written < last:
            written += 1
            (staged / str(written)).rename(versions / str(written))
            time.sleep(PAUSE)
            if written > 3:
                shutil.rmtree(versions / str(written - 3))

    with serving("--model", f"m={versions}", "--poll", "0.1") as (url, _):
        before, failed_before, _ = asked(url, max(1.0, seconds / 6), None)
        during, failed, backward = asked(url, seconds, threading.Thread(target=write))
    return {
        "requests": len(before) + len(during),
        "failed": failed_before + failed,
        "backward": backward,
        "versions": written,
        "p99_before": statistics.quantiles(before, n=100)[98] * 1e3,
        "p99_during": statistics.quantiles(during, n=100)[98] * 1e3,
    }


def leak(folder: Path, cycles: int, *options: str) -> dict[str, float]:
    """Measure the memory of the server's processes over many times of loading and unloading."""
    model = folder / f"leak{len(options)}"
    export_perceptron(model / "1", [512, 512, 10])
    with serving("--model", f"m={model}", "--poll", "0", *options) as (url, process), Client(url) as client:
        sizes = []
        for _ in range(cycles):
            client.unload("m")
            client.load("m")
            client.predict("m", {"x": np.ones([1, 512], np.float32)})
            sizes.append(proportional_bytes(process))
    settled = sizes[len(sizes) // 2]
    return {"cycles": cycles, "settled_bytes": settled, "grown_bytes": sizes[-1] - settled}


def shared(folder: Path, workers: int = 4) -> dict[str, float]:
    """Measure by how much the memory of some workers grows with a model of 200 MB that they load."""
    export_perceptron(folder / "shared" / "1", [4096, 4096, 4096, 4096])
    weights = 3 * 4 * 4096**2
    options = ["--model", f"m={folder / 'shared'}", "--poll", "0", "--workers", str(workers)]
    with serving(*options) as (url, process), Client(url) as client:
        loaded = proportional_bytes(process)
        client.unload("m")
        return {"workers": workers, "bytes": weights, "grown_bytes": loaded - proportional_bytes(process)}


def main() -> None:
    """Measure all, and print or write it as JSON."""
    parser = argparse.ArgumentParser(description="Reloading under load, and memory over reloads")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = {
            "race": race(Path(name), arguments.seconds),
            "leak": leak(Path(name), arguments.cycles),
            "shared": shared(Path(name)),
            "leak_workers": leak(Path(name), arguments.cycles, "--workers", "2"),
        }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
