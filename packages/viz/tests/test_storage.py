"""Folders: local ones and remote ones behave alike, and say what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import NotFoundError
from headrace_viz import storage
from headrace_viz.storage import Folder, RemoteFolder, folder_of

fsspec = pytest.importorskip("fsspec")
MakeFolder = Callable[[str], Folder]


@pytest.fixture(name="place", params=["local", "remote"])
def _place(request: pytest.FixtureRequest, tmp_path: Path) -> MakeFolder:
    root = str(tmp_path) if request.param == "local" else f"memory:/{tmp_path}"
    return lambda name: folder_of(f"{root}/{name}")


def test_a_folder_that_is_not_there_has_no_files(place: MakeFolder) -> None:
    assert place("absent").names() == []


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_made_written_and_cut_back(place: MakeFolder, sync: bool) -> None:
    folder = place("new/run")
    stream = folder.create("file", sync=sync)
    assert stream.write(memoryview(b"good and bad")) == 12
    stream.truncate(4)
    stream.write(memoryview(b"!"))
    stream.commit()
    stream.close()
    assert folder.read("file") == b"good!"
    assert folder.names() == ["file"]


def test_a_whole_file_takes_the_place_of_another(place: MakeFolder) -> None:
    folder = place("run")
    for data in (b"first", b"2"):
        folder.put("inner/file", data)
    assert folder.read("inner/file") == b"2"
    assert folder.names() == ["inner"]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    with pytest.raises(FileExistsError, match="file"):
        folder_of(tmp_path).create("file", sync=False)


def test_locations(tmp_path: Path) -> None:
    assert folder_of(tmp_path).location("file") == tmp_path / "file"
    assert folder_of("memory://bucket/run/").location("file") == "memory:///bucket/run/file"


def test_any_error_of_a_store_means_that_nothing_was_written() -> None:
    class Broken:
        """A filesystem that fails in its own way."""

        def makedirs(self, path: str, exist_ok: bool) -> None:
            """Fail."""
            raise LookupError("no such bucket")

        def unstrip_protocol(self, path: str) -> str:
            """Name it."""
            return f"broken://{path}"

    with pytest.raises(OSError, match="LookupError: no such bucket"):
        RemoteFolder(Broken(), "bucket").put("file", b"")


def test_a_protocol_that_nobody_knows() -> None:
    with pytest.raises(NotFoundError, match=r"nothing here reaches 'nosuch://run'\n(.*\n)*.*driver"):
        folder_of("nosuch://run")


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(module: str, extra: str) -> Any:
        raise NotFoundError(f"package '{module}' is missing", hint=extra)

    monkeypatch.setattr(storage, "load_extra", load)
    with pytest.raises(NotFoundError, match="package 'fsspec' is missing"):
        folder_of("memory://run")
