"""Losses of training on examples that never come twice: `python -m measure.curves WORK PRECISION THREADS STEPS`.

On one batch again and again a loss falls to nothing, where two runs that are both right have nothing in common. Here
the labels follow from the inputs but for noise, so a loss falls to what the noise leaves. Prints the losses as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.peers.headrace_peer import build
from bench.worker import number
from bench.works import WORKS, Options

__all__ = ["examples", "losses"]

CLASSES = 10
STRENGTH = 30.0
"""Half of the mean distance between the middles of two classes, in deviations of the noise."""
PATCH = 8
"""Width and height of what has one colour in an image: a network of small filters sees no class in single dots."""
WORDS = 50
RIGHT = 0.8
"""How often a label is the one that follows from the input; else it is any, so that no loss gets near to zero."""


def examples(x: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Draw batches like the one given, without end: images of classes, or words that follow each other.

    Args:
      x: float32 [N, ...] of images, or int32 [N, T] of words.
      y: int32 [N] of classes, or [N, T] of words.
    """
    rng = np.random.default_rng(1)
    if np.issubdtype(x.dtype, np.floating):
        sizes = [size // PATCH for size in x.shape[1:3]] if x.ndim == 4 else []
        middles = rng.standard_normal((CLASSES, *sizes, x.shape[-1]), np.float32)
        for axis in range(1, middles.ndim - 1):
            middles = middles.repeat(PATCH, axis)
        middles *= np.float32(STRENGTH / np.sqrt(middles[0].size))
        while True:
            labels, others = (rng.integers(0, CLASSES, y.shape).astype(y.dtype) for _ in range(2))
            images = middles[labels] + rng.standard_normal(x.shape, np.float32)
            yield images, np.where(rng.random(y.shape) < RIGHT, labels, others)
    following = rng.permutation(WORDS).astype(y.dtype)
    while True:
        words = rng.integers(0, WORDS, x.shape).astype(x.dtype)
        others = rng.integers(0, WORDS, y.shape).astype(y.dtype)
        yield words, np.where(rng.random(y.shape) < RIGHT, following[words], others)


def losses(name: str, precision: str, threads: int, steps: int) -> list[float]:
    """Train a workload, and return the loss of each step.

    Args:
      name: of the workload.
      precision: `"float32"` or `"bfloat16"`.
      threads: how many may be used.
      steps: how many to do.
    """
    work = WORKS[name]
    weights, data = work.make()
    step = build(work, weights, data, Options(threads, precision=precision))
    found = []
    for _, (x, y) in zip(range(steps), examples(data["x"], data["y"]), strict=False):
        data["x"][...], data["y"][...] = x, y  # the step reads these arrays
        found.append(number(step()))
    return found


if __name__ == "__main__":
    chosen, kind, count, many = sys.argv[1:]
    print(json.dumps(losses(chosen, kind, int(count), int(many))))
