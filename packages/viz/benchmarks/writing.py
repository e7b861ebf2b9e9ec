"""What writing costs the program that calls: scalars, images, histograms, beside tensorboardX where it is installed.

One `add_scalar`, with all of its writing (the calls and the flush after them); one `add_image` of 1 MB of pixels, as
the caller sees it and with its compression and writing, for a picture with the spectrum of photographs, which can be
compressed, and for noise, which cannot; `add_histogram` of many floats; and a training step of about 10 ms with a
scalar logged at each, over the same step without.

Timing: the systems take turns, round by round, so that a busy moment of the machine falls on all of them; the result is
the median over the rounds, and the spread is the distance between the quartiles.

Run: `python writing.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before NumPy is loaded

import numpy as np

import headrace as hr
import headrace_viz

SIDE = 592  # 3 x 592 x 592 bytes are 1.05 MB
BATCH, WIDTH, CLASSES = 256, 1024, 10  # a step of about 10 ms


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one call of each system, in microseconds."""

    name: str
    microseconds: dict[str, float]
    spread: dict[str, float]

    @property
    def ratio(self) -> float | None:
        """The peer's cost over ours, or None where it was not measured."""
        theirs = self.microseconds.get("tensorboardX")
        return None if theirs is None else theirs / self.microseconds["headrace"]


def in_turns(names: tuple[str, ...], turns: dict[str, Callable[[], tuple[float, ...]]], rounds: int) -> list[Cost]:
    """Let each system have its turn, round by round.

    Args:
      names: what is measured.
      turns: for each system a function that returns the microseconds of one call, one number for each name.
      rounds: how many turns each has after a first one that does not count.
    """
    samples: dict[str, list[tuple[float, ...]]] = {system: [] for system in turns}
    for number in range(rounds + 1):
        for system, turn in turns.items():
            microseconds = turn()
            if number:
                samples[system].append(microseconds)
    costs = []
    for place, name in enumerate(names):
        columns = {system: [sample[place] for sample in taken] for system, taken in samples.items()}
        quartiles = {system: statistics.quantiles(times, n=4) for system, times in columns.items()}
        medians = {system: statistics.median(times) for system, times in columns.items()}
        costs.append(Cost(name, medians, {system: q[2] - q[0] for system, q in quartiles.items()}))
    return costs


def makers(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return for each system a function that makes a writer."""
    found: dict[str, Callable[[], Any]] = {"headrace": lambda: headrace_viz.SummaryWriter(folder / "headrace")}
    if importlib.util.find_spec("tensorboardX") is not None:
        import tensorboardX  # an optional peer

        found["tensorboardX"] = lambda: tensorboardX.SummaryWriter(str(folder / "tensorboardX"))
    return found


def scalars(writer: Any, count: int) -> tuple[float]:
    """Return the microseconds of one `add_scalar`, its writing included."""
    start = time.perf_counter()
    for step in range(count):
        writer.add_scalar("train/loss", 0.5, step)
    writer.flush()
    return ((time.perf_counter() - start) / count * 1e6,)


def pictures() -> dict[str, np.ndarray[Any, Any]]:
    """Return pictures of 1 MB, channels first: one with the spectrum of photographs (1/f), and noise."""
    numbers = np.random.default_rng(1)
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, np.newaxis], np.fft.rfftfreq(SIDE))
    frequency[0, 0] = np.inf
    gray, tints = numbers.normal(size=[SIDE, SIDE]), numbers.normal(size=[3, SIDE, SIDE])
    scene = np.fft.irfft2(np.fft.rfft2(gray + 0.3 * tints) / frequency, s=[SIDE, SIDE])
    natural = (128 + 50 * scene / scene.std()).clip(0, 255).astype(np.uint8)
    return {"natural": natural, "noise": numbers.integers(0, 256, [3, SIDE, SIDE], np.uint8)}


def image(make: Callable[[], Any], picture: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the microseconds that one `add_image` holds up its caller, and those until all is written.

    The writer is closed afterwards: a peer's thread goes on working after a flush, and would take time from the next.
    """
    writer = make()
    start = time.perf_counter()
    writer.add_image("picture", picture, 1)
    called = time.perf_counter()
    writer.flush()
    written = time.perf_counter()
    writer.close()
    return (called - start) * 1e6, (written - start) * 1e6


def histogram(make: Callable[[], Any], values: np.ndarray[Any, Any]) -> tuple[float]:
    """Return the microseconds of one `add_histogram`, its writing included; the writer is closed as in `image`."""
    writer = make()
    start = time.perf_counter()
    writer.add_histogram("weights", values, 1)
    writer.flush()
    microseconds = (time.perf_counter() - start) * 1e6
    writer.close()
    return (microseconds,)


def training_step() -> Callable[[], float]:
    """Return a training step of a small network, which returns its loss."""
    numbers = np.random.default_rng(1)
    images = numbers.normal(size=[BATCH, 784]).astype(np.float32)
    labels = numbers.integers(0, CLASSES, BATCH).astype(np.int32)
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x, y = hr.placeholder(hr.float32, [BATCH, 784]), hr.placeholder(hr.int32, [BATCH])
        w1 = hr.Variable(hr.random.normal([784, WIDTH], stddev=0.05), name="w1")
        w2 = hr.Variable(hr.random.normal([WIDTH, CLASSES], stddev=0.05), name="w2")
        logits = hr.nn.relu(x @ w1) @ w2
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=logits))
        train = hr.optim.SGD(0.01).minimize(loss)
    step = hr.Session(graph).make_callable([loss, train], feeds=[x, y])
    return lambda: float(step(images, labels)[0])


