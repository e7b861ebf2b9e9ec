"""Folders of models: which versions there are, and which one a request gets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import DataLossError, HeadraceError
from headrace_serving.errors import BadRequestError, ModelFolderError, ServableNotFoundError
from headrace_serving.repository import ModelRepository, ModelSpec, ModelVersion, version_folders


def _export(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").touch()
    return folder


def test_versions_are_numbered_folders_with_a_model(tmp_path: Path) -> None:
    for name in ("1", "10", "9", "latest", "-3", "٣", "1" * 30):
        _export(tmp_path / name)
    (tmp_path / "11").mkdir()
    (tmp_path / "12").touch()
    assert version_folders(tmp_path) == {1: tmp_path / "1", 9: tmp_path / "9", 10: tmp_path / "10"}


@pytest.mark.parametrize(("name", "number"), [("7", 7), ("best", 1)])
def test_a_folder_that_is_itself_a_model(tmp_path: Path, name: str, number: int) -> None:
    assert version_folders(_export(tmp_path / name)) == {number: tmp_path / name}


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"no exported model to serve\n(.*\n)*.*got: +a folder without one\n"):
        version_folders(tmp_path)
    with pytest.raises(ModelFolderError, match=r"no exported model to serve\n(.*\n)*.*got: +no such folder\n"):
        version_folders(tmp_path / "absent")


def test_a_broken_version_leaves_the_others_serving(
    tmp_path: Path, half: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for number in ("1", "2", "3"):
        _export(tmp_path / number)

    def load(path: Path) -> Any:
        if path.name == "3":
            raise DataLossError("the file is cut off")
        return half

    with caplog.at_level(logging.WARNING):
        repository = ModelRepository.load({"half": tmp_path}, load)
    assert "model 'half' version 3 cannot be loaded: the file is cut off" in caplog.text
    assert repository.names == ["half"]
    assert repository.resolve(ModelSpec("half"))[0].number == 2
    assert [(version.number, version.error) for version in repository.versions(ModelSpec("half"))] == [
        (3, "the file is cut off"),
        (2, ""),
        (1, ""),
    ]


def test_no_version_that_loads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _export(tmp_path / "1")

    def load(path: Path) -> Any:
        raise PermissionError("not yours")

    with pytest.raises(
        ModelFolderError, match=r"no version of model 'half' can be loaded\n(.*\n)*.*version 1: not yours"
    ):
        ModelRepository.load({"half": tmp_path}, load)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        (ModelSpec("absent"), ServableNotFoundError, r"Servable not found for request: Latest\(absent\)"),
        (ModelSpec("half", 9), ServableNotFoundError, r"Servable not found for request: Specific\(half, 9\)"),
        (ModelSpec("half", 3), ServableNotFoundError, r"Servable not found for request: Specific\(half, 3\)"),
        (ModelSpec("half", label="canary"), BadRequestError, "Unrecognized servable version label: canary"),
    ],
)
def test_what_cannot_be_resolved(half: Any, spec: ModelSpec, kind: type[HeadraceError], message: str) -> None:
    repository = ModelRepository([ModelVersion("half", 2, half), ModelVersion("half", 3, None, "damaged")])
    with pytest.raises(kind, match=message):
        repository.resolve(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec("absent"), "Could not find any versions of model absent"),
        (ModelSpec("half", 9), "Could not find version 9 of model half"),
    ],
)
def test_versions_of_nothing(half: Any, spec: ModelSpec, message: str) -> None:
    repository = ModelRepository([ModelVersion("half", 2, half)])
    with pytest.raises(ServableNotFoundError, match=message):
        repository.versions(spec)
    assert [version.number for version in repository.versions(ModelSpec("half", 2))] == [2]
