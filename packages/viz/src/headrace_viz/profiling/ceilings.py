"""What this machine can do at best: the measure for the rates of operations."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_MATRICES = (64, 256, 768)
"""Small ones too, which take one thread: on a busy machine the threads of a large product wait for each other."""
_COPY_BYTES = 1 << 26  # beyond the caches of most machines
_ROUNDS = 5
_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Measured speeds.

    Attributes:
      gflops: float32 matrix product, 1e9 floating-point operations per second.
      gbytes: copy within main memory, 1e9 bytes read and written per second.
    """

    gflops: float
    gbytes: float


@functools.cache
def measured_ceilings() -> Ceilings:
    """Measure the matrix product and the copy of this machine, once per process; takes about a third of a second."""
    source = np.ones(_COPY_BYTES, np.uint8)
    target = np.ones_like(source)
    copy_seconds = _best(lambda: np.copyto(target, source))
    return Ceilings(max(map(_product_gflops, _MATRICES)), 2 * _COPY_BYTES / copy_seconds / 1e9)


def _product_gflops(size: int) -> float:
    left = np.ones((size, size), np.float32)
    product = np.empty_like(left)
    return 2 * size**3 / _best(lambda: np.matmul(left, left, out=product)) / 1e9


def _best(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest call: whatever else the machine does can only slow one down."""
    times: list[float] = []
    while len(times) < _ROUNDS or sum(times) < _SECONDS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
