"""The memory that saving takes beside the state itself: one save, and many asynchronous ones.

    python packages/checkpoint/benchmarks/memory.py [--gigabytes 1] [--saves 100] [--directory DIR] [--json FILE]

Prints the peak of the resident memory during one save, the state itself included, and by how much asynchronous saves
between updates make it grow, from the tenth to the last; both in units of the state. What the process had before the
state was made is not counted. Reads /proc, which only Linux has.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import headrace as hr
from headrace_checkpoint.saver import CheckpointManager, Saver

VARIABLES = 16
WARM = 10
"""Saves before which memory may still grow: pools are filled, modules loaded."""


def main() -> None:
    """Print what was found, and write it to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="GiB of float32 values for the one save")
    parser.add_argument("--saves", type=int, default=100, help="asynchronous saves, of a 32th of that")
    parser.add_argument("--directory", type=Path, help="on the disk to use; by default the temporary folder")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=chosen.directory))
    size = int(chosen.gigabytes * (1 << 30))
    try:
        found = {**growth(folder / "many", size // 32, chosen.saves), **peak(folder / "one", size)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, value in found.items():
        print(f"{name:<40} {value:.3f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2) + "\n")


def resident(field: str = "VmRSS") -> int:
    """Bytes of memory of this process: what it holds now (`VmRSS`) or held at most (`VmHWM`)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def reset_peak() -> None:
    """Let the peak begin anew at what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


class State:
    """A session with variables of so many bytes together, and an operation that changes all of them."""

    def __init__(self, size: int) -> None:
        graph = hr.Graph()
        shape = [size // VARIABLES // 4]
        with graph.as_default():
            variables = [hr.Variable(hr.zeros(shape), name=f"v{number}") for number in range(VARIABLES)]
            updates: list[Any] = [variable.assign_add(hr.ones(shape)) for variable in variables]
            self.update = hr.group(updates)
        self.session = hr.Session(graph)
        self.session.run(self.update)


def peak(folder: Path, size: int) -> dict[str, float]:
    """The peak of one save."""
    base = resident()
    state = State(size)
    reset_peak()
    Saver().save(state.session, folder, step=1)
    return {"peak of a save / state": (resident("VmHWM") - base) / size}


def growth(folder: Path, size: int, saves: int) -> dict[str, float]:
    """By how much memory grows with the number of asynchronous saves, in units of the state."""
    state = State(size)
    levels = []
    with CheckpointManager(folder, keep_latest=2, asynchronous=True) as manager:
        for step in range(saves):
            manager.save(state.session, step)
            state.session.run(state.update)  # while the save goes on
            manager.wait()
            levels.append(resident())
    return {"growth over the saves / state": (levels[-1] - max(levels[:WARM])) / size}


if __name__ == "__main__":
    main()
