"""How long a large graph takes to write, and TensorBoard to answer about it.

Run: `python large_graph.py [--operations N] [--json FILE]`; without TensorBoard only the writing is measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import headrace as hr
import headrace_viz

PER_SCOPE = 100


def large_graph(operations: int) -> hr.Graph:
    """Return a graph of so many operations in scopes of 100."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 8], name="x")
        for scope in range((operations - 1) // PER_SCOPE + 1):
            with hr.name_scope(f"layer{scope}"):
                for _ in range(min(PER_SCOPE, operations - 1 - scope * PER_SCOPE)):
                    x = hr.apply_op("Relu", x)
    return graph


def nodes_served(logdir: Path, timeout: float) -> tuple[int, float]:
    """Return how many nodes TensorBoard's answer about the graph has, and the seconds until it was there."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host", "127.0.0.1", "--port", "0"]
    start = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = next(found[0] for line in process.stderr if (found := re.search(r"http://127.0.0.1:\d+/", line)))
            query = "run=.&limit_attr_size=1024&large_attrs_key=_too_large_attrs"
            while time.perf_counter() - start < timeout:
                try:
                    with urllib.request.urlopen(f"{url}data/plugin/graphs/graph?{query}", timeout=timeout) as answer:
                        text = answer.read()
                    return text.count(b"node {"), time.perf_counter() - start
                except urllib.error.HTTPError:  # not loaded yet
                    time.sleep(0.1)
            return 0, time.perf_counter() - start
        finally:
            process.kill()


def main() -> None:
    """Measure, print, and write the numbers to a file if asked."""
    parser = argparse.ArgumentParser(description="A large graph, written and served")
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    graph = large_graph(arguments.operations)
    with tempfile.TemporaryDirectory() as name:
        logdir = Path(name)
        start = time.perf_counter()
        with headrace_viz.EventWriter(logdir) as writer:
            writer.graph(graph)
        seconds = time.perf_counter() - start
        result = {"operations": len(graph.operations), "write_seconds": seconds}
        if importlib.util.find_spec("tensorboard") is not None:
            result["nodes_served"], result["serve_seconds"] = nodes_served(logdir, timeout=120)
    print(", ".join(f"{name}: {value:.5g}" for name, value in result.items()))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
