"""Every state that a crash may leave on the disk, for every moment of a save.

The disk here really does what it is told, and writes down every call. From that log we build, for each prefix of it,
disks on which only what was forced by fsync is sure to be there and any subset of the rest is too, in any order:
harsher than any real file system. On each, every step that has a name must load whole, the newest must be one that was
really saved, and must not be older than the last save that had returned. To show that the test can fail, each fsync and
each renaming is left out in turn.
"""

from __future__ import annotations

import functools
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
from headrace_checkpoint.store import CheckpointWarning, StoredStep, list_steps, read_newest_step, write_step

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
    """Does everything for real, below `root`, and logs it; the fsync or renaming numbered `forget` is not done."""

    root: Path
    forget: int | None = None
    log: list[Call] = field(default_factory=list)
    forgettable: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._inodes = itertools.count()
        self._open: dict[int, tuple[int, int]] = {}
        self._of_path: dict[str, int] = {}

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _is_forgotten(self, what: str) -> bool:
        self.forgettable.append(what)
        return len(self.forgettable) - 1 == self.forget

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
        if not self._is_forgotten("sync"):
            self.log.append(Call("sync", inode=self._open[descriptor][0]))

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        self.log.append(Call("make_directory", self._name(path)))

    def rename(self, source: Path, target: Path) -> None:
        if self._is_forgotten("rename"):
            return
        super().rename(source, target)
        self.log.append(Call("rename", self._name(source), self._name(target)))

    def sync_directory(self, path: Path) -> None:
        if not self._is_forgotten("sync_directory"):
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
    undone: list[Call] = []  # renamings without effect: what is done below the new name takes effect below the old
    for number, call in enumerate(log):
        if call.kind == "create":
            data[call.inode] = bytearray()
        if number not in kept:
            undone += [call] if call.kind == "rename" else []
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
            names.pop(_before(call.path, undone), None)
    return {path: bytes(data[inode]) for path, inode in names.items() if _is_reachable(path, folders)}


def _before(path: str, undone: list[Call]) -> str:
    for call in reversed(undone):
        if path.startswith(call.target + "/"):
            path = call.path + path[len(call.target) :]
    return path


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


State = tuple[int, tuple[tuple[str, bytes], ...]]


def _violations(log: list[Call], first: int, folder: Path, samples: int, seen: set[State]) -> Iterator[str]:
    """Load every crash state that was not seen yet, and yield what is wrong."""
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
        with warnings.catch_warnings(record=True) as passed_over:
            warnings.simplefilter("always", CheckpointWarning)
            try:
                step, loaded = read_newest_step(folder / "ckpt", StoredStep.read_all)
            except (NotFoundError, DataLossError) as error:
                if acknowledged >= 0:
                    yield f"step {acknowledged} lost after {prefix[-1]}: {error}"
                continue
        yield from (f"{warning.message} after {prefix[-1]}" for warning in passed_over)
        steps = [folder / "ckpt" / str(name) for name in list_steps(folder / "ckpt")]
        yield from (f"{path} is not whole after {prefix[-1]}" for path in steps if not _is_whole(path))
        expected = _arrays(step.manifest.step)
        if any(not np.array_equal(loaded[name], expected[name]) for name in expected):
            yield f"wrong data of step {step.manifest.step} after {prefix[-1]}"
        elif step.manifest.step < acknowledged:
            yield f"step {acknowledged} lost after {prefix[-1]}"


def _is_whole(step: Path) -> bool:
    try:
        StoredStep(step).read_all()
    except (NotFoundError, DataLossError):
        return False
    return True


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


@functools.cache
def _variables() -> list[hr.Variable]:
    """Made once: names are taken for as long as the process lives."""
    return [hr.Variable(array, name=name) for name, array in _arrays(0).items()]


def _retention(disk: RecordingDisk) -> int:
    """A manager that keeps one step: each save deletes the one before."""
    variables = _variables()
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
    seen: set[State] = set()
    assert list(_violations(disk.log, first, tmp_path / "crashed", 16, seen)) == []
    assert len(seen) > 80


@pytest.mark.parametrize("history", HISTORIES)
def test_every_fsync_and_every_renaming_is_needed(tmp_path: Path, history: Callable[[RecordingDisk], int]) -> None:
    (tmp_path / "real").mkdir()
    whole = RecordingDisk(tmp_path / "real")
    history(whole)
    assert whole.forgettable[:6] == ["sync_directory", "sync", "sync", "sync_directory", "rename", "sync_directory"]
    for number, what in enumerate(whole.forgettable):
        root = tmp_path / f"without-{number}"
        root.mkdir()
        disk = RecordingDisk(root, forget=number)
        try:
            history(disk)
        except FileNotFoundError:
            continue  # what was not renamed is missed at once
        noticed = next(_violations(disk.log, 0, tmp_path / "crashed", 12, set()), None)
        assert noticed is not None, f"leaving out {what}, call {number}, was not noticed"
