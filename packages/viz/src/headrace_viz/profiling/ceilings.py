"""What this machine can do at best: the measure for the rates of operations."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_MATRIX = 768
_COPY_BYTES = 1 << 26  # beyond the caches of most machines
_ROUNDS = 5


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
    """Measure the matrix product and the copy of this machine, once per process; takes about a quarter of a second."""
    left = np.ones((_MATRIX, _MATRIX), np.float32)
    product = np.empty_like(left)
    source = np.ones(_COPY_BYTES, np.uint8)
    target = np.ones_like(source)
    matmul_seconds = _best(lambda: np.matmul(left, left, out=product))
    copy_seconds = _best(lambda: np.copyto(target, source))
    return Ceilings(2 * _MATRIX**3 / matmul_seconds / 1e9, 2 * _COPY_BYTES / copy_seconds / 1e9)


def _best(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest call: whatever else the machine does can only slow one down."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
