"""Write array_loop.pb: a loop of TensorFlow 1 over arrays, with the gradients that TensorFlow 1 adds, which use stacks.

Needs TensorFlow (made with 2.21): `python make_array_loop.py`.
"""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

NAMES = ["outputs", "state", "dx", "dw"]


def main() -> None:
    """Build the graph and write it."""
    tf.compat.v1.disable_control_flow_v2()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float64, [3, 2], name="x")
        w = tf.compat.v1.placeholder(tf.float64, [2, 2], name="w")
        rows, written = tf.TensorArray(tf.float64, 3).unstack(x), tf.TensorArray(tf.float64, 3)

        def body(i, state, written):
            state = tf.tanh(tf.linalg.matvec(w, rows.read(i)) + state)
            return i + 1, state, written.write(i, state * state)

        start = (0, tf.zeros(2, tf.float64), written)
        _, state, written = tf.while_loop(lambda i, *_: i < 3, body, start)
        outputs = written.stack()
        gradients = tf.gradients(tf.reduce_sum(outputs) + tf.reduce_sum(state), [x, w])
        for name, tensor in zip(NAMES, [outputs, state, *gradients], strict=True):
            tf.identity(tensor, name=name)
    definition = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), NAMES)
    Path(__file__).with_name("array_loop.pb").write_bytes(definition.SerializeToString(deterministic=True))


main()
