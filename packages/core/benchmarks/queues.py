"""What a queue costs, beside TensorFlow's where that is installed.

Each call adds to a queue and takes the same again, so that the queue stands as before: one element of 16 numbers, the
same with an operation on what is taken, and a batch of 64 images.

Timing as in overhead.py: the systems take turns; median and distance between the quartiles over the rounds.

Run: `python queues.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from overhead import Call, timed

import headrace as hr

WIDTH = 16
BATCH = 64
IMAGE = [28, 28]
Step = Callable[..., object]


def headrace_calls() -> dict[str, Call]:
    """Return our calls."""
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(100, hr.float32, shapes=[[WIDTH]])
        element = hr.placeholder(hr.float32, [WIDTH])
        add, taken = queue.enqueue(element), queue.dequeue()
        images = hr.FIFOQueue(100, hr.float32, shapes=[IMAGE])
        batch = hr.placeholder(hr.float32, [BATCH, *IMAGE])
        add_batch, taken_batch = images.enqueue_many(batch), images.dequeue_many(BATCH)
        used = taken + 1.0
    session = hr.Session(graph)
    make = session.make_callable
    return round_trips(
        make(add, feeds=[element]), make(taken), make(used), make(add_batch, feeds=[batch]), make(taken_batch)
    )


def tensorflow_calls() -> dict[str, Call]:
    """Return TensorFlow's calls for the same; empty where it is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        return {}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf  # an optional peer, imported late since it takes seconds

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        queue = tf.queue.FIFOQueue(100, tf.float32, shapes=[[WIDTH]])
        element = v1.placeholder(tf.float32, [WIDTH])
        add, taken = queue.enqueue(element), queue.dequeue()
        images = tf.queue.FIFOQueue(100, tf.float32, shapes=[IMAGE])
        batch = v1.placeholder(tf.float32, [BATCH, *IMAGE])
        add_batch, taken_batch = images.enqueue_many(batch), images.dequeue_many(BATCH)
        used = taken + 1.0
    make = v1.Session(graph=graph).make_callable
    return round_trips(
        make(add, feed_list=[element]), make(taken), make(used), make(add_batch, feed_list=[batch]), make(taken_batch)
    )


def round_trips(add: Step, take: Step, use: Step, add_batch: Step, take_batch: Step) -> dict[str, Call]:
    """Return calls that add and take the same again."""
    element, batch = np.ones(WIDTH, np.float32), np.ones([BATCH, *IMAGE], np.float32)
    return {
        "element": lambda: (add(element), take()),
        "element, used": lambda: (add(element), use()),
        "batch": lambda: (add_batch(batch), take_batch()),
    }


def main() -> None:
    """Measure, print a table, and write the numbers to a file if asked."""
    parser = argparse.ArgumentParser(description="Cost of adding to a queue and taking from it")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    rounds, seconds = (7, 0.02) if arguments.quick else (31, 0.05)
    theirs = tensorflow_calls()
    costs = []
    for name, call in headrace_calls().items():
        systems = {"headrace": call} | ({"tensorflow": theirs[name]} if name in theirs else {})
        costs.append(timed(name, systems, rounds, seconds))
    for cost in costs:
        parts = [
            f"{system} {us:9.2f} us (spread {cost.spread[system]:.2f})" for system, us in cost.microseconds.items()
        ]
        ratio = "" if cost.ratio is None else f"   TensorFlow / ours {cost.ratio:.2f}"
        print(f"{cost.name:14} {'   '.join(parts)}{ratio}")
    if arguments.json is not None:
        result = {"costs": [asdict(cost) | {"ratio": cost.ratio} for cost in costs]}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
