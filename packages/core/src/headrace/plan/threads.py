"""How many threads computing may use: what the scheduler and the control group give, and BLAS held to it.

NumPy's products run on the pool of the BLAS that it was built with. That pool belongs to the process and knows nothing
of a session's options, so steps set its size when it differs from what theirs ask for.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["BlasLibrary", "available_threads", "blas_libraries", "blas_pools", "cgroup_quota", "own_quota"]

_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_MAPS = Path("/proc/self/maps")

_process = os.getpid()


def available_threads() -> int:
    """The number of processors that this process may run on, within the quota of its control group.

    One in a process that was forked: pools of threads do not come with it.
    """
    if os.getpid() != _process:
        return 1
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = own_quota()
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def own_quota() -> float | None:
    """How many processors the control group of this process may use at once, or None for no limit."""
    return cgroup_quota(_GROUPS, _text(_MEMBERSHIP) or "")


def cgroup_quota(groups: Path, membership: str) -> float | None:
    """How many processors a control group may use at once, or None for no limit; the tightest of it and its ancestors.

    Args:
      groups: where control groups are mounted.
      membership: the lines of `/proc/self/cgroup`. In a container the path in it may be one of the host, which is not
        there; the limit of the container then stands at the root.
    """
    limits: list[float] = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if controllers and "cpu" not in names:
            continue
        for root in [groups] if not controllers else [groups / "cpu", groups / controllers]:
            own = root / path.lstrip("/")
            for folder in dict.fromkeys((own, *own.parents)):
                if folder == root or root in folder.parents:
                    limits += _limits(folder)
    return min(limits, default=None)


def _limits(folder: Path) -> Iterable[float]:
    """The limits of one group, by the files of versions 2 and 1."""
    given = (_text(folder / "cpu.max") or "").split()
    given = given or [_text(folder / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
    try:
        quota, period = map(int, given)
    except ValueError:  # "max", or no such files
        return
    if quota > 0 and period > 0:
        yield quota / period


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _is_library(line: str) -> bool:
    """True for the line of a mapped library that is still there."""
    return ".so" in line and not line.endswith("(deleted)")


@dataclass(frozen=True, slots=True)
class BlasLibrary:
    """A BLAS that is loaded in this process.

    Attributes:
      name: of its kind.
      path: its file.
      read: gives the number of threads that it uses.
      write: sets it.
    """

    name: str
    path: str
    read: Callable[[], int]
    write: Callable[[int], object]


_SYMBOLS: dict[str, tuple[tuple[str, str], ...]] = {
    "openblas": tuple(
        (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
        for prefix in ("", "scipy_")
        for suffix in ("", "64_", "_64")
    ),
    "mkl_rt": (("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),),
    "blis": (("bli_thread_get_num_threads", "bli_thread_set_num_threads"),),
    "flexiblas": (("flexiblas_get_num_threads", "flexiblas_set_num_threads"),),
}
"""For a part of the name of a library's file the functions that read and set its number of threads."""


@functools.cache
def blas_libraries() -> Sequence[BlasLibrary]:
    """The BLAS libraries of this process whose threads can be set; one that has no such function is not among them."""
    found = []
    for path in _loaded_files():
        kind = next((kind for kind in _SYMBOLS if kind in Path(path).name.lower()), None)
        if kind is None:
            continue
        library = ctypes.CDLL(path)
        for reader, writer in _SYMBOLS[kind]:
            if hasattr(library, reader) and hasattr(library, writer):
                found.append(BlasLibrary(kind, path, getattr(library, reader), getattr(library, writer)))
                break
    return tuple(found)


def _loaded_files() -> Sequence[str]:
    """The shared libraries of this process; where the system does not list them, those that came with NumPy."""
    maps = _text(_MAPS)
    if maps is not None:
        return sorted({line.split(maxsplit=5)[5] for line in maps.splitlines() if _is_library(line)})
    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    return sorted(str(file) for folder in folders if folder.is_dir() for file in folder.iterdir())


class _BlasPools:
    """The pools of the BLAS libraries, as steps bound them. Mutable; there is one for the process.

    Attributes:
      threads: what was asked for last: a number, or None for what is there; 0 while nobody has asked.
    """

    def __init__(self) -> None:
        self.threads: int | None = 0
        self._own: list[int] = []  # what each library chose itself, or the user for it, before anybody asked
        self._lock = threading.Lock()

    def bound(self, threads: int | None) -> None:
        """Let each library use so many threads: all that it would use and the process may use, if it is None.

        A step calls this where `threads` is not what it wants. Steps that want different numbers at one time get the
        number of the one that began last: the libraries know only one.
        """
        with self._lock:
            libraries = blas_libraries()
            if not self._own:
                self._own = [library.read() for library in libraries]
            for library, own in zip(libraries, self._own, strict=True):
                library.write(min(own, available_threads()) if threads is None else threads)
            self.threads = threads


blas_pools = _BlasPools()
"""The pools of BLAS in this process."""
