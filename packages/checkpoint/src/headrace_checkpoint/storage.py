"""Where the folders of saved steps lie: in a local folder, or on anything that fsspec reaches (`s3://...`, `gs://...`).

A local step is filled under a temporary name and then named. An object store has no renaming; there a file comes into
being whole, by one request, so a step is complete once its manifest, which is written last, is there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DataLossError, NotFoundError
from headrace_checkpoint.compression import Compression, decompressing
from headrace_checkpoint.durable import (
    DISK,
    Disk,
    make_directories,
    remove_directory,
    staged_directory,
    sweep,
    write_file,
)
from headrace_checkpoint.manifest import MANIFEST
from headrace_checkpoint.safetensors import Fetch, SafetensorsFile, mapped
from headrace_checkpoint.shards import Shard, write_shards

__all__ = ["LocalStorage", "RemoteStorage", "StepStorage", "is_url", "storage_of"]


class StepStorage(Protocol):
    """A directory of steps. Each step is a folder in it, there whole or not at all."""

    @property
    def location(self) -> str:
        """The directory, for people."""

    def names(self) -> list[str]:
        """The names of the folders in it that are complete; none where there is no such directory."""

    def path(self, name: str) -> str:
        """Where a folder lies."""

    def write(self, name: str, shards: Sequence[Shard], manifest: bytes) -> None:
        """Make a folder of these files; once this returns it survives any crash.

        Raises:
          FileExistsError: there is such a folder already.
          OSError: the store refused; there is no such folder then.
        """

    def read(self, name: str, file: str) -> bytes:
        """A whole file of a folder; raises NotFoundError if there is none."""

    def open(self, name: str, file: str, compression: Compression | None = None) -> SafetensorsFile:
        """A shard of a folder; raises NotFoundError if there is none, DataLossError if it is damaged."""

    def remove(self, name: str) -> None:
        """Remove a folder, if it is still there, so that nobody sees it half removed. Raises OSError."""

    def sweep(self, now: float) -> None:
        """Remove what dead processes left behind, at `now`, in seconds since 1970. Raises OSError."""


def is_url(directory: str | os.PathLike[str]) -> bool:
    """True for `protocol://...`."""
    return "://" in os.fspath(directory)


def storage_of(directory: str | os.PathLike[str], disk: Disk = DISK) -> StepStorage:
    """The storage that a path or a URL names.

    Args:
      directory: the path of a local folder, or a URL that fsspec knows.
      disk: whose system calls to use for a local folder.
    Raises:
      NotFoundError: a URL, and fsspec or the driver of its protocol is not installed.
    """
    return RemoteStorage(os.fspath(directory)) if is_url(directory) else LocalStorage(Path(directory), disk)


class LocalStorage:
    """Steps in a local folder (see `StepStorage`).

    Args:
      root: the folder.
      disk: whose system calls to use.
    """

    def __init__(self, root: Path, disk: Disk = DISK) -> None:
        self._root = root
        self._disk = disk

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._root)

    def names(self) -> list[str]:
        """The names of the folders in it but of those that are not complete, whose names begin with a dot."""
        names = self._listed()
        while (again := self._listed()) != names:  # one look may miss both a step and the one that replaces it
            names = again
        return sorted(names)

    def _listed(self) -> set[str]:
        try:
            with os.scandir(self._root) as entries:
                return {entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def path(self, name: str) -> str:
        """The path of a folder in it."""
        return str(self._root / name)

    def write(self, name: str, shards: Sequence[Shard], manifest: bytes) -> None:
        """Fill a folder under a temporary name, force it to the disk, and name it."""
        make_directories(self._root, self._disk)
        with staged_directory(self._root / name, self._disk) as staging:
            write_shards(staging, shards, self._disk)
            write_file(staging / MANIFEST, [manifest], self._disk)

    def read(self, name: str, file: str) -> bytes:
        """A whole file."""
        try:
            return (self._root / name / file).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise _no_file(self.path(name), file) from None

    def open(self, name: str, file: str, compression: Compression | None = None) -> SafetensorsFile:
        """A shard, mapped."""
        path = str(self._root / name / file)
        return _opened(path, *mapped(path), compression)

    def remove(self, name: str) -> None:
        """Take a folder's name away, and then what is in it."""
        remove_directory(self._root / name, self._disk)

    def sweep(self, now: float) -> None:
        """Remove what is left under temporary names."""
        if self._root.is_dir():
            sweep(self._root, self._disk, now)


