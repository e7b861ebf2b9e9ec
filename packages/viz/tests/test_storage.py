"""Folders: local ones and remote ones behave alike, and say what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.errors import NotFoundError
from headrace_viz import EventWriter, find_runs, read_events, read_run, storage
from headrace_viz.cli import events
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


def test_runs_are_found_and_read_wherever_they_lie(tmp_path: Path) -> None:
    for root in (str(tmp_path), f"memory:/{tmp_path}"):
        for run in ("train", "test"):
            with EventWriter(f"{root}/{run}") as writer:
                writer.scalar("loss", 0.5, step=1)
        folder_of(root).put("notes.txt", b"mine")
        runs = find_runs(root)
        assert list(runs) == ["test", "train"]
        (value,) = read_run(runs["train"])
        assert (value.tag, value.step, value.value) == ("loss", 1, 0.5)
        assert [event.step for event in read_events(runs["train"][0])] == [0, 1]
        assert list(find_runs(runs["train"][0])) == ["."]
    folder_of("memory://elsewhere").put("notes.txt", b"mine")
    with pytest.raises(NotFoundError, match=r"there are no event files(.|\n)*got: *1 other files"):
        find_runs("memory://elsewhere")


def test_the_commands_take_urls(tmp_path: Path) -> None:
    with EventWriter(f"memory:/{tmp_path}/run") as writer:
        writer.scalar("loss", 0.5, step=1)
    result = CliRunner().invoke(events, ["ls", f"memory:/{tmp_path}", "--json"])
    assert (result.exit_code, json.loads(result.output)[0]["tag"]) == (0, "loss")
    assert CliRunner().invoke(events, ["verify", f"memory:/{tmp_path}"]).exit_code == 0
    assert CliRunner().invoke(events, ["ls", str(tmp_path / "absent")]).exit_code == 2
