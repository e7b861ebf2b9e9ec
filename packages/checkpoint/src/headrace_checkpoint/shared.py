"""One step saved by several processes: each writes its shard, and the chief makes a step of them.

All writers fill one staging folder, `.tmp-step-00000042~shared~<launch>~<count>`. A writer puts its shard there and,
last, a manifest of that shard alone, whose name says which writer's it is. The chief, writer 0, waits for all of
these, joins them, and gives the folder its name. Before that nobody sees a step; a writer that died or is late leaves
none behind, and is named in the chief's error.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headrace.errors import AbortedError, DeadlineExceededError, InvalidArgumentError, UnimplementedError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.durable import Disk, make_directories, remove_directory, replace_file, write_file
from headrace_checkpoint.manifest import MANIFEST, Chunk, Manifest, StoredTensor
from headrace_checkpoint.shards import encode_shard
from headrace_checkpoint.storage import LocalStorage, is_url
from headrace_checkpoint.store import StepName, list_steps, next_attempt
from headrace_checkpoint.tensor_bundle import ArraySlice

__all__ = ["Writers", "merge_manifests", "write_shared_step"]

_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Writers:
    """The processes that save a step together.

    Attributes:
      rank: which of them this one is; 0 is the chief.
      count: how many there are.
      launch: text that all of them share and no earlier launch had, such as a job's id: what a crashed launch left half
        written is then never taken for theirs.
      timeout: seconds to wait for the others.
    """

    rank: int
    count: int
    launch: str
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.count or not self.launch or set(self.launch) & set("~/\\\0"):
            raise InvalidArgumentError(
                "the writers of a shared step are wrong",
                expected="0 <= rank < count, and a launch of letters without '~', '/' and '\\'",
                got=repr(self),
                hint="Writers(rank=task, count=tasks, launch=job_id)",
            )

    def staging(self, directory: Path, step: int) -> Path:
        """The folder that they fill together."""
        return directory / f".tmp-{StepName(step)}~shared~{self.launch}~{self.count}"

    def part(self, rank: int) -> str:
        """The name of one writer's manifest."""
        return f"part-{rank:05d}-of-{self.count:05d}.json"


def write_shared_step(
    directory: str | os.PathLike[str],
    step: int,
    arrays: Mapping[str, ArrayLike | ArraySlice],
    writers: Writers,
    *,
    time: float,
    streams: Mapping[str, tuple[int, int]] | None = None,
    objects: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    compression: str | None = None,
    disk: Disk,
) -> str:
    """Save this process's part of a step, and return when the step is there as a whole.

    Args:
      directory: where the steps are, the same for all writers.
      step: the training step.
      arrays: name to array, or to an `ArraySlice` of a larger tensor. A tensor that several writers give whole is
        taken from the first.
      writers: who takes part.
      time: now, in seconds since 1970; the chief's counts.
      streams: see `write_step`; all writers' together.
      objects: see `write_step`; the chief's count.
      metrics: see `write_step`; the chief's count.
      compression: of this process's part; see `write_step`.
      disk: whose system calls to use.
    Raises:
      DeadlineExceededError: (chief) writers are missing, which are named; (others) the chief is.
      AbortedError: (others) the chief gave the step up.
      UnimplementedError: the directory is on an object store.
      InvalidArgumentError: the parts do not make whole tensors.
      OSError: the disk refused.
    """
    if is_url(directory):
        raise UnimplementedError(
            "several writers cannot save one step on an object store",
            where=os.fspath(directory),
            expected="a folder that all writers share",
            got="a URL",
            hint="save there with one writer, or each writer's variables in a directory of their own",
        )
    root = Path(directory)
    make_directories(root, disk)
    attempt = next_attempt(LocalStorage(root), step)
    target, staging = root / str(attempt), writers.staging(root, step)
    with contextlib.suppress(FileExistsError):  # another writer was quicker
        disk.make_directory(staging)
    _write_part(staging, step, arrays, writers, time, streams or {}, objects or {}, metrics or {}, compression, disk)
    if writers.rank != 0:
        return _await_chief(root, attempt, staging, writers)
    try:
        _commit(staging, target, writers, disk)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove_tree(staging)
        raise
    for name in list_steps(root):
        if name.step == step and root / str(name) != target:
            remove_directory(root / str(name), disk)
    return str(target)


