"""What a step costs besides its arithmetic, beside TensorFlow's own session where that is installed.

Four numbers: one small operation by `make_callable`; the same by `Session.run`; a chain of 1,000 small operations, per
operation and over what NumPy takes for the same calls into a buffer; and what a step in steady state allocates beyond
the values that it returns.

Timing: the systems take turns, round by round, so that a busy moment of the machine falls on all of them; the result is
the median over the rounds, and the spread is the distance between the quartiles.

Run: `python overhead.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import headrace as hr

CHAIN = 1000
WIDTH = 16
Call = Callable[[], object]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one call of each system, in microseconds."""

    name: str
    microseconds: Mapping[str, float]
    spread: Mapping[str, float]

    @property
    def ratio(self) -> float | None:
        """TensorFlow's cost over ours, or None where TensorFlow is not installed."""
        ours, theirs = self.microseconds["headrace"], self.microseconds.get("tensorflow")
        return None if theirs is None else theirs / ours


def timed(name: str, calls: Mapping[str, Call], rounds: int, seconds: float) -> Cost:
    """Time calls in turns.

    Args:
      name: what is measured.
      calls: one call per system.
      rounds: how many times each has its turn.
      seconds: how long a turn lasts.
    """
    repeats = {}
    for system, call in calls.items():
        for _ in range(3):
            call()
        start = time.perf_counter()
        call()
        repeats[system] = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    samples: dict[str, list[float]] = {system: [] for system in calls}
    gc.disable()
    for _ in range(rounds):
        for system, call in calls.items():
            loop = range(repeats[system])
            start = time.perf_counter()
            for _ in loop:
                call()
            samples[system].append((time.perf_counter() - start) / repeats[system] * 1e6)
        gc.collect()
    gc.enable()
    quartiles = {system: statistics.quantiles(times, n=4) for system, times in samples.items()}
    return Cost(
        name,
        {system: statistics.median(times) for system, times in samples.items()},
        {system: q[2] - q[0] for system, q in quartiles.items()},
    )


def chain_in_numpy(x: Floats, b: Floats) -> Call:
    """Return the chain as calls into one buffer, the least that NumPy can take for it."""
    buffer = np.empty_like(x)
    pairs = range(CHAIN // 2 - 1)

    def run() -> object:
        np.add(x, b, out=buffer)
        np.multiply(buffer, b, out=buffer)
        for _ in pairs:
            np.add(buffer, b, out=buffer)
            np.multiply(buffer, b, out=buffer)
        return buffer.copy()

    return run


def headrace_calls(x: Floats, b: Floats) -> dict[str, Call]:
    """Return our calls: the small operation twice, and the chain."""
    graph = hr.Graph()
    with graph.as_default():
        px = hr.placeholder(hr.float32, [WIDTH], name="x")
        pb = hr.placeholder(hr.float32, [WIDTH], name="b")
        small = px + pb
        end = px
        for _ in range(CHAIN // 2):
            end = (end + pb) * pb
    session = hr.Session(graph)
    small_step = session.make_callable(small, feeds=[px, pb])
    chain_step = session.make_callable(end, feeds=[px, pb])
    feeds = {px: x, pb: b}
    return {
        "make_callable": lambda: small_step(x, b),
        "session_run": lambda: session.run(small, feeds=feeds),
        "chain": lambda: chain_step(x, b),
    }


def tensorflow_calls(x: Floats, b: Floats) -> dict[str, Call]:
    """Return TensorFlow's calls for the same three things; empty where it is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        return {}
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf  # an optional peer, imported late since it takes seconds

    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        px, pb = v1.placeholder(tf.float32, [WIDTH]), v1.placeholder(tf.float32, [WIDTH])
        small = px + pb
        end = px
        for _ in range(CHAIN // 2):
            end = (end + pb) * pb
    session = v1.Session(graph=graph)
    small_step = session.make_callable(small, feed_list=[px, pb])
    chain_step = session.make_callable(end, feed_list=[px, pb])
    feeds = {px: x, pb: b}
    return {
        "make_callable": lambda: small_step(x, b),
        "session_run": lambda: session.run(small, feed_dict=feeds),
        "chain": lambda: chain_step(x, b),
    }


def steady_allocation(steps: int) -> dict[str, int]:
    """Return what a step allocates beyond its fetched value, and what many steps leave behind, in bytes.

    The step holds values of 1 MiB, so that a single one made outside the planned buffers shows at once.
    """
    rows, columns = 256, 1024
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [rows, columns], name="x")
        w = hr.Variable(hr.ones([columns, columns]), name="w")
        hidden = hr.tanh(x @ w)
        for _ in range(4):
            hidden = hr.tanh(hidden * 0.5 + x)
        loss = hr.mean(hidden * hidden)
        (gradient,) = hr.gradients(loss, [w])
        update = w.assign_sub(0.001 * gradient)
    value = np.ones((rows, columns), np.float32)
    with hr.Session(graph) as session:
        step = session.make_callable([loss, update], feeds=[x])
        for _ in range(5):
            step(value)
        gc.collect()
        tracemalloc.start()
        step(value)
        start, _ = tracemalloc.get_traced_memory()
        highest = 0
        for _ in range(steps):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            step(value)
            highest = max(highest, tracemalloc.get_traced_memory()[1] - before)
        gc.collect()  # empties Python's free lists of tuples, which a step may fill up
        end, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    fetched = np.dtype(np.float32).itemsize
    return {"beyond_fetched": max(0, highest - fetched), "left_behind": end - start, "steps": steps}


def main() -> None:
    """Measure, print a table, and write the numbers to a file if asked."""
    parser = argparse.ArgumentParser(description="Cost of a step besides its arithmetic")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    rounds, seconds = (7, 0.02) if arguments.quick else (31, 0.05)
    x = np.linspace(0.5, 1.0, WIDTH, dtype=np.float32)
    b = np.linspace(0.4, 0.9, WIDTH, dtype=np.float32)
    ours, theirs = headrace_calls(x, b), tensorflow_calls(x, b)
    out = np.empty_like(x)
    numpy_calls: dict[str, Call] = {"make_callable": lambda: np.add(x, b, out=out), "chain": chain_in_numpy(x, b)}
    costs = []
    for name, call in ours.items():
        systems = {"headrace": call}
        systems |= {"tensorflow": theirs[name]} if name in theirs else {}
        systems |= {"numpy": numpy_calls[name]} if name in numpy_calls else {}
        costs.append(timed(name, systems, rounds, seconds))
    allocation = steady_allocation(5 if arguments.quick else 50)
    chain = costs[-1].microseconds
    per_operation = (chain["headrace"] - chain["numpy"]) / CHAIN
    for cost in costs:
        parts = [
            f"{system} {us:9.2f} us (spread {cost.spread[system]:.2f})" for system, us in cost.microseconds.items()
        ]
        ratio = "" if cost.ratio is None else f"   TensorFlow / ours {cost.ratio:.2f}"
        print(f"{cost.name:14} {'   '.join(parts)}{ratio}")
    print(f"chain: {per_operation:.3f} us per operation over NumPy's own cost")
    print(
        f"steady state: {allocation['beyond_fetched']} bytes at most beyond the fetched value, "
        f"{allocation['left_behind']} left behind by {allocation['steps']} steps"
    )
    if arguments.json is not None:
        rows = [asdict(cost) | {"ratio": cost.ratio} for cost in costs]
        result = {"costs": rows, "chain_us_per_operation_over_numpy": per_operation, "allocation_bytes": allocation}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
