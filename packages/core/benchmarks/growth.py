"""Whether many steps of one training graph add operations or memory: `growth.py [--steps N] [--json FILE]`.

Resident memory is read after a warm-up and again at the end; a step that kept one more Python object each time would
show as megabytes.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path

import numpy as np

import headrace as hr

PAGE = 4096


def resident_bytes() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def main() -> None:
    """Step a small classifier by both `make_callable` and `Session.run`, and print what grew."""
    parser = argparse.ArgumentParser(description="Growth of a graph and of memory over many steps")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 20], name="x")
        y = hr.placeholder(hr.int32, [None], name="y")
        w = hr.Variable(hr.random.normal([20, 5], seed=1), name="w")
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=x @ w))
        train = hr.optim.Momentum(0.01, momentum=0.9).minimize(loss)
    numbers = np.random.default_rng(0)
    images, labels = numbers.normal(size=(32, 20)).astype(np.float32), numbers.integers(0, 5, 32, np.int32)
    with hr.Session(graph) as session:
        step = session.make_callable([loss, train], feeds=[x, y])
        for _ in range(arguments.steps // 10):
            step(images, labels)
            session.run([loss, train], feeds={x: images, y: labels})
        gc.collect()
        operations, memory = len(graph.operations), resident_bytes()
        for _ in range(arguments.steps // 2):
            step(images, labels)
            session.run([loss, train], feeds={x: images, y: labels})
        gc.collect()
        grown = {
            "steps": arguments.steps,
            "operations_added": len(graph.operations) - operations,
            "resident_bytes_added": resident_bytes() - memory,
        }
    print(json.dumps(grown))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(grown) + "\n")


if __name__ == "__main__":
    main()