def _write_part(
    staging: Path,
    step: int,
    arrays: Mapping[str, ArrayLike | ArraySlice],
    writers: Writers,
    time: float,
    streams: Mapping[str, tuple[int, int]],
    objects: Mapping[str, Any],
    metrics: Mapping[str, float],
    compression: str | None,
    disk: Disk,
) -> None:
    values, places = {}, {}
    for name, item in arrays.items():
        if isinstance(item, ArraySlice):
            values[name] = np.asarray(item.array)
            box = Box(tuple(item.start), values[name].shape)
            places[name] = StoredTensor("", tuple(item.full_shape), (Chunk(box, "", ""),))
        else:
            values[name] = np.asarray(item)
    shard = encode_shard(values, places, writers.rank, writers.count, compression)
    manifest = Manifest(step, time, shard.tensors, {shard.name: shard.file}, streams, objects, metrics)
    content = manifest.encode()
    write_file(staging / shard.name, shard.content.chunks, disk)
    replace_file(staging / writers.part(writers.rank), [content], disk)


def _commit(staging: Path, target: Path, writers: Writers, disk: Disk) -> None:
    names = [writers.part(rank) for rank in range(writers.count)]

    def missing() -> list[int]:
        return [rank for rank, name in enumerate(names) if not (staging / name).is_file()]

    if not _wait(lambda: not missing(), writers.timeout):
        raise DeadlineExceededError(
            "not every writer has saved its part of the checkpoint",
            where=str(staging),
            expected=f"the parts of {writers.count} writers within {writers.timeout} s",
            got="no part of writer " + ", ".join(map(str, missing())),
            hint="look at those processes; earlier steps are still there",
        )
    parts = [Manifest.decode((staging / name).read_bytes(), str(staging / name)) for name in names]
    content = merge_manifests(parts, str(target)).encode()
    for name in names:
        disk.remove_file(staging / name)
    write_file(staging / MANIFEST, [content], disk)
    disk.sync_directory(staging)
    disk.rename(staging, target)
    disk.sync_directory(target.parent)


def merge_manifests(parts: Sequence[Manifest], where: str) -> Manifest:
    """Make one manifest of those of several writers.

    Args:
      parts: the chief's first.
      where: the step, for errors.
    Raises:
      InvalidArgumentError: they disagree about a tensor, or their chunks do not fill it.
    """
    tensors: dict[str, StoredTensor] = {}
    for part in parts:
        for name, tensor in part.tensors.items():
            known = tensors.setdefault(name, replace(tensor, chunks=()))
            if (known.dtype, known.shape) != (tensor.dtype, tensor.shape):
                raise _unfit(name, where, f"{known.dtype}{list(known.shape)}", f"{tensor.dtype}{list(tensor.shape)}")
            held = {chunk.box for chunk in known.chunks}
            fresh = tuple(chunk for chunk in tensor.chunks if chunk.box not in held)
            tensors[name] = replace(known, chunks=known.chunks + fresh)
    for name, tensor in tensors.items():
        if (problem := tensor.problem()) is not None:
            raise _unfit(name, where, "parts that fill the tensor and do not overlap", problem)
    return replace(
        parts[0],
        tensors=tensors,
        files={name: file for part in parts for name, file in part.files.items()},
        streams={name: stream for part in reversed(parts) for name, stream in part.streams.items()},
    )


def _await_chief(root: Path, attempt: StepName, staging: Path, writers: Writers) -> str:
    """The step's folder once the chief has named it."""
    if not _wait(lambda: not staging.is_dir(), writers.timeout):
        raise DeadlineExceededError(
            "the chief has not made a step of the parts of the checkpoint",
            where=str(staging),
            expected=f"the step within {writers.timeout} s",
            got="a staging folder that is still there",
            hint="look at writer 0 and at its error",
        )
    made = [name for name in list_steps(root) if name.step == attempt.step and name >= attempt]
    if not made:
        raise AbortedError(
            "the chief gave the checkpoint up",
            where=str(root),
            expected=f"step {attempt.step}",
            got="no such step",
            hint="look at the error of writer 0; earlier steps are still there",
        )
    return str(root / str(made[-1]))


def _wait(ready: Callable[[], bool], timeout: float) -> bool:
    """Look again and again, since processes on other machines cannot wake us; True once it is so."""
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _unfit(name: str, where: str, expected: str, got: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the writers' parts of tensor {name!r} do not fit each other",
        where=where,
        expected=expected,
        got=got,
        hint="ArraySlice(full_shape, start, array) says which part of a tensor an array is",
    )
