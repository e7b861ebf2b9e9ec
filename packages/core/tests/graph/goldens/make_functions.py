"""Rewrite the graphs with functions that TensorFlow made, and functions.json, which says what they compute.

Run with an interpreter that has tensorflow-cpu: `python make_functions.py`. Each file is the graph of a traced function
of `x: float32[3]` and `n: int32[]`; functions.json names the tensors that it gives, with their values at the inputs
below.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent
X = np.array([0.1, 0.5, -0.3], np.float32)
N = 4


def with_gradient(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """What a function gives and its gradient by `x`."""

    def traced(x: Any, n: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, n)
        return y, tape.gradient(y, x)

    return traced


def branch(x: Any, n: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0.2, lambda: tf.sin(x) * x, lambda: x + 0.5)


def numbered_branch(x: Any, n: Any) -> Any:
    return tf.switch_case(n - 3, [lambda: x, lambda: x * x, lambda: tf.exp(x)])


def loop(x: Any, n: Any) -> Any:
    return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, tf.sin(s) * x), (0, x))[1]


def loop_in_loop(x: Any, n: Any) -> Any:
    def inner(s: Any) -> Any:
        return tf.while_loop(lambda j, u: j < n, lambda j, u: (j + 1, tf.cos(u) * x), (0, s))[1]

    return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, inner(s)), (0, x))[1]


def mapped_branch(x: Any, n: Any) -> Any:
    return tf.map_fn(lambda row: tf.cond(row > 0.0, lambda: row * row, lambda: -row), x)


def scanned(x: Any, n: Any) -> Any:
    return tf.scan(lambda carry, row: tf.tanh(carry + row), x, initializer=tf.constant(0.5))


@tf.function
def _helper(a: Any, b: Any) -> Any:
    return a * b + tf.sin(a)


def call(x: Any, n: Any) -> Any:
    return _helper(x, tf.cast(n, tf.float32))


def arrays(x: Any, n: Any) -> Any:
    start = tf.TensorArray(tf.float32, size=n)
    _, array = tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32))), (0, start)
    )
    return array.stack(), array.concat()


GRAPHS = {
    **{
        f.__name__: with_gradient(f)
        for f in (branch, numbered_branch, loop, loop_in_loop, mapped_branch, scanned, call)
    },
    "arrays": arrays,
}


def main() -> None:
    signature = [tf.TensorSpec([3], tf.float32, name="x"), tf.TensorSpec([], tf.int32, name="n")]
    values: dict[str, Any] = {}
    for name, function in GRAPHS.items():
        concrete = tf.function(function, input_signature=signature).get_concrete_function()
        (HERE / f"{name}.pb").write_bytes(concrete.graph.as_graph_def().SerializeToString(deterministic=True))
        results = concrete(tf.constant(X), tf.constant(N))
        values[name] = {
            tensor.name: value.numpy().tolist() for tensor, value in zip(concrete.outputs, results, strict=True)
        }
    (HERE / "functions.json").write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
