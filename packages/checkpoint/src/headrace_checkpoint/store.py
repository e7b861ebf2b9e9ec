"""A directory of checkpoints: one folder for each saved step, there whole or not at all.

    runs/mnist/ckpt/
      step-00000100/
        shard-00000-of-00001.safetensors    the tensors; any safetensors reader opens it; one shard or several
        MANIFEST.json                       names, dtypes, shapes, checksums; written last
      step-00000200/

A step is filled under a temporary name, forced to the disk, and then named, so a folder named `step-...` is complete
whatever happened. Saving a step that is there already makes `step-00000200-2`, and only then removes the old one: there
is no moment without it. The newest step is found by looking, not by a pointer file that could lie.
"""

from __future__ import annotations

import itertools
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from headrace.errors import DataLossError, InvalidArgumentError, NotFoundError, known_names
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import DISK, Disk
from headrace_checkpoint.manifest import MANIFEST, Chunk, Manifest, StoredFile, StoredTensor, plain_metrics
from headrace_checkpoint.safetensors import SafetensorsFile
from headrace_checkpoint.shards import encode_shards
from headrace_checkpoint.storage import StepStorage, storage_of
from headrace_checkpoint.threads import in_threads

__all__ = [
    "CheckpointWarning",
    "StepName",
    "StoredStep",
    "check_step",
    "list_steps",
    "next_attempt",
    "read_manifest",
    "read_newest_step",
    "steps_of",
    "write_step",
]

_STEP = re.compile(r"step-(\d{8,19})(?:-(\d{1,9}))?")
_TRIES = 100
"""How many other processes may take the name of a step before it is an error."""
_MAX_STEP = 2**63 - 1


class CheckpointWarning(UserWarning):
    """A checkpoint was passed over."""


@dataclass(frozen=True, slots=True, order=True)
class StepName:
    """The name of one saved step; later steps and later attempts at one step are greater.

    Attributes:
      step: the training step.
      attempt: 1, or more where the step was saved again.
    """

    step: int
    attempt: int = 1

    @classmethod
    def parse(cls, name: str) -> StepName | None:
        """Read a folder's name; None if it is none of ours, spelt just as ours are."""
        match = _STEP.fullmatch(name)
        parsed = None if match is None else cls(int(match[1]), int(match[2] or 1))
        return parsed if str(parsed) == name else None

    def __str__(self) -> str:
        return f"step-{self.step:08d}" + (f"-{self.attempt}" if self.attempt > 1 else "")


def list_steps(directory: str | os.PathLike[str]) -> list[StepName]:
    """The steps saved in a directory, oldest first; empty where there is no such directory."""
    return steps_of(storage_of(directory))


def steps_of(storage: StepStorage) -> list[StepName]:
    """The steps in a storage, oldest first."""
    return sorted(parsed for name in storage.names() if (parsed := StepName.parse(name)) is not None)


def next_attempt(storage: StepStorage, step: int) -> StepName:
    """The name of the folder that the next save of a step will make."""
    attempts = [name.attempt for name in steps_of(storage) if name.step == step]
    return StepName(step, max(attempts, default=0) + 1)


def check_step(step: SupportsIndex) -> int:
    """The number of a step to save.

    Args:
      step: an integer of any kind, such as the array without axes that a session gives.
    Raises:
      InvalidArgumentError: it is none, or out of range.
    """
    try:
        number = int(operator.index(step))
    except TypeError:
        number = -1
    if not 0 <= number <= _MAX_STEP:
        raise InvalidArgumentError(
            "the step to save is no number of a step",
            expected="an integer, 0 <= step < 2**63",
            got=repr(step),
            hint="count training steps from 0",
        )
    return number