def logged_step(folder: Path, steps: int) -> dict[str, float]:
    """Return the microseconds of a training step without logging, and how many more it takes with it.

    Steps of both kinds take turns one by one, and their lowest deciles are compared: whatever else runs on the machine
    can only slow a step down.
    """
    step = training_step()
    times: dict[bool, list[float]] = {False: [], True: []}
    with headrace_viz.EventWriter(folder / "steps") as writer:
        for number in range(2 * steps + 20):
            logged = number % 2 == 1
            start = time.perf_counter()
            loss = step()
            if logged:
                writer.scalar("train/loss", loss, number)
            elapsed = (time.perf_counter() - start) * 1e6
            if number >= 20:
                times[logged].append(elapsed)
    plain, with_scalar = (statistics.quantiles(times[logged], n=10)[0] for logged in (False, True))
    return {"step_us": plain, "added_us": with_scalar - plain, "added_share": with_scalar / plain - 1}


def main() -> None:
    """Measure, print a table, and write the numbers to a file if asked."""
    parser = argparse.ArgumentParser(description="Cost of writing events")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller histograms")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    rounds, count, elements, steps = (3, 2_000, 1_000_000, 100) if arguments.quick else (15, 20_000, 10_000_000, 1_000)
    numbers = np.random.default_rng(1)
    values = numbers.normal(size=elements).astype(np.float32)
    images = pictures()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make = makers(folder)
        systems = {system: make_one() for system, make_one in make.items()}
        costs = in_turns(("add_scalar",), {s: lambda w=w: scalars(w, count) for s, w in systems.items()}, rounds)
        for writer in systems.values():
            writer.close()
        turns = {s: lambda m=m: histogram(m, values) for s, m in make.items()}
        costs += in_turns(("add_histogram",), turns, max(rounds, 9))
        for kind, picture in images.items():
            both = f"add_image, {kind}, call", f"add_image, {kind}, written"
            costs += in_turns(both, {s: lambda m=m, p=picture: image(m, p) for s, m in make.items()}, rounds)
        step = logged_step(folder, steps)
    for cost in costs:
        shown = ", ".join(
            f"{system} {us:.1f} us ({cost.spread[system]:.1f})" for system, us in cost.microseconds.items()
        )
        print(f"{cost.name:28} {shown}")
    print(f"{'training step':28} {step['step_us']:.0f} us, with a scalar {step['added_us']:+.1f} us more")
    if arguments.json is not None:
        result = {
            "costs": [{**asdict(cost), "ratio": cost.ratio} for cost in costs],
            "step": step,
            "elements": elements,
            "image_bytes": images["noise"].nbytes,
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
