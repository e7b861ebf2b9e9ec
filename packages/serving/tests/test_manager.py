"""Loading and unloading while a server runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from headrace_serving.catalog import ModelConfig, VersionPolicy
from headrace_serving.errors import BadRequestError, ModelFolderError, ServableNotFoundError, UnsupportedError
from headrace_serving.manager import ModelManager
from headrace_serving.repository import ModelRepository, ModelSpec, State
from headrace_serving.server import ModelServer


class Numbered:
    """A model that answers its own number."""

    def __init__(self, number: int, make_signature: Any) -> None:
        self.number = number
        self.closed = False
        self.warm = 0
        signature = make_signature({"x": ("int64", [None])}, {"y": ("int64", [None])}, self._answer)
        self.signatures = {"serving_default": signature}

    def _answer(self, x: Any) -> Mapping[str, Any]:
        assert not self.closed
        self.warm += 1
        return {"y": np.full_like(x, self.number)}

    def close(self) -> None:
        """Free it."""
        self.closed = True


class Shelf:
    """Folders of models, and what was loaded from them."""

    def __init__(self, folder: Path, make_signature: Any) -> None:
        self.folder = folder
        self.make_signature = make_signature
        self.loads: list[int] = []
        self.models: dict[int, Numbered] = {}
        self.configs: dict[str, ModelConfig] = {"m": ModelConfig(folder / "m")}
        self.repository = ModelRepository()
        self.manager = ModelManager(self.repository, lambda: self.configs, self.load, (1, 2))
        self.server = ModelServer(self.repository, manager=self.manager)

    def write(self, number: int, text: str = "good") -> None:
        """Export a version."""
        path = self.folder / "m" / str(number)
        path.mkdir(parents=True, exist_ok=True)
        (path / "saved_model.pb").write_text(text)

    def remove(self, number: int) -> None:
        """Take a version away."""
        (self.folder / "m" / str(number) / "saved_model.pb").unlink()

    def load(self, path: Path) -> Numbered:
        """Load a version."""
        self.loads.append(int(path.name))
        if (path / "saved_model.pb").read_text() == "damaged":
            raise ValueError("damaged")
        self.models[int(path.name)] = Numbered(int(path.name), self.make_signature)
        return self.models[int(path.name)]

    def states(self) -> dict[int, str]:
        """States by version."""
        return {version.number: version.state.value for version in self.repository.versions(ModelSpec("m"))}

    def answer(self, label: str | None = None) -> int:
        """Ask the newest version for its number."""
        spec = ModelSpec("m", label=label)
        return int(orjson.loads(self.server.predict(spec, b'{"inputs": [0]}'))["outputs"][0])


@pytest.fixture(name="shelf")
def _shelf(tmp_path: Path, make_signature: Any) -> Shelf:
    return Shelf(tmp_path, make_signature)


def test_the_newest_version_takes_the_place_of_the_older(shelf: Shelf) -> None:
    shelf.write(1)
    shelf.manager.reload()
    assert (shelf.answer(), shelf.states()) == (1, {1: "AVAILABLE"})
    assert shelf.models[1].warm == 3  # twice before it was available
    shelf.write(2)
    shelf.manager.reload()
    assert (shelf.answer(), shelf.states()) == (2, {2: "AVAILABLE", 1: "END"})
    assert shelf.models[1].closed
    shelf.manager.reload()
    assert shelf.loads == [1, 2]


def test_a_broken_version_leaves_the_old_one_serving_until_it_is_mended(shelf: Shelf) -> None:
    shelf.write(1)
    shelf.write(2, "damaged")
    for _ in range(3):
        shelf.manager.reload()
    assert (shelf.answer(), shelf.states(), shelf.loads) == (1, {2: "END", 1: "AVAILABLE"}, [2, 1])
    shelf.write(2, "mended!")
    shelf.manager.reload()
    assert (shelf.answer(), shelf.states()) == (2, {2: "AVAILABLE", 1: "END"})


def test_retry_tries_broken_versions_again(shelf: Shelf) -> None:
    shelf.write(1, "damaged")
    shelf.manager.reload()
    shelf.manager.retry()
    assert shelf.loads == [1, 1]


def test_folders_without_a_model_are_not_touched(shelf: Shelf) -> None:
    shelf.write(1)
    (shelf.folder / "m" / "2").mkdir()
    shelf.manager.reload()
    assert (shelf.answer(), shelf.loads) == (1, [1])


def test_the_last_version_stays_when_its_folder_is_gone(shelf: Shelf) -> None:
    shelf.write(1)
    shelf.manager.reload()
    shelf.remove(1)
    shelf.manager.reload()
    assert shelf.answer() == 1
    shelf.configs.clear()
    shelf.manager.reload()
    with pytest.raises(ServableNotFoundError, match=r"Latest\(m\)"):
        shelf.answer()
    assert shelf.models[1].closed
    assert shelf.repository.names == []


def test_all_and_specific_versions(shelf: Shelf) -> None:
    for number in (1, 2, 3):
        shelf.write(number)
    shelf.configs["m"] = ModelConfig(shelf.folder / "m", VersionPolicy(None))
    shelf.manager.reload()
    assert shelf.states() == dict.fromkeys((1, 2, 3), "AVAILABLE")
    shelf.configs["m"] = ModelConfig(shelf.folder / "m", VersionPolicy(None, frozenset({2})))
    shelf.manager.reload()
    assert shelf.states() == {1: "END", 2: "AVAILABLE", 3: "END"}


def test_labels_name_versions_that_are_available(shelf: Shelf) -> None:
    for number in (1, 2):
        shelf.write(number)
    labels = {"stable": 1, "canary": 2, "next": 3}
    shelf.configs["m"] = ModelConfig(shelf.folder / "m", VersionPolicy(None), labels)
    shelf.manager.reload()
    assert (shelf.answer("stable"), shelf.answer("canary")) == (1, 2)
    for label in ("next", "absent"):
        with pytest.raises(BadRequestError, match=f"Unrecognized servable version label: {label}"):
            shelf.answer(label)
    assert [v.number for v in shelf.repository.versions(ModelSpec("m", label="absent"))] == [2, 1]


def test_a_version_in_use_is_freed_when_its_last_request_is_answered(shelf: Shelf) -> None:
    shelf.write(1)
    shelf.manager.reload()
    first, second = (shelf.repository.lease(ModelSpec("m")) for _ in range(2))
    shelf.manager.unload("m")
    assert shelf.states() == {1: "UNLOADING"}
    with pytest.raises(ServableNotFoundError, match=r"Latest\(m\)"):
        shelf.answer()
    first.release()
    first.release()
    assert not shelf.models[1].closed
    old = shelf.models[1]
    shelf.manager.load("m")  # again, while the old one is still in use
    assert (shelf.answer(), old.closed) == (1, False)
    second.release()
    assert (old.closed, shelf.models[1].closed, shelf.states()) == (True, False, {1: "AVAILABLE"})


def test_a_request_that_is_refused_does_not_keep_a_version(shelf: Shelf) -> None:
    shelf.write(1)
    shelf.manager.reload()
    with pytest.raises(BadRequestError, match="The document is empty"):
        shelf.server.predict(ModelSpec("m"), b"")
    shelf.manager.unload("m")
    assert shelf.models[1].closed


def test_load_unload_and_index_by_name(shelf: Shelf) -> None:
    shelf.write(1)
    assert orjson.loads(shelf.server.index(b"")) == [{"name": "m", "state": "UNAVAILABLE", "reason": "unloaded"}]
    assert shelf.server.load("m", b"{}") == b"{}"
    ready = [{"name": "m", "version": "1", "state": "READY", "reason": ""}]
    assert orjson.loads(shelf.server.index(b'{"ready": true}')) == ready
    assert shelf.server.unload("m", b'{"parameters": {"unload_dependents": false}}') == b"{}"
    shelf.manager.reload()
    assert orjson.loads(shelf.server.index(b'{"ready": true}')) == []
    gone = [{"name": "m", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}]
    assert orjson.loads(shelf.server.index(b"")) == gone
    shelf.server.load("m", b"")
    assert shelf.answer() == 1


def test_what_cannot_be_loaded_by_name(shelf: Shelf) -> None:
    with pytest.raises(ServableNotFoundError, match=r"failed to load 'nil', no such model\n.*expected: m"):
        shelf.server.load("nil", b"")
    with pytest.raises(ServableNotFoundError, match="failed to unload 'nil', no such model"):
        shelf.server.unload("nil", b"")
    with pytest.raises(ModelFolderError, match=r"no version of model 'm' can be loaded\n(.*\n)*.*no version\n"):
        shelf.server.load("m", b"")
    shelf.write(1, "damaged")
    with pytest.raises(ModelFolderError, match=r"no version of model 'm' can be loaded\n(.*\n)*.*version 1: damaged"):
        shelf.server.load("m", b"")
    with pytest.raises(UnsupportedError, match="a model cannot be configured by the request that loads it"):
        shelf.server.load("m", b'{"parameters": {"config": "{}"}}')
    with pytest.raises(UnsupportedError, match="the models of this server are fixed"):
        ModelServer(shelf.repository).load("m", b"")


def test_polling_finds_versions_and_survives_errors(shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    looked = threading.Semaphore(0)
    configs = shelf.configs
    broken = [True]

    def catalog() -> Mapping[str, ModelConfig]:
        looked.release()
        if broken.pop() if broken else False:
            raise OSError("no disk")
        return configs

    manager = ModelManager(shelf.repository, catalog, shelf.load)
    shelf.write(1)
    with caplog.at_level(logging.ERROR):
        manager.start_polling(0.001)
        for _ in range(4):
            assert looked.acquire(timeout=30)
        manager.stop()
    assert shelf.answer() == 1
    assert "OSError: no disk" in caplog.text


def test_reload_race(shelf: Shelf) -> None:
    """Versions come and go while callers ask: each gets an answer, and never an older one than before."""
    shelf.write(1)
    shelf.manager.reload()
    done = threading.Event()

    def ask() -> list[int]:
        answers = []
        while not done.is_set():
            answers.append(shelf.answer())
        return answers

    with ThreadPoolExecutor(4) as callers:
        futures = [callers.submit(ask) for _ in range(4)]
        for number in range(2, 30):
            shelf.write(number)
            shelf.manager.reload()
            shelf.remove(number - 1)
            shelf.manager.reload()
        done.set()
        for future in futures:
            answers = future.result(30)
            assert answers == sorted(answers)
    assert [number for number, model in shelf.models.items() if not model.closed] == [29]
    states = list(shelf.states().values())
    assert (states.count("AVAILABLE"), len(states)) == (1, 17)
    assert State.END.value in states