def write_step(
    directory: str | os.PathLike[str],
    step: int,
    arrays: Mapping[str, ArrayLike],
    *,
    time: float,
    streams: Mapping[str, tuple[int, int]] | None = None,
    objects: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    shard_bytes: int | None = None,
    compression: str | None = None,
    disk: Disk = DISK,
) -> str:
    """Save one step.

    Args:
      directory: where the steps are, a path or a URL that fsspec knows; made if it is missing.
      step: the training step, at least 0.
      arrays: name to array.
      time: now, in seconds since 1970.
      streams: key and counter of each stream of random numbers, by operation.
      objects: JSON values to keep beside the arrays.
      metrics: numbers to choose the best step by.
      shard_bytes: begin another shard where one has grown to this size; None: one shard for all.
      compression: `"zstd"` or None; see `Saver`.
      disk: whose system calls to use.
    Returns:
      The step's folder. Once this returns it survives any crash.
    Raises:
      InvalidArgumentError: a step out of range, or objects that are not JSON.
      DTypeError: an array that cannot be stored.
      OSError: the disk refused; what was there before is still there.
    """
    step = check_step(step)
    storage = storage_of(directory, disk)
    shards = encode_shards({name: np.asarray(array) for name, array in arrays.items()}, shard_bytes, compression)
    manifest = Manifest(
        step=step,
        time=time,
        tensors={name: tensor for shard in shards for name, tensor in shard.tensors.items()},
        files={shard.name: shard.file for shard in shards},
        streams=streams or {},
        objects=objects or {},
        metrics=plain_metrics(metrics or {}),
    )
    content = manifest.encode()
    for tries_left in itertools.count(_TRIES - 1, -1):
        earlier = [name for name in steps_of(storage) if name.step == step]
        target = str(next_attempt(storage, step))
        try:
            storage.write(target, shards, content)
        except OSError as error:
            taken = isinstance(error, FileExistsError) and error.filename == storage.path(target)
            if taken and tries_left > 0:
                continue  # another process has saved the step meanwhile, and may have deleted it again
            error.add_note(f"step {step} is not saved in {storage.location}; what was there before is still there")
            raise
        for name in earlier:
            storage.remove(str(name))
        break
    return storage.path(target)


def read_manifest(storage: StepStorage, name: str) -> Manifest:
    """Read what a step says of itself, without looking at its tensors.

    Args:
      storage: where the steps are.
      name: the step's folder.
    Raises:
      NotFoundError: there is no such step.
      DataLossError: its manifest is damaged.
      UnimplementedError: a later version wrote it.
    """
    return Manifest.decode(storage.read(name, MANIFEST), f"{storage.path(name)}/{MANIFEST}")


