"""Sources: whatever values can be restored from, all alike: names with dtype and shape, read when asked for."""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np

from headrace.errors import DataLossError, NotFoundError, known_names
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.bundle_state import newest_bundle
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.manifest import MANIFEST
from headrace_checkpoint.safetensors import SafetensorsFile
from headrace_checkpoint.safetensors_header import unique_keys
from headrace_checkpoint.storage import is_url
from headrace_checkpoint.store import StepName, StoredStep
from headrace_checkpoint.tensor_bundle import TensorBundle

__all__ = ["HuggingFaceIndex", "OpenSource", "Source", "TensorType", "open_source", "source_of_step"]

Found = TypeVar("Found")

_MEMBER = re.compile(r"\.index\Z|\.data-\d{5}-of-\d{5}\Z|\.meta\Z")
_OBJECT_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_MAX_INFLATION = 1032
"""Bytes that one byte of a zip file can hold: what deflate, the only method NumPy uses, reaches at best."""
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


@dataclass(frozen=True, slots=True)
class TensorType:
    """The dtype, by the name that Headrace spells, and the shape of a stored tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class Source(Protocol):
    """Something that values can be restored from."""

    @property
    def path(self) -> str:
        """What to call it in messages."""

    @property
    def tensors(self) -> Mapping[str, TensorType]:
        """What it holds."""

    def read(self, name: str, box: Box | None = None) -> Array:
        """One tensor, or a part of it, verified as far as the format allows.

        Raises:
          DataLossError: it is damaged.
        """


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A source made of a function that reads whole tensors.

    Attributes:
      kind: what it is, for people.
      path: see `Source`.
      tensors: see `Source`.
      read_whole: reads one tensor.
      step: the training step, where the format says.
      objects: the user's objects, where the format has any.
      streams: the streams of random numbers, where the format has any.
      read_part: reads a part of a tensor where that is cheaper than reading all of it.
      checksums: a tensor's checksum, in words, where the format has one.
      notes: what else it says, in lines.
    """

    kind: str
    path: str
    tensors: Mapping[str, TensorType]
    read_whole: Callable[[str], Array]
    step: int | None = None
    objects: Mapping[str, Any] = field(default_factory=dict)
    streams: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    read_part: Callable[[str, Box], Array] | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def read(self, name: str, box: Box | None = None) -> Array:
        """See `Source`."""
        if box is None:
            return self.read_whole(name)
        if self.read_part is not None:
            return self.read_part(name, box)
        return self.read_whole(name)[box.within(Box.whole(self.tensors[name].shape))]


def source_of_step(step: StoredStep) -> OpenSource:
    """A saved step as a source."""
    manifest = step.manifest
    tensors = {name: TensorType(tensor.dtype, tensor.shape) for name, tensor in manifest.tensors.items()}
    return OpenSource(
        kind="checkpoint",
        path=step.path,
        tensors=tensors,
        read_whole=step.read,
        step=manifest.step,
        objects=dict(manifest.objects),
        streams=manifest.streams,
        read_part=step.read,
        checksums={
            name: tensor.chunks[0].crc32c if len(tensor.chunks) == 1 else f"{len(tensor.chunks)} chunks"
            for name, tensor in manifest.tensors.items()
        },
    )


def open_source(path: str | os.PathLike[str]) -> OpenSource | None:
    """Open one file or folder of values, by what it looks like.

    Args:
      path: a saved step, a safetensors file, the index of several, an `.npz` file, the prefix or any file of a
        TensorFlow checkpoint, or a folder of these with a file `checkpoint` that names the newest.
    Returns:
      The source, or None if it is none of these.
    Raises:
      DataLossError: it is one of these, and damaged.
    """
    place = Path(path)
    if is_url(path):
        return source_of_step(StoredStep(path)) if StepName.parse(place.name) is not None else None
    if (place / MANIFEST).is_file():
        return source_of_step(StoredStep(place))
    if place.name.endswith(".safetensors.index.json"):
        return _index(place)
    if place.suffix == ".safetensors":
        return _safetensors(place)
    if place.suffix == ".npz":
        return _npz(place)
    prefix = newest_bundle(place) or _MEMBER.sub("", os.fspath(path))
    return _bundle(prefix) if os.path.isfile(f"{prefix}.index") else None


def _types_of(file: SafetensorsFile) -> dict[str, TensorType]:
    return {name: TensorType(entry.value_dtype, entry.value_shape) for name, entry in file.entries.items()}


def _safetensors(path: Path) -> OpenSource:
    file = SafetensorsFile(path)
    checksums = {name: f"{entry.crc32c:08x}" for name, entry in file.entries.items() if entry.crc32c is not None}
    notes = tuple(f"metadata {key} = {value:.60}" for key, value in file.metadata.items())
    return OpenSource(
        "safetensors file", str(path), _types_of(file), file.read, read_part=file.read, checksums=checksums, notes=notes
    )


def _index(path: Path) -> OpenSource:
    index = HuggingFaceIndex(path)
    return OpenSource("index of safetensors files", str(path), index.tensors, index.read, read_part=index.read)


