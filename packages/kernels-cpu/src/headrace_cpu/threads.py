"""How many threads there are to use: what the scheduler gives this process, and what its container may use."""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path

import numpy as np

__all__ = ["available_threads", "bound_blas"]

QUOTA = Path("/sys/fs/cgroup/cpu.max")

_process = os.getpid()


def available_threads() -> int:
    """The number of processors that this process may run on, within the quota of its control group.

    One in a process that was forked: the pool of threads did not come with it.
    """
    if os.getpid() != _process:
        return 1
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def bound_blas(threads: int) -> None:
    """Let the OpenBLAS that comes with NumPy use at most so many threads; others are left as they are."""
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    for path in sorted(folder.glob("*openblas*")):
        library = ctypes.CDLL(str(path))
        setter = getattr(library, "scipy_openblas_set_num_threads64_", None)
        if setter is not None:
            setter(threads)


def _quota() -> float | None:
    try:
        limit, period = QUOTA.read_text().split()
    except (OSError, ValueError):
        return None
    return None if limit == "max" else int(limit) / int(period)
