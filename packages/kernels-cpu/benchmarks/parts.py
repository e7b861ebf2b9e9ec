"""What it gains that each thread multiplies rows or columns of its own: products in parts beside oneDNN's own sharing.

The products are those of a layer of a network that is trained, with a batch, inputs and outputs: the layer itself, the
gradient of its weight, and that of its input. Each is measured as a step of its own, and then all of them with an
update, as a step of training: a thread then finds what it wrote itself. The ways take turns, round by round. It prints
medians over the rounds in microseconds, and the ratio: where threads have no cache in common, it is lower.

Run: `python parts.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import headrace as hr

LAYERS = [(batch, inputs, outputs) for batch in (64, 128, 512, 1024) for inputs in (256, 512, 1024, 2048)
          for outputs in (256, 512, 1024, 2048)]  # fmt: skip
QUICK = [(128, 784, 512), (128, 512, 512), (1024, 256, 1024)]
"""The layers of the small network and of the transformer of `tools/bench`."""
PRODUCTS = ("layer", "weight's gradient", "input's gradient", "all of training")


@dataclass(frozen=True, slots=True)
class Result:
    """One row: medians in microseconds with oneDNN's sharing and with parts."""

    batch: int
    inputs: int
    outputs: int
    product: str
    shared: float
    parts: float

    @property
    def ratio(self) -> float:
        """The time with parts over that without."""
        return self.parts / self.shared


def step_of(layer: tuple[int, int, int], product: str) -> Callable[[], object]:
    """A step that computes one product from variables into a variable, or all that training a layer takes."""
    batch, inputs, outputs = layer
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> hr.Variable:
        return hr.Variable(random.standard_normal(shape, np.float32))

    graph = hr.Graph()
    with graph.as_default():
        x, w, dy = numbers(batch, inputs), numbers(inputs, outputs), numbers(batch, outputs)
        if product == "layer":
            done = [numbers(batch, outputs).assign(x.value @ w.value)]
        elif product == "weight's gradient":
            done = [numbers(inputs, outputs).assign(hr.matmul(x.value, dy.value, transpose_a=True))]
        elif product == "input's gradient":
            done = [numbers(batch, inputs).assign(hr.matmul(dy.value, w.value, transpose_b=True))]
        else:
            loss = hr.mean(hr.square(hr.nn.relu(x.value @ w.value) - dy.value))
            done = [hr.optim.Momentum(1e-6, momentum=0.9).minimize(loss, [w, x])]
    return hr.Session(graph).make_callable(done)


def measured(layer: tuple[int, int, int], product: str, rounds: int) -> Result:
    """Both ways, one after the other in each round."""
    steps = {}
    for way in ("off", "on"):
        os.environ["HEADRACE_PARTS"] = way
        steps[way] = step_of(layer, product)
        for _ in range(5):
            steps[way]()
    times: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(rounds):
        for way, step in steps.items():
            begin = time.perf_counter()
            step()
            times[way].append((time.perf_counter() - begin) * 1e6)
    return Result(*layer, product, statistics.median(times["off"]), statistics.median(times["on"]))


def results(*, quick: bool) -> Iterator[Result]:
    """Yield one row after the other."""
    for layer in QUICK if quick else LAYERS:
        for product in PRODUCTS:
            yield measured(layer, product, 50 if quick else 100)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="What products in parts gain.")
    parser.add_argument("--quick", action="store_true", help="three layers only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    options = parser.parse_args()
    found = []
    print(f"{'batch':>6} {'inputs':>6} {'outputs':>7}  {'product':18} {'oneDNN':>9} {'parts':>9} {'ratio':>6}")
    for row in results(quick=options.quick):
        found.append({**asdict(row), "ratio": row.ratio})
        sizes = f"{row.batch:6} {row.inputs:6} {row.outputs:7}"
        print(f"{sizes}  {row.product:18} {row.shared:9.1f} {row.parts:9.1f} {row.ratio:6.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
