"""Saving and loading one large step, beside the disk's own speed and beside other writers, in one run.

    python packages/checkpoint/benchmarks/speed.py [--gigabytes 1] [--rounds 3] [--directory DIR] [--json FILE]

`disk` writes the same bytes to one file and forces them to the disk. safetensors, torch and orbax take part where they
are installed; none of them forces anything, so each of their saves is followed by a `sync` of the file, for the same
promise. Values are medians; the spread is (max - min) / median.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from headrace_checkpoint.saver import CheckpointManager
from headrace_checkpoint.store import StoredStep, write_step

TENSORS = 16
BLOCK = 8 << 20
SAVES = 3


def main() -> None:
    """Print every time, and write them to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="GiB of float32 values")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="on the disk to measure; by default the temporary folder")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=chosen.directory)).resolve()  # orbax takes absolute paths only
    try:
        seconds = measure(folder, int(chosen.gigabytes * (1 << 30)), chosen.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result: dict[str, Any] = {"bytes": int(chosen.gigabytes * (1 << 30)), "numpy": np.__version__, "seconds": {}}
    for name, times in seconds.items():
        middle = statistics.median(times)
        spread = (max(times) - min(times)) / middle
        result["seconds"][name] = {"median": middle, "spread": spread}
        print(f"{name:<28} {middle * 1000:10.2f} ms  spread {spread:.2f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


def measure(folder: Path, size: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of every round, by what was done; the contestants take turns, in one order and then in the other."""
    rng = np.random.default_rng(0)
    each = size // TENSORS // 4
    arrays = {f"layer_{number:02d}/kernel": rng.standard_normal(each, np.float32) for number in range(TENSORS)}
    savers = {"disk": _write_plain, "headrace save": _save_headrace, **_peers()}
    seconds: dict[str, list[float]] = {}
    for number in range(rounds):
        turns = list(savers.items())
        for name, save in turns if number % 2 else reversed(turns):
            seconds.setdefault(name, []).append(_timed(lambda save=save: save(folder, arrays)))  # type: ignore[misc]
            os.sync()  # so that nobody pays for what the one before him left
        seconds.setdefault("headrace load, verified", []).append(_timed(lambda: _load_headrace(folder, verify=True)))
        seconds.setdefault("headrace load, mapped", []).append(_timed(lambda: _load_headrace(folder, verify=False)))
        for name, load in _loaders().items():
            seconds.setdefault(name, []).append(_timed(lambda load=load: load(folder)))  # type: ignore[misc]
        _clean(folder)
        for name, times in _asynchronous(folder, arrays).items():
            seconds.setdefault(name, []).extend(times)
        _clean(folder)
    return seconds


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _clean(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    os.sync()


def _write_plain(folder: Path, arrays: dict[str, Any]) -> None:
    with open(folder / "plain", "wb") as file:
        for array in arrays.values():
            content = memoryview(array).cast("B")
            for begin in range(0, len(content), BLOCK):
                file.write(content[begin : begin + BLOCK])
        file.flush()
        os.fsync(file.fileno())


def _save_headrace(folder: Path, arrays: dict[str, Any]) -> None:
    write_step(folder / "steps", 1, arrays, time=0.0)
    for stale in (folder / "steps").glob("step-00000001-*"):
        stale.rename(folder / "steps" / "step-00000001")


def _load_headrace(folder: Path, *, verify: bool) -> None:
    StoredStep(folder / "steps" / "step-00000001").read_all(verify=verify)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _peers() -> dict[str, Callable[[Path, dict[str, Any]], None]]:
    peers: dict[str, Callable[[Path, dict[str, Any]], None]] = {}
    safetensors, torch, orbax = (_optional(name) for name in ("safetensors.numpy", "torch", "orbax.checkpoint"))
    if safetensors is not None:

        def save_safetensors(folder: Path, arrays: dict[str, Any]) -> None:
            safetensors.save_file(arrays, folder / "peer.safetensors")
            _sync(folder / "peer.safetensors")

        peers["safetensors save"] = save_safetensors
    if torch is not None:

        def save_torch(folder: Path, arrays: dict[str, Any]) -> None:
            torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, folder / "peer.pt")
            _sync(folder / "peer.pt")

        peers["torch save"] = save_torch
    if orbax is not None:

        def save_orbax(folder: Path, arrays: dict[str, Any]) -> None:
            orbax.PyTreeCheckpointer().save(folder / "orbax", arrays, force=True)

        peers["orbax save"] = save_orbax
    return peers


def _loaders() -> dict[str, Callable[[Path], object]]:
    safetensors, torch = _optional("safetensors.numpy"), _optional("torch")
    loaders: dict[str, Callable[[Path], object]] = {}
    if safetensors is not None:
        loaders["safetensors load"] = lambda folder: safetensors.load_file(folder / "peer.safetensors")
    if torch is not None:
        loaders["torch load"] = lambda folder: torch.load(folder / "peer.pt", weights_only=True)
    return loaders


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _asynchronous(folder: Path, arrays: dict[str, Any]) -> dict[str, list[float]]:
    """How long training stands still for asynchronous saves, the slower step after each included, and their whole time.

    A training step here does nothing but change every variable, so it has nothing behind which to hide.
    """
    graph = hr.Graph()
    with graph.as_default():
        variables = [hr.Variable(hr.zeros(array.shape), name=name) for name, array in arrays.items()]
        updates: list[Any] = [variable.assign_sub(hr.ones(variable.shape)) for variable in variables]
        step = hr.group(updates)
    found: dict[str, list[float]] = {}
    with (
        hr.Session(graph) as session,
        CheckpointManager(folder / "async", keep_latest=1, asynchronous=True) as manager,
    ):
        train = session.make_callable(step)
        session.write_variables(arrays)
        manager.reserve(session)  # as the trainer's callback does before the first step
        manager.wait()
        for number in range(1 + SAVES):
            train()
            plain = statistics.median(_timed(train) for _ in range(5))
            kind = "async save" if number else "first async save"
            start = time.perf_counter()
            manager.save(session, number)
            called = time.perf_counter()
            first = _timed(train)  # each variable goes on in other memory: what is written is still read
            manager.wait()
            found.setdefault(f"{kind}, whole", []).append(time.perf_counter() - start)
            found.setdefault(f"{kind}, stall", []).append(called - start + max(0.0, first - plain))
    return found


if __name__ == "__main__":
    main()
