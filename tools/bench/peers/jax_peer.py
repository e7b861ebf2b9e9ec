"""The workloads in JAX, under `jit`, with donated state."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

RATE, MOMENTUM = 0.01, 0.9


def build(kind: str, weights: dict[str, Any], data: dict[str, Any], threads: int) -> Callable[[], float]:
    """A step of the workload; XLA takes its threads from the processors it may run on."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    model = models()[kind]
    t = {name: jax.numpy.asarray(value) for name, value in data.items()}
    if not weights:
        plain = jax.jit(model)
        return lambda: float(plain({}, t).reshape(-1)[0])
    v = {name: jax.numpy.asarray(value) for name, value in weights.items()}
    m = {name: jax.numpy.zeros_like(value) for name, value in v.items()}

    def update(v: Any, m: Any, t: Any) -> Any:
        loss, g = jax.value_and_grad(model)(v, t)
        m = {name: MOMENTUM * m[name] + g[name] for name in v}
        return loss, {name: v[name] - RATE * m[name] for name in v}, m

    compiled = jax.jit(update, donate_argnums=(0, 1))
    state = [v, m]

    def run() -> float:
        loss, *state[:] = compiled(*state, t)
        return float(loss)

    return run


def models() -> dict[str, Callable[[Any, Any], Any]]:
    """The models, by kind."""
    import jax
    from jax import numpy as jnp

    def loss_of(logits: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def mlp(v: Any, t: Any) -> Any:
        h = jax.nn.relu(t["x"] @ v["w0"] + v["b0"])
        h = jax.nn.relu(h @ v["w1"] + v["b1"])
        return loss_of(h @ v["w2"] + v["b2"], t["y"])

    def cnn(v: Any, t: Any) -> Any:
        h = t["x"]
        for layer in range(3):
            form = ("NHWC", "HWIO", "NHWC")
            h = jax.lax.conv_general_dilated(h, v[f"k{layer}"], (1, 1), "SAME", dimension_numbers=form)
            h = jax.nn.relu(h + v[f"b{layer}"])
            if layer:
                h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = jax.nn.relu(h.reshape(64, -1) @ v["w3"] + v["b3"])
        return loss_of(h @ v["w4"] + v["b4"], t["y"])

    def lstm(v: Any, t: Any) -> Any:
        rows = v["embedding"][t["x"]]
        h, c, states = jnp.zeros((32, 512)), jnp.zeros((32, 512)), []
        for number in range(20):
            z = jnp.concatenate([rows[:, number], h], 1) @ v["w"] + v["b"]
            i, j, f, o = jnp.split(z, 4, 1)
            c = c * jax.nn.sigmoid(f + 1.0) + jax.nn.sigmoid(i) * jnp.tanh(j)
            h = jnp.tanh(c) * jax.nn.sigmoid(o)
            states.append(h)
        flat = jnp.stack(states, 1).reshape(640, 512)
        return loss_of(flat @ v["out"] + v["bias"], t["y"].reshape(-1))

    def normed(x: Any, gain: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + shift

    def gpt(v: Any, t: Any) -> Any:
        h = (v["embedding"][t["x"]] + v["position"]).reshape(1024, 256)
        mask = jnp.triu(jnp.full((128, 128), -1e9, jnp.float32), 1)

        def heads(x: Any) -> Any:
            return x.reshape(8, 128, 4, 64).transpose(0, 2, 1, 3)

        for n in range(4):
            a = normed(h, v[f"gain_a{n}"], v[f"shift_a{n}"])
            q, k, value = (heads(part) for part in jnp.split(a @ v[f"qkv{n}"] + v[f"qkv_b{n}"], 3, 1))
            scores = q @ k.transpose(0, 1, 3, 2) * 0.125 + mask
            mixed = (jax.nn.softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(1024, 256)
            h = h + mixed @ v[f"o{n}"] + v[f"o_b{n}"]
            b = normed(h, v[f"gain_b{n}"], v[f"shift_b{n}"])
            wide = jax.nn.gelu(b @ v[f"up{n}"] + v[f"up_b{n}"], approximate=True)
            h = h + wide @ v[f"down{n}"] + v[f"down_b{n}"]
        return loss_of(normed(h, v["gain"], v["shift"]) @ v["out"], t["y"].reshape(-1))

    def chain(v: Any, t: Any) -> Any:
        x = t["x"]
        for number in range(1000):
            x = x + 1.0 if number % 2 else x * 1.0001
        return x

    return {
        "mlp": mlp, "cnn": cnn, "lstm": lstm, "gpt": gpt, "softmax": lambda v, t: jax.nn.softmax(t["x"]),
        "small": lambda v, t: t["x"] + 1.0, "chain": chain,
    }  # fmt: skip
