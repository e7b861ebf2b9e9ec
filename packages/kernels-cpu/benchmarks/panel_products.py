"""What products with constants by code of our own gain: dense layers and convolutions of one tap beside oneDNN's.

Each layer has a bias and relu, and there is each as often as its weights fill 100 MB, more than caches hold, as in a
network: so weights come from memory. All read one input. The ways take turns, round by round. It prints medians over
the rounds in microseconds for a layer, and the ratio.

Run: `python panel_products.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import headrace as hr

CONVOLUTIONS = [
    (56, 64, 256, 1), (56, 256, 64, 1), (56, 256, 512, 2), (28, 128, 512, 1), (28, 512, 128, 1), (28, 512, 1024, 2),
    (14, 256, 1024, 1), (14, 1024, 256, 1), (14, 1024, 2048, 2), (7, 512, 2048, 1), (7, 2048, 512, 1),
]  # fmt: skip
"""Rows and columns of an image, channels in and out, stride: those of ResNet-50."""
DENSE = [(rows, width, width) for rows in (16, 64, 256, 1024) for width in (256, 1024, 4096)]
"""Rows, inputs and outputs."""
WEIGHT_BYTES = 100 << 20
"""Of all layers of one kind."""
MOST_LAYERS = 50


@dataclass(frozen=True, slots=True)
class Result:
    """One row: medians in microseconds of a layer by oneDNN and by code of our own."""

    layer: str
    onednn: float
    own: float

    @property
    def ratio(self) -> float:
        """Our time over that of oneDNN."""
        return self.own / self.onednn


Layer = Callable[[hr.Tensor, int], hr.Tensor]


def layers(*, quick: bool) -> Iterator[tuple[str, tuple[int, ...], int, Layer]]:
    """Yield name, shape of the input, bytes of weights, and what builds a layer with its own ones."""
    for size, given, made, stride in CONVOLUTIONS[::4] if quick else CONVOLUTIONS:

        def convolution(
            x: hr.Tensor, seed: int, given: int = given, made: int = made, stride: int = stride
        ) -> hr.Tensor:
            kernel = np.random.default_rng(seed).standard_normal((1, 1, given, made), np.float32)
            return hr.nn.relu(hr.nn.conv2d(x, kernel, strides=stride) + np.ones(made, np.float32))

        name = f"{size} x {size}, {given} to {made} channels, stride {stride}"
        yield name, (1, size, size, given), 4 * given * made, convolution
    for rows, given, made in DENSE[1:6:2] if quick else DENSE:

        def dense(x: hr.Tensor, seed: int, given: int = given, made: int = made) -> hr.Tensor:
            weights = np.random.default_rng(seed).standard_normal((given, made), np.float32)
            return hr.nn.relu(x @ weights + np.ones(made, np.float32))

        yield f"{rows} rows, {given} to {made}", (rows, given), 4 * given * made, dense


def measured(name: str, shape: tuple[int, ...], weight_bytes: int, layer: Layer, rounds: int) -> Result:
    """Both ways, one after the other in each round."""
    count = min(MOST_LAYERS, max(2, WEIGHT_BYTES // weight_bytes))
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, shape)
        done = [hr.sum(layer(x, seed)[..., :1]) for seed in range(count)]
    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    times: dict[str, list[float]] = {"off": [], "on": []}
    with ExitStack() as sessions:
        steps = {}
        for way in times:
            os.environ["HEADRACE_PANEL_PRODUCTS"] = way
            session = sessions.enter_context(hr.Session(graph, config=hr.config(backend="cpu")))
            steps[way] = session.make_callable(done, [x])
            steps[way](values)
        for _ in range(rounds):
            for way, step in steps.items():
                begin = time.perf_counter()
                step(values)
                times[way].append((time.perf_counter() - begin) * 1e6 / count)
    return Result(name, statistics.median(times["off"]), statistics.median(times["on"]))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="some of the layers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    options = parser.parse_args()
    found = []
    print(f"{'layer':45} {'oneDNN':>9} {'own':>9} {'ratio':>6}")
    for row in (measured(*layer, rounds=5 if options.quick else 15) for layer in layers(quick=options.quick)):
        found.append({**asdict(row), "ratio": row.ratio})
        print(f"{row.layer:45} {row.onednn:9.1f} {row.own:9.1f} {row.ratio:6.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
