"""The workloads in TensorFlow, under `tf.function`; by XLA as `tensorflow-xla`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # before the import, which otherwise logs

import tensorflow as tf

from bench.works import MOMENTUM, Options, Work


def build(work: Work, weights: dict[str, Any], data: dict[str, Any], options: Options) -> Callable[[], Any]:
    """A step of the workload."""
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    make = tf.constant if work.kind == "infer" else tf.Variable
    v = {name: make(value) for name, value in weights.items()}
    t = {name: tf.constant(value) for name, value in data.items()}
    words = _Words()
    if work.kind == "adam":
        update = _adam(work, v, t)
    elif work.kind == "sparse":
        update = _sparse(work, words, v, t)
    elif work.kind == "train":
        update = _momentum(work, words, v, t)
    else:

        def update() -> Any:
            assert work.model is not None
            return work.model(words, v, t)

    compiled = tf.function(update, jit_compile=options.variant == "xla" or None)
    return lambda: compiled().numpy()


def _momentum(work: Work, words: _Words, v: dict[str, Any], t: dict[str, Any]) -> Callable[[], Any]:
    m = {name: tf.Variable(np.zeros(value.shape, np.float32)) for name, value in v.items()}

    def update() -> Any:
        assert work.model is not None
        with tf.GradientTape() as tape:
            loss = work.model(words, v, t)
        for name, g in zip(v, tape.gradient(loss, list(v.values())), strict=True):
            m[name].assign(MOMENTUM * m[name] + g)
            v[name].assign_sub(work.rate * m[name])
        return loss

    return update


def _sparse(work: Work, words: _Words, v: dict[str, Any], t: dict[str, Any]) -> Callable[[], Any]:
    def update() -> Any:
        assert work.model is not None
        with tf.GradientTape() as tape:
            rows = tf.gather(v["table"], t["x"])
            tape.watch(rows)
            loss = work.model(words, rows)
        v["table"].scatter_sub(tf.IndexedSlices(work.rate * tape.gradient(loss, rows), t["x"]))
        return loss

    return update


def _adam(work: Work, v: dict[str, Any], t: dict[str, Any]) -> Callable[[], Any]:
    mean, square = ({name: tf.Variable(np.zeros(x.shape, np.float32)) for name, x in v.items()} for _ in range(2))
    powers = [tf.Variable(1.0), tf.Variable(1.0)]

    def update() -> Any:
        powers[0].assign(powers[0] * 0.9)
        powers[1].assign(powers[1] * 0.999)
        for name, variable in v.items():
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle, m=mean[name].handle, v=square[name].handle, beta1_power=powers[0],
                beta2_power=powers[1], lr=work.rate, beta1=0.9, beta2=0.999, epsilon=1e-8, grad=t[name],
            )  # fmt: skip
        return v["w0"][0]

    return update


class _Words:
    """See `models.Words`."""

    relu, sigmoid, tanh = staticmethod(tf.nn.relu), staticmethod(tf.sigmoid), staticmethod(tf.tanh)
    softmax = staticmethod(tf.nn.softmax)

    def images(self, x: Any) -> Any:
        return x

    def rows(self, x: Any) -> Any:
        return tf.reshape(x, [x.shape[0], -1])

    def convolution(self, x: Any, kernel: Any, bias: Any | None, stride: int, padding: int) -> Any:
        y = tf.nn.conv2d(x, kernel, stride, [[0, 0], [padding] * 2, [padding] * 2, [0, 0]])
        return y if bias is None else tf.nn.bias_add(y, bias)

    def max_pool(self, x: Any, size: int, stride: int, padding: str, length: int) -> Any:
        return tf.nn.max_pool2d(x, size, stride, padding)

    def mean_of_images(self, x: Any) -> Any:
        return tf.reduce_mean(x, (1, 2))

    def normalized(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, mean, variance, 1e-5, is_training=False)[0]

    def channels(self, parts: Sequence[Any]) -> Any:
        return tf.concat(parts, 3)

    def zeros(self, *shape: int) -> Any:
        return tf.zeros(shape)

    def reshape(self, x: Any, *shape: int) -> Any:
        return tf.reshape(x, shape)

    def columns(self, parts: Sequence[Any]) -> Any:
        return tf.concat(parts, 1)

    def split(self, x: Any, count: int) -> Sequence[Any]:
        result: Sequence[Any] = tf.split(x, count, -1)
        return result

    def stack(self, parts: Sequence[Any]) -> Any:
        return tf.stack(parts, 1)

    def unstack(self, x: Any) -> Sequence[Any]:
        result: Sequence[Any] = tf.unstack(x, axis=1)
        return result

    def lookup(self, table: Any, ids: Any) -> Any:
        return tf.gather(table, ids)

    def gelu(self, x: Any) -> Any:
        return tf.nn.gelu(x, approximate=True)

    def sum_of_squares(self, x: Any) -> Any:
        return tf.reduce_sum(tf.square(x))

    def layer_norm(self, x: Any, gain: Any | None, shift: Any | None) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        y = (x - mean) * tf.math.rsqrt(variance + 1e-5)
        return y if gain is None or shift is None else y * gain + shift

    def attention(self, qkv: Any, batch: int, heads: int) -> Any:
        rows, width = qkv.shape
        length, depth = rows // batch, width // 3 // heads
        mask = np.triu(np.full((length, length), -1e9, np.float32), 1)
        q, k, value = (
            tf.transpose(tf.reshape(x, [batch, length, heads, depth]), [0, 2, 1, 3]) for x in tf.split(qkv, 3, 1)
        )
        scores = tf.matmul(q, k, transpose_b=True) * depth**-0.5 + mask
        return tf.reshape(tf.transpose(tf.nn.softmax(scores) @ value, [0, 2, 1, 3]), [rows, width // 3])

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def repeat(self, count: int, body: Callable[[Any], Any], x: Any) -> Any:
        return tf.while_loop(lambda i, s: i < count, lambda i, s: (i + 1, body(s)), (0, x))[1]
