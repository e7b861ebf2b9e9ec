"""Rewrite random_numbers.json: random numbers as TensorFlow's own CPU kernels make them.

Run with an interpreter that has tensorflow-cpu: `python make_random_numbers.py`. The file holds, for each case, the
elements at a few places of the result as hexadecimal bit patterns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

FLOATS = ("float16", "bfloat16", "float32", "float64")
SEEDS = ((87654321, 42), (0, 7), (-5, -(2**40)), (2**62 + 12345, 2**63 - 1))
SIZE = 9001
LOGITS = [[0.1, 0.2, 0.3, 0.4], [2.0, -1.0, 0.0, 0.5], [1.0, 1.0, 1.0, 1.0]]


def executions(build: Callable[[], Any], count: int) -> list[Any]:
    """Run one operation `count` times in one session."""
    with tf.Graph().as_default() as graph:
        fetch = build()
    with tf.compat.v1.Session(graph=graph) as session:
        return [session.run(fetch) for _ in range(count)]


def places(size: int) -> list[int]:
    """Places to compare: the ends, and some between."""
    return sorted({0, 1, 2, 3, 4, 5, size // 3, size // 2, size - 2, size - 1} & set(range(size)))


def record(op: str, values: Any, **arguments: Any) -> dict[str, Any]:
    """Describe one result."""
    flat = np.ascontiguousarray(values).reshape(-1)
    bits = flat.view(f"u{flat.dtype.itemsize}")
    chosen = places(flat.size)
    return {
        "op": op,
        "dtype": flat.dtype.name,
        "shape": list(values.shape),
        **arguments,
        "places": chosen,
        "bits": [format(int(bits[place]), "x") for place in chosen],
    }


def stateful() -> Iterator[dict[str, Any]]:
    """Operations that move along their stream from one execution to the next."""
    for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
        for dtype in FLOATS:
            for seed, seed2 in SEEDS:
                make = getattr(tf.raw_ops, op)
                runs = executions(
                    lambda make=make, dtype=dtype, seed=seed, seed2=seed2: make(
                        shape=[SIZE], dtype=dtype, seed=seed, seed2=seed2
                    ),
                    2,
                )
                for execution, values in enumerate(runs):
                    yield record(op, values, seed=seed, seed2=seed2, execution=execution)
    for dtype, low, high in (
        ("int32", -7, 100),
        ("int32", -(2**31), 2**31 - 1),
        ("int64", -7, 100),
        ("int64", -(2**63), 2**63 - 1),
    ):
        runs = executions(
            lambda dtype=dtype, low=low, high=high: tf.raw_ops.RandomUniformInt(
                shape=[7, 11], minval=tf.constant(low, dtype), maxval=tf.constant(high, dtype), seed=3, seed2=9
            ),
            2,
        )
        for execution, values in enumerate(runs):
            yield record("RandomUniformInt", values, seed=3, seed2=9, execution=execution, low=low, high=high)
    for size in (2, 5, 1000):
        runs = executions(lambda size=size: tf.raw_ops.RandomShuffle(value=tf.range(size), seed=3, seed2=9), 3)
        for execution, values in enumerate(runs):
            yield record("RandomShuffle", values, seed=3, seed2=9, execution=execution)
    runs = executions(lambda: tf.raw_ops.Multinomial(logits=LOGITS, num_samples=13, seed=3, seed2=9), 2)
    for execution, values in enumerate(runs):
        yield record("Multinomial", values, seed=3, seed2=9, execution=execution, logits=LOGITS)


def stateless() -> Iterator[dict[str, Any]]:
    """Operations that take their seed as an input."""
    for seed in ((1, 2), (0, 0), (-5, 2**31 - 1)):
        for dtype in FLOATS:
            for op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
                values = getattr(tf.raw_ops, op)(shape=[101], seed=seed, dtype=dtype).numpy()
                yield record(op, values, seeds=seed)
        values = tf.raw_ops.StatelessRandomUniformInt(shape=[101], seed=seed, minval=-5, maxval=1000).numpy()
        yield record("StatelessRandomUniformInt", values, seeds=seed, low=-5, high=1000)
        for dtype in ("int32", "uint32", "int64", "uint64"):
            values = tf.raw_ops.StatelessRandomUniformFullInt(shape=[11], seed=seed, dtype=dtype).numpy()
            yield record("StatelessRandomUniformFullInt", values, seeds=seed)


if __name__ == "__main__":
    cases = [*stateful(), *stateless()]
    lines = ",\n".join(json.dumps(case) for case in cases)
    path = Path(__file__).with_name("random_numbers.json")
    path.write_text(f'{{"tensorflow": "{tf.__version__}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
