"""The workloads in Headrace."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

import headrace as hr

RATE, MOMENTUM = 0.01, 0.9


def build(kind: str, weights: dict[str, Any], data: dict[str, Any], threads: int) -> Callable[[], float]:
    """A step of the workload."""
    graph = hr.Graph()
    with graph.as_default():
        v = {name: hr.Variable(value, name=name) for name, value in weights.items()}
        inputs = {name: hr.placeholder(hr.as_dtype(value.dtype), value.shape) for name, value in data.items()}
        result = MODELS[kind](v, inputs)
        fetches: list[Any] = [result]
        if v:
            fetches.append(hr.optim.Momentum(RATE, momentum=MOMENTUM).minimize(result))
    options = hr.config(backend=os.environ.get("HEADRACE_BENCH_BACKEND", "cpu"), threads=threads)
    step = hr.Session(graph, config=options).make_callable(fetches, list(inputs.values()))
    arrays = list(data.values())

    def run() -> float:
        value = step(*arrays)[0]
        return float(value) if v else float(value.reshape(-1)[0])

    return run


def _loss(logits: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
    loss: hr.Tensor = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=logits))
    return loss


def _mlp(v: Any, t: Any) -> hr.Tensor:
    h = hr.nn.relu(t["x"] @ v["w0"] + v["b0"])
    h = hr.nn.relu(h @ v["w1"] + v["b1"])
    return _loss(h @ v["w2"] + v["b2"], t["y"])


def _cnn(v: Any, t: Any) -> hr.Tensor:
    h = t["x"]
    for layer in range(3):
        h = hr.nn.relu(hr.nn.conv2d(h, v[f"k{layer}"], padding="SAME") + v[f"b{layer}"])
        h = hr.nn.max_pool2d(h, 2, 2) if layer else h
    h = hr.nn.relu(hr.reshape(h, [64, -1]) @ v["w3"] + v["b3"])
    return _loss(h @ v["w4"] + v["b4"], t["y"])


def _lstm(v: Any, t: Any) -> hr.Tensor:
    rows = hr.unstack(hr.gather(v["embedding"].value, t["x"]), axis=1)
    h, c, states = hr.zeros([32, 512]), hr.zeros([32, 512]), []
    for row in rows:
        i, j, f, o = hr.split(hr.concat([row, h], axis=1) @ v["w"] + v["b"], 4, axis=1)
        c = c * hr.sigmoid(f + 1.0) + hr.sigmoid(i) * hr.tanh(j)
        h = hr.tanh(c) * hr.sigmoid(o)
        states.append(h)
    flat = hr.reshape(hr.stack(states, axis=1), [640, 512])
    return _loss(flat @ v["out"] + v["bias"], hr.reshape(t["y"], [-1]))


def _normed(x: hr.Tensor, gain: Any, shift: Any) -> hr.Tensor:
    centred = x - hr.mean(x, axis=-1, keepdims=True)
    variance = hr.mean(hr.square(centred), axis=-1, keepdims=True)
    result: hr.Tensor = centred * hr.rsqrt(variance + 1e-5) * gain + shift
    return result


def _gpt(v: Any, t: Any) -> hr.Tensor:
    h = hr.reshape(hr.gather(v["embedding"].value, t["x"]) + v["position"], [1024, 256])
    mask = hr.constant(np.triu(np.full((128, 128), -1e9, np.float32), 1))

    def heads(x: hr.Tensor) -> hr.Tensor:
        result: hr.Tensor = hr.permute_dims(hr.reshape(x, [8, 128, 4, 64]), (0, 2, 1, 3))
        return result

    for n in range(4):
        a = _normed(h, v[f"gain_a{n}"], v[f"shift_a{n}"])
        q, k, value = (heads(part) for part in hr.split(a @ v[f"qkv{n}"] + v[f"qkv_b{n}"], 3, axis=1))
        scores = hr.matmul(q, k, transpose_b=True) * 0.125 + mask
        mixed = hr.reshape(hr.permute_dims(hr.nn.softmax(scores) @ value, (0, 2, 1, 3)), [1024, 256])
        h = h + mixed @ v[f"o{n}"] + v[f"o_b{n}"]
        b = _normed(h, v[f"gain_b{n}"], v[f"shift_b{n}"])
        wide = hr.nn.gelu(b @ v[f"up{n}"] + v[f"up_b{n}"], approximate=True)
        h = h + wide @ v[f"down{n}"] + v[f"down_b{n}"]
    return _loss(_normed(h, v["gain"], v["shift"]) @ v["out"], hr.reshape(t["y"], [-1]))


def _softmax(v: Any, t: Any) -> hr.Tensor:
    result: hr.Tensor = hr.nn.softmax(t["x"])
    return result


def _small(v: Any, t: Any) -> hr.Tensor:
    result: hr.Tensor = t["x"] + 1.0
    return result


def _chain(v: Any, t: Any) -> hr.Tensor:
    x = t["x"]
    for number in range(1000):
        x = x + 1.0 if number % 2 else x * 1.0001
    result: hr.Tensor = x
    return result


MODELS: dict[str, Callable[[Any, Any], hr.Tensor]] = {
    "mlp": _mlp, "cnn": _cnn, "lstm": _lstm, "gpt": _gpt, "softmax": _softmax, "small": _small, "chain": _chain,
}  # fmt: skip