class StoredStep:
    """One saved step, open for reading; its manifest and the headers of its shards are checked at once.

    On a local disk it stays readable when the step is deleted meanwhile.

    Args:
      path: the step's folder, a path or a URL.
    Attributes:
      path: the step's folder.
      manifest: what the step says of itself.
    Raises:
      NotFoundError: there is no such step, or a shard of it is missing.
      DataLossError: the manifest or a shard is damaged, or they do not belong together.
      UnimplementedError: a later version wrote it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        directory, _, self._name = os.fspath(path).rstrip("/").rpartition("/")
        self._storage = storage_of(directory or (os.sep if self.path.startswith(os.sep) else os.curdir))
        self.manifest = read_manifest(self._storage, self._name)
        self._shards = {name: self._open_shard(name, file) for name, file in self.manifest.files.items()}
        for name, tensor in self.manifest.tensors.items():
            self._check_tensor(name, tensor)

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest.tensors)

    def read(self, name: str, box: Box | None = None, *, verify: bool = True) -> Array:
        """Return a tensor or a part of it.

        What lies in one shard is a read-only view of the mapped file (a new array for strings); what lies in several
        is put together, as is a part that is scattered over a shard. Only the blocks that have a part of it are read.

        Args:
          name: the tensor's name.
          box: which part; None: all of it.
          verify: check the blocks that have a part of it against their checksums.
        Raises:
          NotFoundError: there is no such tensor.
          InvalidArgumentError: the box is not within the tensor.
          DataLossError: a checksum does not match.
        """
        tensor = self.manifest.tensors.get(name)
        if tensor is None:
            raise NotFoundError(
                f"there is no tensor {name!r} in the checkpoint",
                where=self.path,
                expected=known_names(name, self.manifest.tensors),
                got=repr(name),
                hint="iterate over the step for the names",
            )
        wanted = Box.whole(tensor.shape) if box is None else box
        if not wanted.lies_in(tensor.shape):
            raise InvalidArgumentError(
                f"there is no such part of tensor {name!r}",
                where=self.path,
                expected=f"a box within {list(tensor.shape)}",
                got=str(wanted),
                hint="the part's offset and shape have one number for each axis",
            )
        return self._assembled(name, tensor, wanted, verify)

    def _assembled(self, name: str, tensor: StoredTensor, wanted: Box, verify: bool) -> Array:
        parts = [(chunk, chunk.box.intersection(wanted)) for chunk in tensor.chunks]
        found = [(chunk, part) for chunk, part in parts if part is not None]
        if not found:  # a box without elements
            chunk = tensor.chunks[0]
            empty = Box(chunk.box.offset, (0,) * len(chunk.box.shape)).relative_to(chunk.box)
            return np.empty(wanted.shape, self._shards[chunk.file].read(name, empty, verify=verify).dtype)
        if found[0][1] == wanted:
            chunk = found[0][0]
            return self._shards[chunk.file].read(name, wanted.relative_to(chunk.box), verify=verify)
        result: Array | None = None
        for chunk, part in found:
            array = self._shards[chunk.file].read(name, part.relative_to(chunk.box), verify=verify)
            result = np.empty(wanted.shape, array.dtype) if result is None else result
            result[part.within(wanted)] = array
        assert result is not None
        return result

    def read_all(self, *, verify: bool = True) -> dict[str, Array]:
        """Return every tensor, by name; several are verified at a time."""
        return dict(zip(self, in_threads(lambda name: self.read(name, verify=verify), self), strict=True))

    def _open_shard(self, name: str, file: StoredFile) -> SafetensorsFile:
        if Path(name).name != name:  # a manifest must not lead out of its folder
            raise DataLossError(
                "a checkpoint names a file outside its folder",
                where=self.path,
                expected="a file's name without a folder",
                got=name,
                hint="do not trust where it came from",
            )
        shard = self._storage.open(self._name, name, file.compression)
        if (shard.size, f"{shard.header_crc32c:08x}") != (file.content_size, file.header_crc32c):
            raise DataLossError(
                "a shard of the checkpoint is not the one that was saved",
                where=f"{self.path}/{name}",
                expected=f"{file.content_size} bytes, header {file.header_crc32c}",
                got=f"{shard.size} bytes, header {shard.header_crc32c:08x}",
                hint="copy it again, or restore an earlier checkpoint",
            )
        return shard

    def _check_tensor(self, name: str, tensor: StoredTensor) -> None:
        problem = tensor.problem()
        if problem is not None:
            raise DataLossError(
                f"tensor {name!r} is not stored whole",
                where=self.path,
                expected="chunks that fill it and do not overlap",
                got=problem,
                hint="copy it again, or restore an earlier checkpoint",
            )
        for chunk in tensor.chunks:
            self._check_chunk(name, tensor, chunk)

    def _check_chunk(self, name: str, tensor: StoredTensor, chunk: Chunk) -> None:
        shard = self._shards.get(chunk.file)
        entry = None if shard is None else shard.entries.get(name)
        found = None if entry is None else (entry.value_dtype, entry.value_shape, f"{entry.crc32c or 0:08x}")
        if found != (tensor.dtype, chunk.box.shape, chunk.crc32c):
            raise DataLossError(
                f"tensor {name!r} is not in the shard as the manifest says",
                where=f"{self.path}/{chunk.file}",
                expected=f"{tensor.dtype}{list(chunk.box.shape)} with CRC-32C {chunk.crc32c}",
                got=str(found),
                hint="copy it again, or restore an earlier checkpoint",
            )


def _callers_level() -> int:
    """The `stacklevel` that makes a warning point at the line of the user, who may be a trainer's callback away."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0].startswith("headrace"):
        level, frame = level + 1, frame.f_back
    return level


Read = TypeVar("Read")


def read_newest_step(directory: str | os.PathLike[str], read: Callable[[StoredStep], Read]) -> tuple[StoredStep, Read]:
    """Open the newest step of a directory from which all that is wanted can be read, and read it.

    A damaged step is passed over with a `CheckpointWarning` that names it.

    Args:
      directory: where the steps are.
      read: reads what is wanted of a step, such as `StoredStep.read_all`.
    Returns:
      The step, and what was read.
    Raises:
      NotFoundError: there is no step at all.
      DataLossError: there are steps, but none is whole.
    """
    storage = storage_of(directory)
    problems: dict[StepName, str] = {}
    while True:
        names = steps_of(storage)
        if not names:
            raise NotFoundError(
                "there is no checkpoint yet",
                where=storage.location,
                expected="folders named step-...",
                got="none",
                hint="save one first, or look in another directory",
            )
        for name in reversed(names):
            if name in problems:
                continue
            path = storage.path(str(name))
            try:
                step = StoredStep(path)
                return step, read(step)
            except (DataLossError, NotFoundError) as error:
                if str(name) not in storage.names():
                    break  # it was deleted meanwhile, for a newer one that these names lack
                problems[name] = f"{name}: {error.what}"
                warnings.warn(
                    f"passed over the damaged checkpoint {path}: {error}",
                    CheckpointWarning,
                    stacklevel=_callers_level(),
                )
        else:
            break
    raise DataLossError(
        "no checkpoint is whole",
        where=storage.location,
        expected="at least one step without damage",
        got="; ".join(problems.values()),
        hint="copy the directory again, or start anew in another one",
    )