class HuggingFaceIndex:
    """The safetensors files of one model, by their index `model.safetensors.index.json`.

    A file is opened when one of its tensors is wanted; a tensor that the index promises and its file lacks, and one
    that the file has and the index does not know, are errors then.

    Args:
      path: the index.
    Attributes:
      path: the index.
    Raises:
      NotFoundError: there is no such index.
      DataLossError: it is no such index.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            content = json.loads(self.path.read_bytes(), object_pairs_hook=unique_keys)
        except FileNotFoundError:
            raise NotFoundError(
                "there is no such file", expected="a *.safetensors.index.json", got=str(path), hint="look at the path"
            ) from None
        except (ValueError, RecursionError) as error:
            raise self._damaged("JSON", str(error)) from None
        files = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
            raise self._damaged("a weight_map of tensor to file", repr(content)[:80])
        outside = next((file for file in files.values() if Path(file).name != file), None)
        if outside is not None:
            raise self._damaged("files beside the index", outside)
        self._file_of: dict[str, str] = files
        self._files: dict[str, SafetensorsFile] = {}

    @property
    def tensors(self) -> dict[str, TensorType]:
        """What the files hold; opens all of them."""
        return {name: _types_of(self._open(file))[name] for name, file in self._file_of.items()}

    def read(self, name: str, box: Box | None = None) -> Array:
        """One tensor, or a part of it: a view of its mapped file, where it is not scattered over it."""
        if name not in self._file_of:
            raise NotFoundError(
                f"there is no tensor {name!r} in the index",
                where=str(self.path),
                expected=known_names(name, self._file_of),
                got=repr(name),
                hint="HuggingFaceIndex(path).tensors lists the names",
            )
        return self._open(self._file_of[name]).read(name, box)

    def _open(self, file: str) -> SafetensorsFile:
        known = self._files.get(file)
        if known is not None:
            return known
        opened = SafetensorsFile(self.path.parent / file)
        promised = {name for name, place in self._file_of.items() if place == file}
        if promised != set(opened):
            different = sorted(promised ^ set(opened))
            raise self._damaged(f"the same tensors in the index and in {file}", f"{different[0]!r} in one of them only")
        self._files[file] = opened
        return opened

    def _damaged(self, expected: str, got: str) -> DataLossError:
        return DataLossError(
            "not a valid index of safetensors files",
            where=str(self.path),
            expected=expected,
            got=got,
            hint="copy index and files again, all of one version",
        )


_DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, KeyError, RuntimeError)
"""What Python's and NumPy's readers raise of a damaged file; RuntimeError stands for methods that they lack too."""


def _npz(path: Path) -> OpenSource:
    types = _read_archive(path, _npy_types)

    def read(name: str) -> Array:
        # By its whole name in the file: for NumPy "a.npy" is the array "a" where there is one.
        array: Array = _read_archive(path, lambda file: np.load(file, allow_pickle=False)[f"{name}.npy"])
        return array.astype("S").astype(object) if array.dtype.kind in "SU" else array

    return OpenSource("NumPy archive", str(path), types, read)


def _read_archive(path: Path, read: Callable[[BinaryIO], Found]) -> Found:
    if not path.is_file():
        raise NotFoundError("there is no such file", expected="an .npz file", got=str(path), hint="look at the path")
    with open(path, "rb") as file:
        try:
            return read(file)
        except _DAMAGE as error:
            raise DataLossError(
                "not a valid .npz file",
                where=str(path),
                expected="a zip file of arrays without Python objects",
                got=f"{type(error).__name__}: {error}",
                hint="write it again with numpy.savez",
            ) from None


def _npy_types(file: BinaryIO) -> dict[str, TensorType]:
    with zipfile.ZipFile(file) as archive:
        other = next((name for name in archive.namelist() if not name.endswith(".npy")), None)
        if other is not None:
            raise ValueError(f"{other!r} is no array")
        twice = next((name for name, count in Counter(archive.namelist()).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{twice!r} is there twice")
        return {name.removesuffix(".npy"): _npy_type(archive, name) for name in archive.namelist()}


def _npy_type(archive: zipfile.ZipFile, name: str) -> TensorType:
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(file)
        header = file.tell()
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are never unpickled")
    member = archive.getinfo(name)
    if math.prod(shape) * dtype.itemsize + header != member.file_size:
        raise ValueError(f"{name} has {member.file_size - header} bytes for {dtype}{list(shape)}")
    if member.file_size > _MAX_INFLATION * member.compress_size + 64:
        raise ValueError(f"{name} has {member.compress_size} bytes, which cannot hold {member.file_size}")
    return TensorType("string" if dtype.kind in "SU" else dtype.name, tuple(shape))


def _bundle(prefix: str) -> OpenSource:
    """A TensorFlow checkpoint; what TensorFlow 2 adds to a variable's name is taken off."""
    bundle = TensorBundle(prefix)
    names = {name.removesuffix(_OBJECT_VALUE): name for name in bundle.entries if name != _OBJECT_GRAPH}
    types = {
        short: TensorType(bundle.entries[name].dtype_name, bundle.entries[name].shape) for short, name in names.items()
    }
    checksums = {
        short: f"{len(entry.slices)} slices" if (entry := bundle.entries[name]).slices else f"{entry.crc32c:08x}"
        for short, name in names.items()
    }
    return OpenSource(
        "TensorFlow checkpoint",
        prefix,
        types,
        lambda name: bundle.read(names[name]),
        checksums=checksums,
        notes=(f"{bundle.num_shards} shards",),
    )
