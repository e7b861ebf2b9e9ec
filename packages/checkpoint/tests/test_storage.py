"""Steps on an object store: the manifest, written last, is what makes a step."""

from __future__ import annotations

import sys
import uuid
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataLossError, NotFoundError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.checksum import BLOCK
from headrace_checkpoint.saver import CheckpointManager, Saver
from headrace_checkpoint.storage import LocalStorage, RemoteStorage, storage_of
from headrace_checkpoint.store import CheckpointWarning, StoredStep, list_steps, read_newest_step, write_step

fsspec = pytest.importorskip("fsspec", reason="object stores")
ARRAYS: dict[str, Any] = {"w": np.arange(6.0).reshape(2, 3), "s": np.array([b"a"], object), "empty": np.zeros((0, 2))}


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}/run/ckpt"


def _files() -> Any:
    return fsspec.filesystem("memory")


def test_steps_are_written_and_read(url: str) -> None:
    assert list_steps(url) == []
    for step in (1, 2):
        path = write_step(url, step, ARRAYS, time=0.0, shard_bytes=50, objects={"epoch": step})
        assert path == f"{url}/step-{step:08d}"
    assert [name.step for name in list_steps(url)] == [1, 2]
    step, loaded = read_newest_step(url, StoredStep.read_all)
    assert (step.manifest.step, step.manifest.objects) == (2, {"epoch": 2})
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)
    write_step(url, 2, {"w": np.zeros(1)}, time=0.0)
    assert [str(name) for name in list_steps(url)] == ["step-00000001", "step-00000002-2"]


def test_a_step_without_its_manifest_is_none(url: str) -> None:
    write_step(url, 1, ARRAYS, time=0.0)
    write_step(url, 2, ARRAYS, time=0.0)
    root = url.removeprefix("memory:/")
    _files().rm_file(f"{root}/step-00000002/MANIFEST.json")
    assert [name.step for name in list_steps(url)] == [1]
    with pytest.raises(NotFoundError, match="there is no saved step here"):
        StoredStep(f"{url}/step-00000002")


def test_damage_is_found(url: str) -> None:
    for step in (1, 2, 3):
        write_step(url, step, ARRAYS, time=0.0)
    root = url.removeprefix("memory:/")
    shard = f"{root}/step-00000003/shard-00000-of-00001.safetensors"
    data = bytearray(_files().cat_file(shard))
    data[-1] ^= 1
    _files().pipe_file(shard, bytes(data))
    _files().pipe_file(f"{root}/step-00000002/shard-00000-of-00001.safetensors", bytes(data[:-1]))
    with pytest.warns(CheckpointWarning) as caught:
        step, _ = read_newest_step(url, StoredStep.read_all)
    assert (len(caught), step.manifest.step) == (2, 1)
    _files().rm_file(f"{root}/step-00000001/shard-00000-of-00001.safetensors")
    with pytest.raises(NotFoundError, match=r"the file shard-00000-of-00001\.safetensors"):
        StoredStep(f"{url}/step-00000001")


def test_a_store_that_loses_bytes_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_step(url, 1, ARRAYS, time=0.0)
    storage = RemoteStorage(url)
    monkeypatch.setattr(type(storage._files), "size", lambda self, path: 7)
    with pytest.raises(OSError, match="7 of .* bytes arrived"):
        write_step(url, 2, ARRAYS, time=0.0)
    assert [name.step for name in list_steps(url)] == [1]
    monkeypatch.setattr(type(storage._files), "size", lambda self, path: 10**6)
    with pytest.raises(DataLossError, match="bytes of arrays"):
        StoredStep(path)


def test_only_the_bytes_of_what_is_read_are_fetched(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_step(url, 1, {"a": np.zeros(1000), "b": np.ones(3)}, time=0.0)
    fetched: list[int] = []
    cat_file = type(_files()).cat_file

    def counting(self: Any, path: str, start: int | None = None, end: int | None = None, **more: Any) -> Any:
        content = cat_file(self, path, start=start, end=end, **more)
        fetched.append(len(content))
        return content

    monkeypatch.setattr(type(_files()), "cat_file", counting)
    step = StoredStep(path)
    fetched.clear()
    assert step.read("b").tolist() == [1, 1, 1]
    assert fetched == [24]


def test_a_part_takes_only_the_blocks_in_which_it_lies(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = np.arange(3 * BLOCK, dtype=np.uint32).reshape(12, -1)
    step = StoredStep(write_step(url, 1, {"wide": wide}, time=0.0))
    fetched: list[int] = []
    cat_file = type(_files()).cat_file

    def counting(self: Any, path: str, start: int | None = None, end: int | None = None, **more: Any) -> Any:
        content = cat_file(self, path, start=start, end=end, **more)
        fetched.append(len(content))
        return content

    monkeypatch.setattr(type(_files()), "cat_file", counting)
    np.testing.assert_array_equal(step.read("wide", Box((3, 0), (2, wide.shape[1]))), wide[3:5])
    assert fetched == [2 * BLOCK]
    fetched.clear()
    np.testing.assert_array_equal(step.read("wide", Box((3, 7), (1, 2))), wide[3:4, 7:9])
    assert fetched == [BLOCK]


def test_the_manager_keeps_and_deletes_there_too(url: str) -> None:
    w = hr.Variable(np.zeros(2, np.float32), name="remote_w")
    manager = CheckpointManager(url, 1, keep_best=("loss", 1), variables=[w])
    for step, loss in enumerate([0.3, 0.1, 0.2]):
        w.assign(np.full(2, step, np.float32))
        manager.save(None, step, metrics={"loss": loss})
    assert (manager.steps, manager.best_step) == ((1, 2), 1)
    assert manager.restore(None, step=1).restored == ("remote_w",)
    assert w.numpy().tolist() == [1, 1]
    assert Saver([w]).restore(None, f"{url}/step-00000002").step == 2
    root = url.removeprefix("memory:/")
    assert not _files().exists(f"{root}/step-00000000")


def test_what_a_name_means(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(storage_of(tmp_path), LocalStorage)
    assert storage_of("memory://a/b/").path("c") == "memory://a/b/c"
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(NotFoundError, match=r"no package for 's3://'(.|\n)*headrace-checkpoint\[remote\]"):
        storage_of("s3://bucket/ckpt")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(NotFoundError, match="no package for 'memory://'"):
        storage_of("memory://a")


def test_a_step_that_is_deleted_while_it_is_read_is_passed_over_in_silence(tmp_path: Any) -> None:
    for step in (1, 2):
        write_step(tmp_path, step, ARRAYS, time=0.0)

    def read(step: StoredStep) -> int:
        if step.manifest.step == 2:
            storage_of(tmp_path).remove("step-00000002")
            raise NotFoundError("gone")
        return step.manifest.step

    assert read_newest_step(tmp_path, read)[1] == 1
