"""One framework in its own process: reads requests as JSON lines, answers with times, values and memory.

`{"prepare": "mlp", "threads": 2, "precision": "float32", "deterministic": false}` builds a workload and answers with
the values of its first three steps; `{"run": 20}` answers with the seconds of so many steps, each waited for;
`{"values": 200}` with the values of so many. Run as `python -m bench.worker PEER`.
"""

from __future__ import annotations

import gc
import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.works import WARM, WORKS, Options, Work

Step = Callable[[], Any]
SAMPLE = 1000
"""Elements of an array whose mean magnitude stands for it when frameworks are compared."""


def main(peer: str) -> None:
    """Serve requests until the input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a framework prints is no answer
    name, _, variant = peer.partition("-")
    build = importlib.import_module(f"bench.peers.{name}_peer").build
    work, step = WORKS["small"], None
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            work = WORKS[request["prepare"]]
            options = Options(request["threads"], variant, request["precision"], request["deterministic"])
            step, reply = _prepared(build, work, options)
        else:
            assert step is not None
            if "values" in request:
                reply = {"values": [number(step()) for _ in range(request["values"])]}
            else:
                reply = {"seconds": [_timed(step, work.repeat) for _ in range(request["run"])]}
        print(json.dumps(reply), file=answers, flush=True)


def _prepared(build: Callable[..., Step], work: Work, options: Options) -> tuple[Step, dict[str, Any]]:
    warm = WARM if work.kind != "infer" else WORKS["small"]
    number(build(warm, *warm.make(), options)())
    gc.collect()
    weights, data = work.make()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _memory("VmRSS")
    begin = time.perf_counter()
    step = build(work, weights, data, options)
    values = [number(step()) for _ in range(3)]
    first = time.perf_counter() - begin
    reply: dict[str, Any] = {"values": values, "first": first, "memory": _memory("VmHWM") - before}
    if hasattr(step, "arena_bytes"):
        reply["arena"] = step.arena_bytes()
    return step, reply


def _memory(field: str) -> int:
    """Bytes that the kernel says in /proc/self/status."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def number(value: Any) -> float:
    """One number that stands for a value."""
    array = np.asarray(value, np.float64).reshape(-1) if np.size(value) == 1 else np.asarray(value)
    return float(array[0]) if array.size == 1 else float(np.abs(array.reshape(-1)[:SAMPLE].astype(np.float64)).mean())


def _timed(step: Step, repeat: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeat):
        step()
    return (time.perf_counter() - begin) / repeat


if __name__ == "__main__":
    main(sys.argv[1])
