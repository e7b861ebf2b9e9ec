"""The workloads in TensorFlow, under `tf.function`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

RATE, MOMENTUM = 0.01, 0.9


def build(kind: str, weights: dict[str, Any], data: dict[str, Any], threads: int) -> Callable[[], float]:
    """A step of the workload."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    model = models(tf)[kind]
    v = {name: tf.Variable(value) for name, value in weights.items()}
    t = {name: tf.constant(value) for name, value in data.items()}
    m = {name: tf.Variable(np.zeros_like(value)) for name, value in weights.items()}

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def update() -> Any:
        with tf.GradientTape() as tape:
            loss = model(v, t)
        for name, g in zip(v, tape.gradient(loss, list(v.values())), strict=True):
            m[name].assign(MOMENTUM * m[name] + g)
            v[name].assign_sub(RATE * m[name])
        return loss

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def plain() -> Any:
        return model(v, t)

    return lambda: float(np.reshape((update if v else plain)().numpy(), -1)[0])


def models(tf: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """The models, by kind."""

    def loss_of(logits: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))

    def mlp(v: Any, t: Any) -> Any:
        h = tf.nn.relu(t["x"] @ v["w0"] + v["b0"])
        h = tf.nn.relu(h @ v["w1"] + v["b1"])
        return loss_of(h @ v["w2"] + v["b2"], t["y"])

    def cnn(v: Any, t: Any) -> Any:
        h = t["x"]
        for layer in range(3):
            h = tf.nn.relu(tf.nn.conv2d(h, v[f"k{layer}"], 1, "SAME") + v[f"b{layer}"])
            h = tf.nn.max_pool2d(h, 2, 2, "VALID") if layer else h
        h = tf.nn.relu(tf.reshape(h, [64, -1]) @ v["w3"] + v["b3"])
        return loss_of(h @ v["w4"] + v["b4"], t["y"])

    def lstm(v: Any, t: Any) -> Any:
        h, c, states = tf.zeros([32, 512]), tf.zeros([32, 512]), []
        for row in tf.unstack(tf.gather(v["embedding"], t["x"]), axis=1):
            i, j, f, o = tf.split(tf.concat([row, h], 1) @ v["w"] + v["b"], 4, 1)
            c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            h = tf.tanh(c) * tf.sigmoid(o)
            states.append(h)
        flat = tf.reshape(tf.stack(states, 1), [640, 512])
        return loss_of(flat @ v["out"] + v["bias"], tf.reshape(t["y"], [-1]))

    def normed(x: Any, gain: Any, shift: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * gain + shift

    def gpt(v: Any, t: Any) -> Any:
        h = tf.reshape(tf.gather(v["embedding"], t["x"]) + v["position"], [1024, 256])
        mask = np.triu(np.full((128, 128), -1e9, np.float32), 1)

        def heads(x: Any) -> Any:
            return tf.transpose(tf.reshape(x, [8, 128, 4, 64]), [0, 2, 1, 3])

        for n in range(4):
            a = normed(h, v[f"gain_a{n}"], v[f"shift_a{n}"])
            q, k, value = (heads(part) for part in tf.split(a @ v[f"qkv{n}"] + v[f"qkv_b{n}"], 3, 1))
            scores = tf.matmul(q, k, transpose_b=True) * 0.125 + mask
            mixed = tf.reshape(tf.transpose(tf.nn.softmax(scores) @ value, [0, 2, 1, 3]), [1024, 256])
            h = h + mixed @ v[f"o{n}"] + v[f"o_b{n}"]
            b = normed(h, v[f"gain_b{n}"], v[f"shift_b{n}"])
            wide = tf.nn.gelu(b @ v[f"up{n}"] + v[f"up_b{n}"], approximate=True)
            h = h + wide @ v[f"down{n}"] + v[f"down_b{n}"]
        return loss_of(normed(h, v["gain"], v["shift"]) @ v["out"], tf.reshape(t["y"], [-1]))

    def chain(v: Any, t: Any) -> Any:
        x = t["x"]
        for number in range(1000):
            x = x + 1.0 if number % 2 else x * 1.0001
        return x

    return {
        "mlp": mlp, "cnn": cnn, "lstm": lstm, "gpt": gpt, "softmax": lambda v, t: tf.nn.softmax(t["x"]),
        "small": lambda v, t: t["x"] + 1.0, "chain": chain,
    }  # fmt: skip
