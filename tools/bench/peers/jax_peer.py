"""The workloads in JAX, under `jit`, with donated state."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from bench.works import MOMENTUM, Options, Work


def build(work: Work, weights: dict[str, Any], data: dict[str, Any], options: Options) -> Callable[[], Any]:
    """A step of the workload; XLA takes its threads from the processors it may run on."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    words = _Words()
    t = {name: jnp.asarray(value) for name, value in data.items()}
    v = {name: jnp.asarray(value) for name, value in weights.items()}
    model = work.model
    if work.kind == "infer":
        assert model is not None
        plain = jax.jit(lambda v, t: model(words, v, t))
        return lambda: np.asarray(plain(v, t))
    zeros = {name: jnp.zeros_like(value) for name, value in v.items()}
    if work.kind == "sparse":
        state: list[Any] = [v["table"]]
        update = _sparse(work, words)
    elif work.kind == "adam":
        state = [v, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros((), jnp.float32)]
        update = functools.partial(_adam, work.rate)
    else:
        state = [v, zeros]
        update = _momentum(work, words)
    compiled = jax.jit(update, donate_argnums=tuple(range(len(state))))

    def run() -> float:
        value, *state[:] = compiled(*state, t)
        return float(value)

    return run


def _momentum(work: Work, words: _Words) -> Callable[..., Any]:
    def update(v: Any, m: Any, t: Any) -> Any:
        assert work.model is not None
        loss, g = jax.value_and_grad(lambda v: work.model(words, v, t))(v)
        m = {name: MOMENTUM * m[name] + g[name] for name in v}
        return loss, {name: v[name] - work.rate * m[name] for name in v}, m

    return update


def _sparse(work: Work, words: _Words) -> Callable[..., Any]:
    def update(table: Any, t: Any) -> Any:
        assert work.model is not None
        loss, g = jax.value_and_grad(lambda rows: work.model(words, rows))(table[t["x"]])
        return loss, table.at[t["x"]].add(-work.rate * g)

    return update


def _adam(rate: float, v: Any, mean: Any, square: Any, count: Any, g: Any) -> Any:
    count = count + 1.0
    mean = {name: 0.9 * mean[name] + 0.1 * g[name] for name in v}
    square = {name: 0.999 * square[name] + 0.001 * g[name] ** 2 for name in v}
    scale, root = rate / (1.0 - 0.9**count), 1.0 - 0.999**count
    v = {name: v[name] - scale * mean[name] / (jnp.sqrt(square[name] / root) + 1e-8) for name in v}
    return v["w0"][0], v, mean, square, count


class _Words:
    """See `models.Words`."""

    relu, sigmoid, tanh = staticmethod(jax.nn.relu), staticmethod(jax.nn.sigmoid), staticmethod(jnp.tanh)
    softmax = staticmethod(jax.nn.softmax)

    def images(self, x: Any) -> Any:
        return x

    def rows(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1)

    def convolution(self, x: Any, kernel: Any, bias: Any | None, stride: int, padding: int) -> Any:
        form = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, kernel, (stride,) * 2, ((padding,) * 2,) * 2, dimension_numbers=form)
        return y if bias is None else y + bias

    def max_pool(self, x: Any, size: int, stride: int, padding: str, length: int) -> Any:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, size, size, 1), (1, stride, stride, 1), padding)

    def mean_of_images(self, x: Any) -> Any:
        return x.mean((1, 2))

    def normalized(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + offset

    def channels(self, parts: Sequence[Any]) -> Any:
        return jnp.concatenate(parts, 3)

    def zeros(self, *shape: int) -> Any:
        return jnp.zeros(shape)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(shape)

    def columns(self, parts: Sequence[Any]) -> Any:
        return jnp.concatenate(parts, 1)

    def split(self, x: Any, count: int) -> Sequence[Any]:
        result: Sequence[Any] = jnp.split(x, count, -1)
        return result

    def stack(self, parts: Sequence[Any]) -> Any:
        return jnp.stack(parts, 1)

    def unstack(self, x: Any) -> Sequence[Any]:
        return [x[:, number] for number in range(x.shape[1])]

    def lookup(self, table: Any, ids: Any) -> Any:
        return table[ids]

    def gelu(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=True)

    def sum_of_squares(self, x: Any) -> Any:
        return jnp.square(x).sum()

    def layer_norm(self, x: Any, gain: Any | None, shift: Any | None) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        y = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
        return y if gain is None or shift is None else y * gain + shift

    def attention(self, qkv: Any, batch: int, heads: int) -> Any:
        rows, width = qkv.shape
        length, depth = rows // batch, width // 3 // heads
        q, k, value = (x.reshape(batch, length, heads, depth).transpose(0, 2, 1, 3) for x in jnp.split(qkv, 3, 1))
        scores = q @ k.transpose(0, 1, 3, 2) * depth**-0.5 + jnp.triu(jnp.full((length, length), -1e9), 1)
        return (jax.nn.softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(rows, width // 3)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    def repeat(self, count: int, body: Callable[[Any], Any], x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, body(s[1])), (0, x))[1]
