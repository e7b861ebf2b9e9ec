"""What it costs to read a few rows of a large table and to update them, beside TensorFlow's where that is installed.

Three numbers: reading 8 rows of 16 numbers out of 10,000; subtracting from them; and both in one step, as training an
embedding does.

Timing as in overhead.py: the systems take turns; median and distance between the quartiles over the rounds.

Run: `python sparse.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
from overhead import Call, timed

import headrace as hr

ROWS = 10_000
WIDTH = 16
IDS = np.array([7, 9_999, 0, 512, 7, 31, 4_096, 5_000], np.int32)
CHANGE = np.full((len(IDS), WIDTH), 1e-3, np.float32)


def headrace_calls() -> dict[str, Call]:
    """Return our calls."""
    with hr.Graph().as_default() as graph:
        table = hr.Variable(np.zeros((ROWS, WIDTH), np.float32))
        ids, change = hr.placeholder(hr.int32, [len(IDS)]), hr.placeholder(hr.float32, [len(IDS), WIDTH])
        rows = hr.gather(table, ids)
        update = table.rows(ids).assign_sub(change)
        with hr.control_dependencies([rows]):
            both = table.rows(ids).assign_sub(rows * 0.01 + change)
    make = hr.Session(graph).make_callable
    read, subtract = make(rows, feeds=[ids]), make(update, feeds=[ids, change])
    train = make([rows, both], feeds=[ids, change])
    return {
        "gather": lambda: read(IDS),
        "sparse update": lambda: subtract(IDS, CHANGE),
        "gather + sparse update": lambda: train(IDS, CHANGE),
    }


def tensorflow_calls() -> dict[str, Call]:
    """Return TensorFlow's calls for the same; empty where it is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        return {}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf  # an optional peer, imported late since it takes seconds

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        table = v1.get_variable("table", initializer=np.zeros((ROWS, WIDTH), np.float32), use_resource=True)
        ids, change = v1.placeholder(tf.int32, [len(IDS)]), v1.placeholder(tf.float32, [len(IDS), WIDTH])
        rows = tf.gather(table, ids)
        update = tf.raw_ops.ResourceScatterSub(resource=table.handle, indices=ids, updates=change)
        with tf.control_dependencies([rows]):
            both = tf.raw_ops.ResourceScatterSub(resource=table.handle, indices=ids, updates=rows * 0.01 + change)
        start = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(start)
    make = session.make_callable
    read, subtract = make(rows, feed_list=[ids]), make(update, feed_list=[ids, change])
    train = make([rows, both], feed_list=[ids, change])
    return {
        "gather": lambda: read(IDS),
        "sparse update": lambda: subtract(IDS, CHANGE),
        "gather + sparse update": lambda: train(IDS, CHANGE),
    }


def main() -> None:
    """Measure, print a table, and write the numbers to a file if asked."""
    parser = argparse.ArgumentParser(description="Cost of reading and updating rows of a table")
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
        print(f"{cost.name:24} {'   '.join(parts)}{ratio}")
    if arguments.json is not None:
        result = {"costs": [asdict(cost) | {"ratio": cost.ratio} for cost in costs]}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
