"""The work that every framework does: weights and data by name, as NumPy arrays, and what a step costs in arithmetic.

Nothing here imports a framework: the workers of all peers read it, so that they compute the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["WORKS", "Work"]

Arrays = dict[str, Any]
RATE, MOMENTUM = 0.01, 0.9


@dataclass(frozen=True)
class Work:
    """One workload.

    Attributes:
      name: by which it is chosen.
      kind: what a peer has to build: a model with this name.
      make: gives the initial weights and the data.
      flops: arithmetic of one step, multiplications and additions of its products only.
    """

    name: str
    kind: str
    make: Callable[[], tuple[Arrays, Arrays]]
    flops: float


def _normal(rng: np.random.Generator, *shape: int, scale: float = 0.05) -> Any:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _mlp() -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    sizes = (784, 512, 512, 10)
    weights: Arrays = {}
    for layer, (before, after) in enumerate(itertools.pairwise(sizes)):
        weights[f"w{layer}"], weights[f"b{layer}"] = _normal(rng, before, after), np.zeros(after, np.float32)
    x = rng.standard_normal((128, 784), np.float32)
    return weights, {"x": x, "y": rng.integers(0, 10, 128).astype(np.int32)}


def _cnn() -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    weights: Arrays = {}
    for layer, (before, after) in enumerate(((3, 32), (32, 64), (64, 128))):
        weights[f"k{layer}"], weights[f"b{layer}"] = _normal(rng, 3, 3, before, after), np.zeros(after, np.float32)
    weights |= {"w3": _normal(rng, 8192, 256), "b3": np.zeros(256, np.float32)}
    weights |= {"w4": _normal(rng, 256, 10), "b4": np.zeros(10, np.float32)}
    x = rng.standard_normal((64, 32, 32, 3), np.float32)
    return weights, {"x": x, "y": rng.integers(0, 10, 64).astype(np.int32)}


def _lstm() -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    weights = {
        "embedding": _normal(rng, 10_000, 512),
        "w": _normal(rng, 1024, 2048),
        "b": np.zeros(2048, np.float32),
        "out": _normal(rng, 512, 10_000),
        "bias": np.zeros(10_000, np.float32),
    }
    x, y = (rng.integers(0, 10_000, (32, 20)).astype(np.int32) for _ in range(2))
    return weights, {"x": x, "y": y}


def _gpt() -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    width, vocabulary, length = 256, 1000, 128
    weights: Arrays = {
        "embedding": _normal(rng, vocabulary, width, scale=0.02),
        "position": _normal(rng, length, width, scale=0.02),
        "out": _normal(rng, width, vocabulary, scale=0.02),
        "gain": np.ones(width, np.float32),
        "shift": np.zeros(width, np.float32),
    }
    for layer in range(4):
        shapes = {"qkv": (width, 768), "o": (width, width), "up": (width, 1024), "down": (1024, width)}
        for name, shape in shapes.items():
            weights[f"{name}{layer}"] = _normal(rng, *shape, scale=0.02)
            weights[f"{name}_b{layer}"] = np.zeros(shape[1], np.float32)
        for name in ("gain_a", "gain_b"):
            weights[f"{name}{layer}"] = np.ones(width, np.float32)
        for name in ("shift_a", "shift_b"):
            weights[f"{name}{layer}"] = np.zeros(width, np.float32)
    x, y = (rng.integers(0, vocabulary, (8, length)).astype(np.int32) for _ in range(2))
    return weights, {"x": x, "y": y}


def _rows() -> tuple[Arrays, Arrays]:
    return {}, {"x": np.random.default_rng(0).standard_normal((4096, 1024), np.float32)}


def _small() -> tuple[Arrays, Arrays]:
    return {}, {"x": np.ones(4, np.float32)}


_MLP = 3 * 2 * 128 * (784 * 512 + 512 * 512 + 512 * 10) - 2 * 128 * 784 * 512
_CNN = 2 * 64 * 9 * (1024 * (2 * 3 * 32 + 3 * 32 * 64) + 256 * 3 * 64 * 128) + 6 * 64 * (8192 * 256 + 256 * 10)
_LSTM = 6 * (32 * 20 * 1024 * 2048 + 32 * 20 * 512 * 10_000)
_GPT = 6 * 1024 * (4 * (256 * 768 + 256 * 256 + 2 * 256 * 1024) + 256 * 1000) + 4 * 6 * 2 * 8 * 4 * 128 * 128 * 64

WORKS = {
    work.name: work
    for work in (
        Work("mlp", "mlp", _mlp, _MLP),
        Work("cnn", "cnn", _cnn, _CNN),
        Work("lstm", "lstm", _lstm, _LSTM),
        Work("gpt", "gpt", _gpt, _GPT),
        Work("softmax", "softmax", _rows, 0),
        Work("small", "small", _small, 0),
        Work("chain", "chain", _small, 0),
    )
}
