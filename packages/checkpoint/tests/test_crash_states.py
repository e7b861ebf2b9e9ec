"""Every state that a crash may leave on the disk, for every moment of a save.

The disk here really does what it is told, and writes down every call. From that log we build, for each prefix of it,
disks on which only what was forced by fsync is sure to be there and any subset of the rest is too, in any order:
harsher than any real file system. On each, the newest step must load, must be one that was really saved, and must not
be older than the last save that had returned. To show that the test can fail, each fsync is left out in turn.
"""

from __future__ import annotations

import itertools
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataLossError, NotFoundError
from headrace_checkpoint.durable import Disk
from headrace_checkpoint.saver import CheckpointManager
from headrace_checkpoint.store import CheckpointWarning, StoredStep, read_newest_step, write_step

GRANULE = 64  # bytes that reach the disk together


@dataclass
class Call:
    """One call that changes the disk, or forces changes to last."""

    kind: str
    path: str = ""  # of a name that changes
    target: str = ""  # of a rename
    inode: int = -1
    offset: int = 0
    data: bytes = b""
    step: int = -1


@dataclass
class RecordingDisk(Disk):
    """Does everything for real, below `root`, and logs it; the fsync numbered `forget` is not done."""

    root: Path
    forget: int | None = None
    log: list[Call] = field(default_factory=list)
    syncs: int = 0

    def __post_init__(self) -> None:
        self._inodes = itertools.count()
        self._open: dict[int, tuple[int, int]] = {}
        self._of_path: dict[str, int] = {}

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _is_forgotten(self) -> bool:
        self.syncs += 1
        return self.syncs - 1 == self.forget

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        inode = next(self._inodes)
        self._open[descriptor] = (inode, 0)
        self.log.append(Call("create", self._name(path), inode=inode))
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        inode, offset = self._open[descriptor]
        taken = super().write(descriptor, data[:GRANULE])
        self.log.append(Call("write", inode=inode, offset=offset, data=bytes(data[:taken])))
        self._open[descriptor] = (inode, offset + taken)
        return taken

    def sync(self, descriptor: int) -> None:
        if not self._is_forgotten():
            self.log.append(Call("sync", inode=self._open[descriptor][0]))

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        self.log.append(Call("make_directory", self._name(path)))

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.log.append(Call("rename", self._name(source), self._name(target)))

    def sync_directory(self, path: Path) -> None:
        if not self._is_forgotten():
            self.log.append(Call("sync_directory", self._name(path)))

    def remove_tree(self, path: Path) -> None:
        for file in sorted(path.rglob("*")):
            self.log.append(Call("unlink", self._name(file)))
        super().remove_tree(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _durable(log: list[Call]) -> set[int]:
    """The numbers of the calls whose effect is sure to last."""
    sure: set[int] = set()
    for number, call in enumerate(log):
        if call.kind == "sync":
            sure |= {n for n in range(number) if log[n].kind == "write" and log[n].inode == call.inode}
        elif call.kind == "sync_directory":
            for n, earlier in enumerate(log[:number]):
                names = [earlier.path, earlier.target] if earlier.kind == "rename" else [earlier.path]
                # Folders that were renamed since are found under their new name.
                parents = {_parent(_renamed(name, log[n + 1 : number])) for name in names if name}
                if earlier.kind in ("create", "make_directory", "rename", "unlink") and call.path in parents:
                    sure.add(n)
    return sure


def _renamed(path: str, log: list[Call]) -> str:
    for call in log:
        if call.kind == "rename" and path.startswith(call.path + "/"):
            path = call.target + path[len(call.path) :]
    return path


def _disk_after(log: list[Call], kept: set[int]) -> dict[str, bytes]:
    """The files on the disk if exactly the calls of these numbers had an effect."""
    names: dict[str, int] = {}
    folders = {"."}
    data: dict[int, bytearray] = {}
    for number, call in enumerate(log):
        if call.kind == "create":
            data[call.inode] = bytearray()
        if number not in kept:
            continue
        if call.kind == "create":
            names[call.path] = call.inode
        elif call.kind == "write":
            content = data[call.inode]
            content.extend(bytes(max(0, call.offset + len(call.data) - len(content))))
            content[call.offset : call.offset + len(call.data)] = call.data
        elif call.kind == "make_directory":
            folders.add(call.path)
        elif call.kind == "rename":
            folders = {call.target if folder == call.path else folder for folder in folders}
            for path in [path for path in names if path.startswith(call.path + "/")]:
                names[call.target + path[len(call.path) :]] = names.pop(path)
        elif call.kind == "unlink":
            names.pop(call.path, None)
    return {path: bytes(data[inode]) for path, inode in names.items() if _is_reachable(path, folders)}


def _is_reachable(path: str, folders: set[str]) -> bool:
    parent = _parent(path)
    return parent in folders and (parent == "." or _is_reachable(parent, folders))


def _crash_states(
    log: list[Call], first: int, rnd: random.Random, samples: int
) -> Iterator[tuple[list[Call], set[int]]]:
    for length in range(first, len(log) + 1):
        prefix = log[:length]
        sure = _durable(prefix)
        loose = [
            n for n, call in enumerate(prefix) if call.kind not in ("sync", "sync_directory", "ack") and n not in sure
        ]
        yield prefix, sure
        yield prefix, sure | set(loose)
        yield prefix, sure | {n for n in loose if prefix[n].kind != "write"}
        yield prefix, sure | {n for n in loose if prefix[n].kind == "write"}
        for _ in range(samples):
            share = rnd.choice((0.2, 0.5, 0.8, 0.95))
            yield prefix, sure | {n for n in loose if rnd.random() < share}


def _arrays(step: int) -> dict[str, np.ndarray]:
    return {"crash/w": np.random.default_rng(step).normal(size=100), "crash/step": np.array(step)}


def _violations(log: list[Call], first: int, folder: Path, samples: int) -> tuple[int, list[str]]:
    """Load every crash state; returns how many different ones there were, and what was wrong with which."""
    seen = set()
    found = []
    for prefix, kept in _crash_states(log, first, random.Random(7), samples):
        files = _disk_after(prefix, kept)
        acknowledged = max([call.step for call in prefix if call.kind == "ack"], default=-1)
        state = (acknowledged, tuple(sorted(files.items())))
        if state in seen:
            continue
        seen.add(state)
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CheckpointWarning)
            try:
                step, loaded = read_newest_step(folder / "ckpt", StoredStep.read_all)
            except (NotFoundError, DataLossError) as error:
                if acknowledged >= 0:
                    found.append(f"step {acknowledged} lost after {prefix[-1]}: {error}")
                continue
        expected = _arrays(step.manifest.step)
        if any(not np.array_equal(loaded[name], expected[name]) for name in expected):
            found.append(f"wrong data of step {step.manifest.step} after {prefix[-1]}")
        elif step.manifest.step < acknowledged:
            found.append(f"step {acknowledged} lost after {prefix[-1]}")
    return len(seen), found


