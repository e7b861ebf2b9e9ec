"""What the machine can do at this moment: operations a second of a large product, bytes a second of a copy.

Run as `python -m bench.machine THREADS BYTES`, in a process of its own; prints JSON. The floor of a workload is what
these two numbers leave to it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["Machine", "copy_bandwidth", "measured", "peak_flops"]

SIDE = 2048
COPIED = 1 << 28


@dataclass(frozen=True, slots=True)
class Machine:
    """What was measured.

    Attributes:
      flops: operations a second of a float32 product, the better of oneDNN and NumPy's BLAS.
      bandwidth: bytes a second, read and written, of a copy.
    """

    flops: float
    bandwidth: float

    @classmethod
    def typical(cls, found: Sequence[Machine]) -> Machine:
        """The medians of what was measured in the same minutes as something else, whose median counts too."""
        return cls(statistics.median(one.flops for one in found), statistics.median(one.bandwidth for one in found))


def measured(python: str, threads: int, env: Mapping[str, str], moved: float = 0.0) -> Machine:
    """Measure in a process of its own.

    Args:
      python: an interpreter that has Headrace.
      threads: how many may be used.
      env: the environment variables.
      moved: bytes that the copy reads and writes, so that caches help it as they help the work; 0 for more than they
        hold.
    """
    command = [python, "-m", "bench.machine", str(threads), str(int(moved / 2) or COPIED)]
    done = subprocess.run(command, env=dict(env), check=True, capture_output=True, text=True)
    return Machine(**json.loads(done.stdout))


def _best(function: Callable[[], Any], seconds: float) -> float:
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 4:
        begin = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begin)
    return min(taken[1:])


def peak_flops(threads: int, seconds: float = 0.5) -> float:
    """Operations a second of a float32 product, by our backend and by NumPy."""
    import headrace as hr  # only where it is measured

    x = np.random.default_rng(0).standard_normal((SIDE, SIDE), np.float32)
    graph = hr.Graph()
    with graph.as_default():
        p = hr.placeholder(hr.float32, x.shape)
        product = p @ p
    step = hr.Session(graph, config=hr.config(backend="cpu", threads=threads)).make_callable(product, [p])
    out = np.empty_like(x)
    best = min(_best(lambda: step(x), seconds), _best(lambda: np.matmul(x, x, out=out), seconds))
    return 2.0 * SIDE**3 / best


def copy_bandwidth(threads: int, size: int = COPIED, seconds: float = 0.3) -> float:
    """Bytes a second, read and written, of a copy by so many threads; by one of them if that is faster.

    Args:
      threads: how many copy a part each.
      size: bytes to copy.
      seconds: how long to try.
    """
    source = np.ones(size // 4, np.float32)
    target = np.empty_like(source)
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:

        def together() -> None:
            list(pool.map(lambda part: np.copyto(part[1], part[0]), parts))

        best = min(_best(together, seconds), _best(lambda: np.copyto(target, source), seconds))
    return 2.0 * size / best


if __name__ == "__main__":
    count, size = map(int, sys.argv[1:])
    print(json.dumps(asdict(Machine(peak_flops(count), copy_bandwidth(count, size)))))
