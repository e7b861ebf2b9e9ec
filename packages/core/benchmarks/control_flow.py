"""What branches and loops cost, beside TensorFlow's where that is installed.

Six numbers: one iteration of a loop whose body is ten small operations, and what it costs over NumPy's own time for
the same ten calls; the same with the gradient of the whole loop; one iteration of a loop that counts and adds, which
shows the loop itself; a call that runs ten of those; one branch; and one row of a scan.

Ours are measured on the backend that a user gets: the native one where headrace-kernels-cpu is installed. The NumPy
backend stands beside it then.

Timing as in overhead.py: the systems take turns; median and distance between the quartiles over the rounds. A loop of
1,000 iterations counts as 1,000.

Run: `python control_flow.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
from overhead import Call, Cost, Floats, timed

import headrace as hr
from headrace.plan.plan import find_backend

ITERATIONS = 1000
FEW = 10
WIDTH = 16
LOOPS = ("iteration", "iteration_with_gradient", "smallest_iteration", "row_of_scan")


def headrace_calls(x: Floats, backend: str) -> dict[str, Call]:
    """Return our calls on a backend."""
    with hr.Graph().as_default() as graph:
        v = hr.placeholder(hr.float32, [WIDTH])

        def body(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            for _ in range(3):
                s = hr.tanh(s * 0.5 + v)
            return i + 1, s

        end = hr.while_loop(lambda i, s: i < ITERATIONS, body, (0, v))[1]
        (slope,) = hr.gradients(end, [v])
        added, few = (
            hr.while_loop(lambda i, s, n=n: i < n, lambda i, s: (i + 1, s + v), (0, v))[1] for n in (ITERATIONS, FEW)
        )
        chosen = hr.cond(v[0] > 0.0, lambda: v * 2.0, lambda: v + 1.0)
        rows = hr.zeros([ITERATIONS, WIDTH]) + v
        scanned, _ = hr.scan(lambda carry, row: (carry + row, carry + row), rows, hr.zeros([WIDTH]))
    session = hr.Session(graph, config=hr.config(backend=backend))
    loop, both = session.make_callable(end, [v]), session.make_callable([end, slope], [v])
    branch, scan = session.make_callable(chosen, [v]), session.make_callable(scanned, [v])
    smallest, ten = session.make_callable(added, [v]), session.make_callable(few, [v])
    return {
        "iteration": lambda: loop(x),
        "iteration_with_gradient": lambda: both(x),
        "smallest_iteration": lambda: smallest(x),
        "loop_of_ten": lambda: ten(x),
        "branch": lambda: branch(x),
        "row_of_scan": lambda: scan(x),
    }


def tensorflow_calls(x: Floats) -> dict[str, Call]:
    """Return TensorFlow's calls for the same; empty where it is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        return {}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf  # an optional peer, imported late since it takes seconds

    v1 = tf.compat.v1
    v1.enable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        v = v1.placeholder(tf.float32, [WIDTH])

        def body(i: object, s: object) -> tuple[object, object]:
            for _ in range(3):
                s = tf.tanh(s * 0.5 + v)
            return i + 1, s

        end = tf.while_loop(lambda i, s: i < ITERATIONS, body, (0, v))[1]
        (slope,) = tf.gradients(end, [v])
        added, few = (
            tf.while_loop(lambda i, s, n=n: i < n, lambda i, s: (i + 1, s + v), (0, v))[1] for n in (ITERATIONS, FEW)
        )
        chosen = tf.cond(v[0] > 0.0, lambda: v * 2.0, lambda: v + 1.0)
        rows = tf.zeros([ITERATIONS, WIDTH]) + v
        scanned = tf.scan(lambda carry, row: carry + row, rows, tf.zeros([WIDTH]))
    session = v1.Session(graph=graph)
    loop, both = session.make_callable(end, [v]), session.make_callable([end, slope], [v])
    branch, scan = session.make_callable(chosen, [v]), session.make_callable(scanned, [v])
    smallest, ten = session.make_callable(added, [v]), session.make_callable(few, [v])
    return {
        "iteration": lambda: loop(x),
        "iteration_with_gradient": lambda: both(x),
        "smallest_iteration": lambda: smallest(x),
        "loop_of_ten": lambda: ten(x),
        "branch": lambda: branch(x),
        "row_of_scan": lambda: scan(x),
    }


def loop_in_numpy(x: Floats) -> Call:
    """Return the ten operations of the body as calls into buffers, the least that NumPy can take for them."""
    half, buffer, counter, one = np.float32(0.5), np.empty_like(x), np.zeros((), np.int32), np.int32(1)

    def run() -> object:
        for _ in range(ITERATIONS):
            for _ in range(3):
                np.multiply(buffer, half, out=buffer)
                np.add(buffer, x, out=buffer)
                np.tanh(buffer, out=buffer)
            np.add(counter, one, out=counter)
        return buffer

    buffer[:] = x
    return run


def per_iteration(cost: Cost) -> Cost:
    """Return the cost of one iteration where a call runs a loop."""
    if cost.name not in LOOPS:
        return cost

    def shared(times: Mapping[str, float]) -> dict[str, float]:
        return {system: time / ITERATIONS for system, time in times.items()}

    return Cost(cost.name, shared(cost.microseconds), shared(cost.spread))


def main() -> None:
    """Measure, print a table, and write the numbers to a file if asked."""
    parser = argparse.ArgumentParser(description="Cost of branches and loops")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    rounds, seconds = (5, 0.02) if arguments.quick else (21, 0.1)
    x = np.linspace(0.1, 0.9, WIDTH, dtype=np.float32)
    backend = find_backend("auto").name
    ours, theirs = headrace_calls(x, backend), tensorflow_calls(x)
    plain = headrace_calls(x, "numpy") if backend != "numpy" else {}
    costs = []
    for name, call in ours.items():
        systems = {"headrace": call}
        systems |= {"numpy backend": plain[name]} if name in plain else {}
        systems |= {"tensorflow": theirs[name]} if name in theirs else {}
        systems |= {"numpy": loop_in_numpy(x)} if name == "iteration" else {}
        costs.append(per_iteration(timed(name, systems, rounds, seconds)))
    for cost in costs:
        parts = [
            f"{system} {us:8.2f} us (spread {cost.spread[system]:.2f})" for system, us in cost.microseconds.items()
        ]
        ratio = "" if cost.ratio is None else f"   TensorFlow / ours {cost.ratio:.2f}"
        print(f"{cost.name:24} {'   '.join(parts)}{ratio}")
    first = costs[0].microseconds
    over = first.get("numpy backend", first["headrace"]) - first["numpy"]
    print(f"iteration: {over:.2f} us over NumPy's own time for its ten operations, on the NumPy backend")
    print(f"headrace: backend {backend}")
    if arguments.json is not None:
        rows = [asdict(cost) | {"ratio": cost.ratio} for cost in costs]
        result = {"costs": rows, "iteration_us_over_numpy": over, "backend": backend}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