def _first_save(disk: RecordingDisk) -> int:
    _save(disk, 1)
    return 0


def _next_save(disk: RecordingDisk) -> int:
    _save(disk, 1)
    start = len(disk.log)
    _save(disk, 2)
    return start


def _same_step_again(disk: RecordingDisk) -> int:
    _save(disk, 1)
    start = len(disk.log)
    _save(disk, 1)
    return start


def _save(disk: RecordingDisk, step: int) -> None:
    write_step(disk.root / "ckpt", step, _arrays(step), time=0.0, disk=disk)
    disk.log.append(Call("ack", step=step))


def _retention(disk: RecordingDisk) -> int:
    """A manager that keeps one step: each save deletes the one before."""
    variables = [hr.Variable(array, name=name) for name, array in _arrays(0).items()]
    names = [variable.name for variable in variables]
    assert names == list(_arrays(0))
    manager = CheckpointManager(disk.root / "ckpt", 1, variables=variables, disk=disk)
    start = 0
    for step in range(3):
        for variable, array in zip(variables, _arrays(step).values(), strict=True):
            variable.assign(array)
        start = len(disk.log)
        manager.save(None, step)
        disk.log.append(Call("ack", step=step))
    return start


HISTORIES: list[Callable[[RecordingDisk], int]] = [_first_save, _next_save, _same_step_again, _retention]


@pytest.mark.parametrize("history", HISTORIES)
def test_every_crash_leaves_the_newest_complete_step(tmp_path: Path, history: Callable[[RecordingDisk], int]) -> None:
    (tmp_path / "real").mkdir()
    disk = RecordingDisk(tmp_path / "real")
    first = history(disk)
    states, violations = _violations(disk.log, first, tmp_path / "crashed", samples=16)
    assert violations == []
    assert states > 80


def test_every_fsync_of_a_save_is_needed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    whole = RecordingDisk(tmp_path / "real")
    _first_save(whole)
    assert whole.syncs == 5  # the new directory's name, shard, manifest, the step's names, the step's own name
    for number in range(whole.syncs):
        root = tmp_path / f"without-{number}"
        root.mkdir()
        disk = RecordingDisk(root, forget=number)
        _first_save(disk)
        _, violations = _violations(disk.log, 0, tmp_path / "crashed", samples=12)
        assert violations, f"leaving out fsync {number} was not noticed"
