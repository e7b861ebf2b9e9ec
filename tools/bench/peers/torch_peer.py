"""The workloads in PyTorch, eager: on these sizes it is faster than `torch.compile`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

RATE, MOMENTUM = 0.01, 0.9


def build(kind: str, weights: dict[str, Any], data: dict[str, Any], threads: int) -> Callable[[], float]:
    """A step of the workload."""
    torch.set_num_threads(threads)
    v = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in weights.items()}
    t = {name: torch.from_numpy(value) for name, value in data.items()}
    model = MODELS[kind]
    if os.environ.get("BENCH_TORCH_COMPILE"):
        model = torch.compile(model)
    if not v:

        def plain() -> float:
            with torch.no_grad():
                return float(model(v, t).reshape(-1)[0])

        return plain
    optimizer = torch.optim.SGD(list(v.values()), RATE, MOMENTUM)

    def run() -> float:
        optimizer.zero_grad()
        loss = model(v, t)
        loss.backward()
        optimizer.step()
        return float(loss)

    return run


def _mlp(v: Any, t: Any) -> Any:
    h = torch.relu(t["x"] @ v["w0"] + v["b0"])
    h = torch.relu(h @ v["w1"] + v["b1"])
    return functional.cross_entropy(h @ v["w2"] + v["b2"], t["y"].long())


def _cnn(v: Any, t: Any) -> Any:
    h = t["x"].permute(0, 3, 1, 2).to(memory_format=torch.channels_last)
    for layer in range(3):
        h = torch.relu(functional.conv2d(h, v[f"k{layer}"].permute(3, 2, 0, 1), v[f"b{layer}"], padding=1))
        h = functional.max_pool2d(h, 2) if layer else h
    h = torch.relu(h.permute(0, 2, 3, 1).reshape(64, -1) @ v["w3"] + v["b3"])
    return functional.cross_entropy(h @ v["w4"] + v["b4"], t["y"].long())


def _lstm(v: Any, t: Any) -> Any:
    rows = functional.embedding(t["x"].long(), v["embedding"])
    h, c, states = torch.zeros(32, 512), torch.zeros(32, 512), []
    for row in rows.unbind(1):
        i, j, f, o = (torch.cat([row, h], 1) @ v["w"] + v["b"]).chunk(4, 1)
        c = c * torch.sigmoid(f + 1.0) + torch.sigmoid(i) * torch.tanh(j)
        h = torch.tanh(c) * torch.sigmoid(o)
        states.append(h)
    flat = torch.stack(states, 1).reshape(640, 512)
    return functional.cross_entropy(flat @ v["out"] + v["bias"], t["y"].long().reshape(-1))


def _gpt(v: Any, t: Any) -> Any:
    h = (functional.embedding(t["x"].long(), v["embedding"]) + v["position"]).reshape(1024, 256)

    def heads(x: Any) -> Any:
        return x.reshape(8, 128, 4, 64).transpose(1, 2)

    for n in range(4):
        a = functional.layer_norm(h, (256,), v[f"gain_a{n}"], v[f"shift_a{n}"])
        q, k, value = (heads(part) for part in (a @ v[f"qkv{n}"] + v[f"qkv_b{n}"]).chunk(3, 1))
        mixed = functional.scaled_dot_product_attention(q, k, value, is_causal=True)
        h = h + mixed.transpose(1, 2).reshape(1024, 256) @ v[f"o{n}"] + v[f"o_b{n}"]
        b = functional.layer_norm(h, (256,), v[f"gain_b{n}"], v[f"shift_b{n}"])
        wide = functional.gelu(b @ v[f"up{n}"] + v[f"up_b{n}"], approximate="tanh")
        h = h + wide @ v[f"down{n}"] + v[f"down_b{n}"]
    logits = functional.layer_norm(h, (256,), v["gain"], v["shift"]) @ v["out"]
    return functional.cross_entropy(logits, t["y"].long().reshape(-1))


def _softmax(v: Any, t: Any) -> Any:
    return torch.softmax(t["x"], -1)


def _small(v: Any, t: Any) -> Any:
    return t["x"] + 1.0


def _chain(v: Any, t: Any) -> Any:
    x = t["x"]
    for number in range(1000):
        x = x + 1.0 if number % 2 else x * 1.0001
    return x


MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "mlp": _mlp, "cnn": _cnn, "lstm": _lstm, "gpt": _gpt, "softmax": _softmax, "small": _small, "chain": _chain,
}  # fmt: skip
