"""What int8 gains: layers and convolutions after `hr.to_int8` beside the same in float32, with relu and bias.

The two take turns, round by round; printed are medians over the rounds, the distance between the quartiles, the ratio,
and the error of the output on the data that was measured with.

Run: `python int8.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr

Array = Any


@dataclass(frozen=True, slots=True)
class Result:
    """One row: times in ms (median, distance between quartiles) and the relative error of int8."""

    work: str
    float32: tuple[float, float]
    int8: tuple[float, float]
    error: float

    @property
    def ratio(self) -> float:
        """The time of int8 over that of float32."""
        return self.int8[0] / self.float32[0]


def works() -> Iterator[tuple[str, Callable[[hr.Tensor], hr.Tensor], tuple[int, ...]]]:
    """Yield name, model and the shape of its input."""
    random = np.random.default_rng(0)

    def numbers(*shape: int, scale: float) -> hr.Variable:
        return hr.Variable((scale * random.standard_normal(shape)).astype(np.float32))

    def dense(x: hr.Tensor) -> hr.Tensor:
        for _ in range(3):
            x = hr.nn.relu(x @ numbers(1024, 1024, scale=0.03) + numbers(1024, scale=1.0))
        return x

    def convolutions(x: hr.Tensor) -> hr.Tensor:
        for _ in range(3):
            x = hr.nn.relu(hr.nn.conv2d(x, numbers(3, 3, 64, 64, scale=0.04), padding="SAME") + numbers(64, scale=1.0))
        return x

    def separable(x: hr.Tensor) -> hr.Tensor:
        for _ in range(3):
            x = hr.nn.depthwise_conv2d(x, numbers(3, 3, 128, 1, scale=0.3), padding="SAME") + numbers(128, scale=1.0)
            x = hr.nn.conv2d(hr.nn.relu6(x), numbers(1, 1, 128, 128, scale=0.1)) + numbers(128, scale=1.0)
            x = hr.nn.relu6(x)
        return x

    for batch in (1, 128):
        yield f"three layers of 1024, batch {batch}", dense, (batch, 1024)
    for batch in (1, 8):
        yield f"three convolutions 3x3 of 64 channels at 32x32, batch {batch}", convolutions, (batch, 32, 32, 64)
    for batch in (1, 8):
        yield f"three depthwise 3x3 and 1x1 of 128 channels at 28x28, batch {batch}", separable, (batch, 28, 28, 128)


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """The time of one call."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) * 1000 / repeats


def spread(times: list[float]) -> tuple[float, float]:
    """Median and distance between the quartiles."""
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, high - low


def measure(name: str, build: Callable[[hr.Tensor], hr.Tensor], shape: tuple[int, ...], rounds: int) -> Result:
    """Measure one model in both forms."""
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, *shape[1:]])
        y = build(x)
    session = hr.Session(graph)
    model = hr.to_int8(session, y, [{x: values}])
    wide = session.make_callable(y, feeds=[x])
    narrow = hr.Session(model.graph).make_callable(model.outputs, feeds=[model.inputs[x]])
    calls: list[Callable[[], object]] = [lambda: wide(values), lambda: narrow(values)]
    times: list[list[float]] = [[], []]
    for call in calls:
        call()
    repeats = max(1, round(20 / max(milliseconds(calls[0], 3), 0.01)))
    for _ in range(rounds):
        for call, found in zip(calls, times, strict=True):
            found.append(milliseconds(call, repeats))
    return Result(name, spread(times[0]), spread(times[1]), model.report.errors[0].relative)


def main() -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    results = [measure(*work, rounds=5 if options.quick else 15) for work in works()]
    for row in results:
        sides = [f"{middle:8.3f} +- {distance:.3f} ms" for middle, distance in (row.float32, row.int8)]
        print(f"{row.work:62} float32 {sides[0]}  int8 {sides[1]}  ratio {row.ratio:.2f}  error {row.error:.2%}")
    if options.json:
        options.json.write_text(json.dumps([{**asdict(row), "ratio": row.ratio} for row in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
