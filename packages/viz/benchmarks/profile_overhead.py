"""What profiling costs a training step, and how much of a step its operations account for.

The same step runs with and without the profiler in turns, so that a busy moment of the machine falls on both. Linear
algebra takes one thread, so that a step is the work of one thread alone, and its processor time is the wall time that
it takes on a machine that does nothing else. Medians of the processor times are compared, because wall times differ by
more than what is looked for while other programs run; those stand beside them.

The NumPy backend runs one operation after the other, in about 10 ms; the native one runs groups of them in one call of
about 4 ms, and comes back to Python before each only because somebody follows.

Run: `python profile_overhead.py [--backend cpu] [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before NumPy is loaded

import numpy as np

import headrace as hr
import headrace_viz


@dataclass(frozen=True, slots=True)
class Network:
    """A network of three layers that is trained on images of 784 pixels: how many at once, and its hidden units."""

    batch: int
    hidden: tuple[int, int]


NETWORKS = {"numpy": Network(192, (1024, 256)), "cpu": Network(128, (512, 512))}
"""By backend; that of the native one is the `mlp` of the comparison with other frameworks: its operations are short."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured.

    Attributes:
      backend: what ran the step.
      step_ms: processor time of a step without the profiler, milliseconds.
      overhead: part by which the profiler makes it longer.
      wall_overhead: part by which it makes the wall time longer, where nothing else runs.
      operations: operations and groups of a step.
      op_share: sum of the times of a step's operations over the time around the call of the step, median.
      op_share_lowest: the same of the worst step of ten, so that one interruption does not decide.
    """

    backend: str
    step_ms: float
    overhead: float
    wall_overhead: float
    operations: int
    op_share: float
    op_share_lowest: float


def training_step(backend: str) -> Callable[[], object]:
    """Build a step of a network of three layers with momentum.

    Args:
      backend: what runs it.
    """
    network = NETWORKS[backend]
    batch, (first, second) = network.batch, network.hidden
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [batch, 784])
        labels = hr.placeholder(hr.int32, [batch])
        hidden: hr.Tensor = x
        for number, (inputs, outputs) in enumerate(((784, first), (first, second), (second, 10))):
            w = hr.Variable(hr.random.normal([inputs, outputs], stddev=0.05, seed=number), name=f"w{number}")
            b = hr.Variable(hr.zeros([outputs]), name=f"b{number}")
            hidden = hr.matmul(hidden, w) + b
            hidden = hr.nn.relu(hidden) if outputs > 10 else hidden
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=labels, logits=hidden))
        train = hr.optim.Momentum(0.01, momentum=0.9).minimize(loss)
    config = hr.config(backend=backend, threads=1)
    step = hr.Session(graph, config=config).make_callable([loss, train], feeds=[x, labels])
    generator = np.random.default_rng(1)
    images = generator.normal(size=(batch, 784)).astype(np.float32)
    classes = generator.integers(0, 10, batch).astype(np.int32)
    return lambda: step(images, classes)


def measure(backend: str, rounds: int) -> Result:
    """Measure with a number of steps of each kind."""
    step = training_step(backend)
    processor: dict[bool, list[float]] = {False: [], True: []}
    wall: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as logdir:
        with headrace_viz.profile(logdir, every_step=False) as recording:
            for number in range(2 * rounds + 10):
                profiled = number % 2 == 0
                with recording.trace.all_steps() if profiled else contextlib.nullcontext():
                    start, busy = time.perf_counter(), time.thread_time()
                    step()
                    spent = time.thread_time() - busy, time.perf_counter() - start
                if number >= 10:  # the first ones make plans and warm up
                    processor[profiled].append(spent[0])
                    wall[profiled].append(spent[1])
        walls = []
        with headrace_viz.profile(logdir) as whole:
            for _ in range(40):
                begin = time.perf_counter_ns()
                step()
                walls.append(time.perf_counter_ns() - begin)
    shares = sorted(found.op_ns / wall for found, wall in zip(whole.timeline.steps, walls, strict=True))
    return Result(
        backend=backend,
        step_ms=statistics.median(processor[False]) * 1e3,
        overhead=statistics.median(processor[True]) / statistics.median(processor[False]) - 1,
        wall_overhead=statistics.median(wall[True]) / statistics.median(wall[False]) - 1,
        operations=len(whole.timeline.steps[0].events),
        op_share=statistics.median(shares),
        op_share_lowest=shares[len(shares) // 10],
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", choices=sorted(NETWORKS), default="numpy", help="what runs the step")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the result to this file too")
    chosen = parser.parse_args()
    result = measure(chosen.backend, 150 if chosen.quick else 400)
    print(f"a step of {result.operations} operations or groups takes {result.step_ms:.2f} ms")
    print(f"with the profiler {result.overhead:+.2%} (wall time {result.wall_overhead:+.2%})")
    print(f"operations take {result.op_share:.1%} of the time around a step ({result.op_share_lowest:.1%} at worst)")
    if chosen.json:
        chosen.json.write_text(json.dumps(asdict(result), indent=2) + "\n")


if __name__ == "__main__":
    main()
