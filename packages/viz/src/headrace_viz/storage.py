"""Where a run's files lie: a local folder, or one on anything that fsspec reaches (`s3://...`, `gs://...`, `memory://`).

A remote store has no appending and no truncating. So a remote file keeps its whole content here and is put anew each
time, in one piece: readers see the old content or the new one. Rotation bounds what is put (see `EventLog`).
"""

from __future__ import annotations

import errno
import os
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from headrace.errors import NotFoundError
from headrace_viz.extras import load_extra


class Stream(Protocol):
    """A new file that is being written from its beginning."""

    def write(self, data: memoryview) -> int | None:
        """Write a beginning of `data` and return its length; None or 0 where nothing can be written."""

    def truncate(self, size: int) -> object:
        """Cut the file back to `size` bytes and go on there."""

    def commit(self) -> None:
        """Show readers what was written; with `sync`, keep it through a loss of power too. Raises OSError."""

    def close(self) -> None:
        """Close the file."""


class Folder(Protocol):
    """The folder of a run."""

    def names(self) -> list[str]:
        """Return the names of its files, sorted; none where it does not exist."""

    def create(self, name: str, *, sync: bool) -> Stream:
        """Make a file, which must not be there yet, and the folder with it. Raises OSError."""

    def location(self, name: str) -> Path | str:
        """Return where a file lies: a Path, or the URL of a remote one."""

    def read(self, name: str) -> bytes:
        """Return a whole file. Raises OSError."""

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file, in place of one that may be there. Raises OSError."""


Place = Path | str
"""A path, or the URL of what lies elsewhere."""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether it is `protocol://...`."""
    return "://" in os.fspath(path)


def folder_of(logdir: str | os.PathLike[str]) -> Folder:
    """Return the folder that a path or an fsspec URL names.

    Raises:
      NotFoundError: a URL, and fsspec or the driver of its protocol is not installed.
    """
    if not is_url(logdir):
        return LocalFolder(Path(logdir))
    files, root = _reached(os.fspath(logdir))
    return RemoteFolder(files, root.rstrip("/"))


def files_below(place: str | os.PathLike[str]) -> dict[str, list[Place]]:
    """Return the files in a folder and the folders in it, by the folder's path within, "." for itself; all sorted.

    A place that is a file is the only file of ".". Where there is nothing, the result is empty.

    Raises:
      NotFoundError: see `folder_of`.
    """
    if not is_url(place):
        root = Path(place)
        found: list[Place] = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
        parents = ["." if path == root else path.parent.relative_to(root).as_posix() for path in map(Path, found)]
    else:
        files, top = _reached(os.fspath(place))
        files.invalidate_cache()
        names = sorted(str(name) for name in files.find(top.rstrip("/")))
        found = [str(files.unstrip_protocol(name)) for name in names]
        parents = [name.removeprefix(top).strip("/").rpartition("/")[0] or "." for name in names]
    folders: dict[str, list[Place]] = {}
    for parent, path in sorted(zip(parents, found, strict=True), key=lambda item: (item[0], str(item[1]))):
        folders.setdefault(parent, []).append(path)
    return folders


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading, local or remote.

    Raises:
      OSError: it cannot be read.
      NotFoundError: see `folder_of`.
    """
    if not is_url(path):
        return Path(path).open("rb")
    files, name = _reached(os.fspath(path))
    stream: BinaryIO = files.open(name, "rb")
    return stream


def _reached(text: str) -> tuple[Any, str]:
    """Return the fsspec filesystem of a URL, and the path in it."""
    protocol = text.partition("://")[0]
    fsspec = load_extra("fsspec", "remote")
    try:
        files, root = fsspec.url_to_fs(text)
    except (ImportError, ValueError) as error:
        raise NotFoundError(
            f"nothing here reaches '{text}'",
            expected=f"a protocol that fsspec knows, with the driver of '{protocol}' installed",
            got=str(error),
            hint="install the driver: s3fs for s3://, gcsfs for gs://",
        ) from error
    return files, str(root)


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """Return the names of its files."""
        return sorted(os.listdir(self._path)) if self._path.is_dir() else []

    def create(self, name: str, *, sync: bool) -> Stream:
        """Make a file and the folder."""
        self._path.mkdir(parents=True, exist_ok=True)
        stream = LocalStream(self._path / name, sync=sync)
        if sync:
            _sync_folder(self._path)
        return stream

    def location(self, name: str) -> Path:
        """Return a file's path."""
        return self._path / name

    def read(self, name: str) -> bytes:
        """Return a whole file."""
        return (self._path / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_bytes(data)
        partial.replace(path)


class LocalStream:
    """A file of this machine, unbuffered."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        # Exclusive: appending to a file whose end may be torn would hide every later record from its readers.
        self._file = FileIO(path, "x")
        self._sync = sync

    def write(self, data: memoryview) -> int | None:
        """Write what the disk takes."""
        return self._file.write(data)

    def truncate(self, size: int) -> None:
        """Cut back."""
        self._file.truncate(size)
        self._file.seek(size)

    def commit(self) -> None:
        """Sync, if that was asked for; readers have seen each write already."""
        if self._sync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close."""
        self._file.close()


class RemoteFolder:
    """A folder that fsspec reaches.

    Args:
      files: an fsspec filesystem.
      root: the folder in it.
    """

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root

    def names(self) -> list[str]:
        """Return the names of its files."""
        self._files.invalidate_cache(self._root)
        try:
            listed = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in listed)

    def create(self, name: str, *, sync: bool) -> Stream:
        """Make a file; remote stores need no folder before, and have no weaker way of writing than `sync`."""
        return RemoteStream(self, name)

    def location(self, name: str) -> str:
        """Return a file's URL."""
        return str(self._files.unstrip_protocol(f"{self._root}/{name}"))

    def read(self, name: str) -> bytes:
        """Return a whole file."""
        return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        path = f"{self._root}/{name}"
        try:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, data)
        except Exception as error:  # each store has errors of its own; to a writer all mean that nothing was written
            raise OSError(errno.EIO, f"{type(error).__name__}: {error}", self.location(name)) from error


class RemoteStream:
    """A remote file: its content so far."""

    def __init__(self, folder: RemoteFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._content = bytearray()

    def write(self, data: memoryview) -> int:
        """Take all."""
        self._content += data
        return len(data)

    def truncate(self, size: int) -> None:
        """Cut back."""
        del self._content[size:]

    def commit(self) -> None:
        """Put the whole content."""
        self._folder.put(self._name, bytes(self._content))

    def close(self) -> None:
        """Forget the content."""
        self._content = bytearray()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
