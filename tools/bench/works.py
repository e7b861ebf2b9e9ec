"""The work that every framework does: weights and data by name, as NumPy arrays, and what a step costs at least.

Nothing here imports a framework: the workers of all peers read it, so that they compute the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import models
from bench.nets import NETS, Net

__all__ = ["MOMENTUM", "WARM", "WORKS", "Options", "Work", "chosen_works"]

Arrays = dict[str, Any]
MOMENTUM = 0.9


@dataclass(frozen=True, slots=True)
class Options:
    """How a framework is to run.

    Attributes:
      threads: how many it may use.
      variant: what the peer's name says after `-`, such as `compile` of `torch-compile`.
      precision: `"float32"`, or `"bfloat16"`, which only Headrace is asked for: peers then stay what to compare with.
      deterministic: give the same bits whatever the number of threads is; only Headrace is asked for it.
    """

    threads: int
    variant: str = ""
    precision: str = "float32"
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """One workload.

    Attributes:
      name: by which it is chosen; what stands before `-` chooses all of its sizes.
      kind: what a step does: `"train"` (the model's loss, its gradients, SGD with momentum), `"infer"` (the model's
        value), `"adam"` (an update of the weights by the gradients that are the data) or `"sparse"` (the model's loss
        of the rows `x` of `table`, and SGD of these rows alone).
      model: of the words of a peer, weights and data; of words and rows with `"sparse"`; nothing with `"adam"`.
      make: gives the initial weights and the data.
      flops: arithmetic of one step, multiplications and additions of its products only.
      moved: bytes that one step must read and write at least; 0 where arithmetic is what takes the time.
      rate: how far an update goes.
      repeat: steps that are timed together, because one is too short for the clock.
    """

    name: str
    kind: str
    model: Callable[..., Any] | None
    make: Callable[[], tuple[Arrays, Arrays]]
    flops: float = 0.0
    moved: float = 0.0
    rate: float = 0.01
    repeat: int = 1

    def floor(self, flops: float, bandwidth: float) -> float:
        """Seconds that a step takes at least on a machine of so many operations and bytes a second."""
        return max(self.flops / flops, self.moved / bandwidth)


def chosen_works(names: str) -> list[Work]:
    """Workloads by comma-separated names."""
    found: list[Work] = []
    for name in names.split(","):
        matching = [work for work in WORKS.values() if name in (work.name, work.name.split("-")[0])]
        if not matching:
            raise SystemExit(f"there is no workload {name!r}; known are {', '.join(WORKS)}")
        found += matching
    return found


def _normal(rng: np.random.Generator, *shape: int, scale: float = 0.05) -> Any:
    return rng.standard_normal(shape, np.float32) * np.float32(scale)


def _net_arrays(net: Net, batch: int) -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    weights = net.weights(rng)
    x = rng.standard_normal((batch, *net.shape), np.float32)
    return weights, {"x": x, "y": rng.integers(0, net.layers[-1].shape[0], batch).astype(np.int32)}


def _training(name: str, net: Net, batch: int, rate: float = 0.01) -> Work:
    model, make = functools.partial(models.classified, net), functools.partial(_net_arrays, net, batch)
    return Work(name, "train", model, make, batch * net.training_flops, rate=rate)


def _inference(name: str, batch: int) -> Work:
    net = NETS[name]

    def make() -> tuple[Arrays, Arrays]:
        weights, data = _net_arrays(net, batch)
        return weights, {"x": data["x"]}

    def model(f: models.Words, v: Arrays, t: Arrays) -> Any:
        return models.logits(net, f, v, t["x"])

    return Work(f"{name}-{batch}", "infer", model, make, batch * net.flops)


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


ADAM_TENSORS, ADAM_SIZE = 100, 1 << 16
TABLE, LOOKUPS, WIDTH = 100_000, 4096, 128


def _adam() -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    made = [{f"w{n}": _normal(rng, ADAM_SIZE) for n in range(ADAM_TENSORS)} for _ in range(2)]
    return made[0], made[1]


def _table() -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    return {"table": _normal(rng, TABLE, WIDTH)}, {"x": rng.integers(0, TABLE, LOOKUPS).astype(np.int32)}


def _rows(*shape: int) -> tuple[Arrays, Arrays]:
    return {}, {"x": np.random.default_rng(0).standard_normal(shape, np.float32)}


def _pair(*shape: int) -> tuple[Arrays, Arrays]:
    rng = np.random.default_rng(0)
    return {}, {name: rng.standard_normal(shape, np.float32) for name in ("x", "y")}


ROWS = 4096
WIDTHS = (256, 1024, 4096, 16384, 65536)
_LSTM = 6.0 * (32 * 20 * 1024 * 2048 + 32 * 20 * 512 * 10_000)
_GPT = 6.0 * 1024 * (4 * (256 * 768 + 256 * 256 + 2 * 256 * 1024) + 256 * 1000) + 4 * 6 * 2 * 8 * 4 * 128 * 128 * 64


def _shared_by_threads() -> Net:
    net = Net(256)
    net.dense(net.dense(0, 768), 10, relu=False)
    return net


WARM = _training("warm", _shared_by_threads(), 128)
"""Done once before the first step that is looked at: what a framework loads for any step is not counted to one. It is
large enough for threads to be started and for products to be shared among them."""

WORKS = {
    work.name: work
    for work in (
        _training("mlp", NETS["mlp"], 128),
        _training("cnn", NETS["cnn"], 64),
        Work("lstm", "train", models.lstm, _lstm, _LSTM),
        Work("gpt", "train", models.gpt, _gpt, _GPT),
        _training("alexnet", NETS["alexnet"], 16, 1e-3),
        _training("overfeat", NETS["overfeat"], 16, 1e-3),
        _training("vgg_a", NETS["vgg_a"], 16, 1e-3),
        _training("googlenet", NETS["googlenet"], 16, 1e-3),
        _inference("resnet50", 1),
        _inference("resnet50", 8),
        Work("adam", "adam", None, _adam, moved=7.0 * 4 * ADAM_SIZE * ADAM_TENSORS, rate=1e-3),
        Work("elementwise", "infer", models.elementwise, lambda: _pair(4096, 1024), moved=3.0 * 4 * 4096 * 1024),
        *(
            Work(f"{name}-{width}", "infer", model, functools.partial(_rows, ROWS, width), moved=2.0 * 4 * ROWS * width)
            for name, model in (("softmax", models.softmax), ("layer_norm", models.layer_norm))
            for width in WIDTHS
        ),
        Work("embedding", "sparse", models.embedding, _table, moved=3.0 * 4 * LOOKUPS * WIDTH),
        Work("chain", "infer", models.chain, lambda: _rows(4)),
        Work("small", "infer", models.small, lambda: _rows(4), repeat=100),
        Work("loop", "infer", models.loop, lambda: _pair(16)),
    )
}