class RemoteStorage:
    """Steps on an object store (see `StepStorage`).

    Readers on other machines are not known here: keep enough steps that nobody still reads one that is deleted.

    Args:
      url: where, as fsspec spells it.
    Raises:
      NotFoundError: fsspec or the driver of the protocol is not installed.
    """

    def __init__(self, url: str) -> None:
        self.location = url.rstrip("/")
        protocol = url.partition("://")[0]
        try:
            core: Any = importlib.import_module("fsspec.core")
            self._files, root = core.url_to_fs(url)
        except ImportError as error:
            raise NotFoundError(
                f"there is no package for '{protocol}://'",
                expected="fsspec and its driver for the protocol",
                got=str(error),
                hint="pip install 'headrace-checkpoint[remote]', and the driver, such as s3fs or gcsfs",
            ) from None
        self._root = PurePosixPath(root)

    def names(self) -> list[str]:
        """The names of the folders that have a manifest."""
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(str(self._root), detail=False)
        except FileNotFoundError:
            return []
        return [
            name for entry in entries if self._files.exists(self._file(name := PurePosixPath(entry).name, MANIFEST))
        ]

    def path(self, name: str) -> str:
        """The URL of a folder."""
        return f"{self.location}/{name}"

    def write(self, name: str, shards: Sequence[Shard], manifest: bytes) -> None:
        """Put the shards, look whether they are there whole, and put the manifest."""
        self._files.makedirs(str(self._root / name), exist_ok=True)
        for shard in shards:
            place = self._file(name, shard.name)
            with self._files.open(place, "wb") as stream:
                for chunk in shard.content.chunks:
                    stream.write(chunk)
            size = self._files.size(place)
            if size != shard.content.size:
                raise OSError(f"{self.path(name)}/{shard.name}: {size} of {shard.content.size} bytes arrived")
        self._files.pipe_file(self._file(name, MANIFEST), manifest)

    def read(self, name: str, file: str) -> bytes:
        """A whole file."""
        try:
            content: bytes = self._files.cat_file(self._file(name, file))
        except (FileNotFoundError, IsADirectoryError):
            raise _no_file(self.path(name), file) from None
        return content

    def open(self, name: str, file: str, compression: Compression | None = None) -> SafetensorsFile:
        """A shard, of which bytes are fetched when they are wanted."""
        place = self._file(name, file)
        try:
            size = int(self._files.size(place))
        except FileNotFoundError:
            raise _no_file(self.path(name), file) from None

        def fetch(begin: int, end: int) -> NDArray[np.uint8]:
            content = self._files.cat_file(place, start=begin, end=end) if begin < end else b""
            if len(content) != end - begin:
                raise DataLossError(
                    "the store gave fewer bytes than asked for",
                    where=f"{self.path(name)}/{file}",
                    expected=f"bytes {begin} to {end}",
                    got=f"{len(content)} bytes",
                    hint="try again, or restore an earlier checkpoint",
                )
            return np.frombuffer(content, np.uint8)

        return _opened(f"{self.path(name)}/{file}", size, fetch, compression)

    def remove(self, name: str) -> None:
        """Take the manifest away, and then the rest."""
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            self._files.rm_file(self._file(name, MANIFEST))
            self._files.rm(str(self._root / name), recursive=True)

    def sweep(self, now: float) -> None:
        """Leave everything: what has no manifest may be a step that another process is writing."""

    def _file(self, name: str, file: str) -> str:
        return str(self._root / name / file)


def _opened(path: str, size: int, fetch: Fetch, compression: Compression | None) -> SafetensorsFile:
    if compression is None:
        return SafetensorsFile(path, size=size, fetch=fetch)
    return SafetensorsFile(path, size=compression.size, fetch=decompressing(path, size, fetch, compression))


def _no_file(folder: str, file: str) -> NotFoundError:
    return NotFoundError(
        "there is no saved step here",
        where=folder,
        expected=f"a folder with the file {file}",
        got="none",
        hint="name the folder of one step, such as ckpt/step-00000100",
    )
