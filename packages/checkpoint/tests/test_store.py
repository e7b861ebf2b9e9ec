"""Saved steps: whole or not there, found by looking, refused when any byte is wrong."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.errors import DataLossError, InvalidArgumentError, NotFoundError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.checksum import crc32c
from headrace_checkpoint.durable import Disk
from headrace_checkpoint.manifest import MANIFEST
from headrace_checkpoint.retention import Retention, SavedStep
from headrace_checkpoint.safetensors import load_safetensors, save_safetensors
from headrace_checkpoint.saver import CheckpointManager
from headrace_checkpoint.store import CheckpointWarning, StepName, StoredStep, list_steps, read_newest_step, write_step

SHARD = "shard-00000-of-00001.safetensors"


def _arrays(step: int) -> dict[str, Any]:
    return {
        "w": np.full((2, 3), step, np.float32),
        "step": np.array(step),
        "names": np.array([b"\x00", b""], object),
        "half": np.array([step], ml_dtypes.bfloat16),
        "z": np.array([1j * step]),
    }


def _save(root: Path, step: int, **more: Any) -> Path:
    return Path(write_step(root, step, _arrays(step), time=100.0 + step, **more))


def _check(loaded: dict[str, Any], step: int) -> None:
    expected = _arrays(step)
    assert loaded.keys() == expected.keys()
    for name, array in expected.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)


def test_a_step_reads_back_what_was_saved(tmp_path: Path) -> None:
    path = _save(tmp_path / "a" / "b", 7, objects={"epoch": 2}, metrics={"loss": np.float32(0.5)})
    assert path == tmp_path / "a" / "b" / "step-00000007"
    step = StoredStep(path)
    _check(step.read_all(), 7)
    assert (step.manifest.step, step.manifest.time, step.manifest.objects) == (7, 107.0, {"epoch": 2})
    assert step.manifest.metrics == {"loss": 0.5}
    assert sorted(step) == sorted(_arrays(7))


def test_the_shard_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    _check(load_safetensors(_save(tmp_path, 7) / SHARD), 7)
    library = pytest.importorskip("safetensors.numpy", reason="the oracle")
    save_safetensors(tmp_path / "f32", {"w": np.ones(2, np.float32)})
    assert library.load_file(tmp_path / "f32")["w"].tolist() == [1, 1]


def test_step_names_sort_by_step_then_attempt(tmp_path: Path) -> None:
    names = ["step-00000009", "step-00000010", "step-00000010-2", "step-00000010-10", "step-123456789012"]
    for name in [*names, "step-7", "step-00000001.old", ".tmp-step-00000011~h~1~a", "other"]:
        (tmp_path / name).mkdir()
    assert [str(name) for name in list_steps(tmp_path)] == names
    assert list_steps(tmp_path / "absent") == []


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    _save(tmp_path, 5)
    write_step(tmp_path, 5, {"w": np.zeros(1)}, time=0.0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000005-2"]
    step, loaded = read_newest_step(tmp_path, StoredStep.read_all)
    assert Path(step.path).name == "step-00000005-2"
    assert loaded["w"].tolist() == [0]
    _save(tmp_path, 5)
    assert list_steps(tmp_path) == [StepName(5, 3)]


@pytest.mark.parametrize("step", [-1, 2**63])
def test_steps_out_of_range(tmp_path: Path, step: int) -> None:
    with pytest.raises(InvalidArgumentError, match="no number of a step"):
        write_step(tmp_path, step, {}, time=0.0)


def test_the_newest_step_is_found_without_a_pointer(tmp_path: Path) -> None:
    for step in (3, 200, 10):
        _save(tmp_path, step)
    newest, loaded = read_newest_step(tmp_path, StoredStep.read_all)
    assert newest.manifest.step == 200
    _check(loaded, 200)


def test_K13_a_moved_directory_is_still_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _save(tmp_path / "a", 1)
    (tmp_path / "a").rename(tmp_path / "b")
    _check(read_newest_step(tmp_path / "b", StoredStep.read_all)[1], 1)
    monkeypatch.chdir(tmp_path)
    _check(read_newest_step("b", StoredStep.read_all)[1], 1)
    with pytest.raises(NotFoundError, match=r"no checkpoint yet\n *where: *.*a\n"):
        read_newest_step(tmp_path / "a", StoredStep.read_all)


def test_reading_where_nothing_was_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no checkpoint yet"):
        read_newest_step(tmp_path, StoredStep.read_all)
    with pytest.raises(NotFoundError, match="no saved step here"):
        StoredStep(tmp_path / "step-00000001")
    with pytest.raises(NotFoundError, match=r"no tensor 'v'"):
        StoredStep(_save(tmp_path, 1)).read("v")


def test_A92_a_damaged_step_is_passed_over_with_its_name(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        _save(tmp_path, step)
    shard = tmp_path / "step-00000003" / SHARD
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    (tmp_path / "step-00000002" / MANIFEST).unlink()
    with pytest.warns(CheckpointWarning) as caught:
        whole, loaded = read_newest_step(tmp_path, StoredStep.read_all)
    assert ["step-00000003" in str(caught[0].message), "step-00000002" in str(caught[1].message)] == [True, True]
    assert whole.manifest.step == 1
    _check(loaded, 1)


def test_all_steps_damaged(tmp_path: Path) -> None:
    (_save(tmp_path, 1) / SHARD).unlink()
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(DataLossError, match=r"no checkpoint is whole\n[^$]*step-00000001: there is no such file"),
    ):
        read_newest_step(tmp_path, StoredStep.read_all)


def test_D26_every_flipped_bit_and_every_truncation_of_every_file_is_found(tmp_path: Path) -> None:
    path = Path(
        write_step(tmp_path, 1, {"w": np.arange(3, dtype=np.float32), "s": np.array([b"ab"], object)}, time=0.0)
    )
    for file in (path / SHARD, path / MANIFEST):
        good = file.read_bytes()
        for index in range(len(good)):
            for bad in (good[:index], good[:index] + bytes([good[index] ^ 2]) + good[index + 1 :]):
                file.write_bytes(bad)
                with pytest.raises(
                    DataLossError, match=r"not a valid|checksum|not the one that was saved|not in the shard"
                ):
                    StoredStep(path).read_all()
        file.write_bytes(good)
    assert StoredStep(path).read("w").tolist() == [0, 1, 2]


def test_two_chunks_of_the_same_place_are_refused(tmp_path: Path) -> None:
    path = _save(tmp_path, 1)

    def double(content: Any) -> None:
        content["tensors"]["w"]["chunks"] *= 2

    _edit_manifest(path, double)
    with pytest.raises(DataLossError, match=r"tensor 'w' is not stored whole(.|\n)*two chunks overlap"):
        StoredStep(path)


def test_shards_of_a_size_are_written_and_read_as_one_step(tmp_path: Path) -> None:
    arrays = {f"w{number}": np.full(100, number, np.float64) for number in range(5)}
    path = Path(write_step(tmp_path, 1, arrays, time=0.0, shard_bytes=1700))
    assert sorted(entry.name for entry in path.iterdir()) == [
        MANIFEST, *(f"shard-{number:05d}-of-00003.safetensors" for number in range(3))
    ]  # fmt: skip
    _check_equal(StoredStep(path).read_all(), arrays)
    with pytest.raises(InvalidArgumentError, match="shards must have room"):
        write_step(tmp_path, 2, arrays, time=0.0, shard_bytes=0)


def _check_equal(loaded: dict[str, Any], expected: dict[str, Any]) -> None:
    assert loaded.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)


def test_a_part_of_a_tensor_is_read_alone(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.int16).reshape(4, 6)
    step = StoredStep(write_step(tmp_path, 1, {"w": whole}, time=0.0))
    np.testing.assert_array_equal(step.read("w", Box((1, 2), (2, 3))), whole[1:3, 2:5], strict=True)
    assert step.read("w", Box((4, 0), (0, 6))).shape == (0, 6)
    for box in (Box((3, 0), (2, 6)), Box((0,), (4,)), Box((-1, 0), (1, 1))):
        with pytest.raises(InvalidArgumentError, match=r"no such part of tensor 'w'(.|\n)*within \[4, 6\]"):
            step.read("w", box)


def test_shards_of_another_step_are_refused(tmp_path: Path) -> None:
    old, new = _save(tmp_path, 1), _save(tmp_path, 2)
    shutil.copy(old / SHARD, new / SHARD)
    with pytest.raises(DataLossError, match="not the one that was saved"):
        StoredStep(new)


def _edit_manifest(path: Path, edit: Any) -> None:
    content = json.loads((path / MANIFEST).read_bytes().rpartition(b"\ncrc32c")[0])
    edit(content)
    body = json.dumps(content).encode()
    (path / MANIFEST).write_bytes(body + f"\ncrc32c {crc32c(body):08x}\n".encode())


def _set(*keys: Any) -> Any:
    def edit(content: Any) -> None:
        for key in keys[:-2]:
            content = content[key]
        content[keys[-2]] = keys[-1]

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_set("tensors", "w", "shape", [3, 2]), r"tensor 'w' is not stored whole(.|\n)*is not within \[3, 2\]"),
        (_set("tensors", "w", "shape", [2, 4]), r"tensor 'w' is not stored whole(.|\n)*6 of 8 elements"),
        (_set("tensors", "w", "chunks", 0, "shape", [2, 2]), r"tensor 'w' is not stored whole(.|\n)*4 of 6 elements"),
        (_set("tensors", "w", "dtype", "int32"), "tensor 'w' is not in the shard as the manifest says"),
        (
            _set("tensors", "w", "chunks", 0, "crc32c", "00000000"),
            "tensor 'w' is not in the shard as the manifest says",
        ),
        (_set("tensors", "w", "chunks", 0, "file", "other"), "tensor 'w' is not in the shard as the manifest says"),
        (_set("tensors", "w", "chunks", []), "tensor 'w' is not stored whole"),
        (_set("files", "../other", {"size": 1, "header_crc32c": ""}), "a file outside its folder"),
        (_set("files", SHARD, "size", 1), "not the one that was saved"),
    ],
)
def test_manifests_that_lie_are_refused(tmp_path: Path, edit: Any, message: str) -> None:
    path = _save(tmp_path, 1)
    _edit_manifest(path, edit)
    with pytest.raises(DataLossError, match=message):
        StoredStep(path)


class FullDisk(Disk):
    """Takes a number of bytes and no more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = super().write(descriptor, data[: self.room])
        self.room -= taken
        return taken


def test_a_full_disk_leaves_the_previous_step(tmp_path: Path) -> None:
    _save(tmp_path, 1)
    for room in (0, 1, 500, 1000):
        with pytest.raises(OSError, match=r"No space left on device: '.*\.(safetensors|json)'") as caught:
            _save(tmp_path, 2, disk=FullDisk(room))
        assert caught.value.__notes__ == [f"step 2 is not saved in {tmp_path}; what was there before is still there"]
        assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000001"]
    _check(read_newest_step(tmp_path, StoredStep.read_all)[1], 1)


class FailingDisk(Disk):
    """The call of a number fails, and with `for_good` every one after it."""

    def __init__(self, number: int, error: int, for_good: bool) -> None:
        self.calls = 0
        self._number, self._error, self._for_good = number, error, for_good

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self._number or (self._for_good and self.calls > self._number):
            raise OSError(self._error, os.strerror(self._error))

    def create(self, path: Path) -> int:
        self._count()
        return super().create(path)

    def write(self, descriptor: int, data: memoryview) -> int:
        self._count()
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._count()
        super().sync(descriptor)

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self._count()

    def make_directory(self, path: Path) -> None:
        self._count()
        super().make_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:
        self._count()
        super().sync_directory(path)

    def remove_tree(self, path: Path) -> None:
        self._count()
        super().remove_tree(path)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOENT])
@pytest.mark.parametrize("for_good", [False, True])
def test_an_error_of_any_call_leaves_a_whole_step_and_no_open_file(tmp_path: Path, error: int, for_good: bool) -> None:
    (tmp_path / "first").mkdir()
    whole = FailingDisk(0, error, for_good=False)
    _save(tmp_path / "first" / "ckpt", 1, disk=whole)
    assert whole.calls > 12
    open_files = len(os.listdir("/dev/fd"))
    for number in range(1, whole.calls + 1):
        root = tmp_path / f"at-{number}"
        _save(root, 1)
        with pytest.raises(OSError, match=re.escape(os.strerror(error))):
            _save_until_it_fails(root, number, error, for_good)
        newest, loaded = read_newest_step(root, StoredStep.read_all)
        _check(loaded, newest.manifest.step)
        del newest, loaded  # a mapped file counts as an open one
    assert len(os.listdir("/dev/fd")) <= open_files


def _save_until_it_fails(root: Path, number: int, error: int, for_good: bool) -> None:
    for step in (2, 2):  # the second takes the first one's place, which is a removal too
        _save(root, step, disk=FailingDisk(number, error, for_good))
    _save(root, 3, disk=FailingDisk(1, error, for_good))


def test_a_directory_that_vanished_is_made_again(tmp_path: Path) -> None:
    _save(tmp_path / "ckpt", 1)
    shutil.rmtree(tmp_path / "ckpt")
    _save(tmp_path / "ckpt", 2)
    _check(read_newest_step(tmp_path / "ckpt", StoredStep.read_all)[1], 2)


def test_objects_that_are_not_json_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="must be JSON"):
        _save(tmp_path, 1, objects={"rng": np.random.default_rng()})
    assert list(tmp_path.iterdir()) == []


def test_A93_two_sets_of_variables_have_directories_of_their_own(tmp_path: Path) -> None:
    write_step(tmp_path / "weights", 1, {"w": np.ones(1)}, time=0.0)
    write_step(tmp_path / "slots", 5, {"m": np.ones(1)}, time=0.0)
    assert list(read_newest_step(tmp_path / "weights", StoredStep.read_all)[1]) == ["w"]
    assert list(read_newest_step(tmp_path / "slots", StoredStep.read_all)[1]) == ["m"]


# Several processes in one directory.


def test_a_step_that_another_process_saves_meanwhile_is_saved_beside_it(tmp_path: Path) -> None:
    class Overtaken(Disk):
        def __init__(self) -> None:
            self.times = 2

        def rename(self, source: Path, target: Path) -> None:
            if target.name.startswith("step-") and self.times:
                self.times -= 1
                write_step(tmp_path, 5, {"w": np.zeros(self.times + 1)}, time=0.0)
            super().rename(source, target)

    path = write_step(tmp_path, 5, {"w": np.ones(1)}, time=0.0, disk=Overtaken())
    assert [str(name) for name in list_steps(tmp_path)] == [Path(path).name] == ["step-00000005-3"]
    assert read_newest_step(tmp_path, StoredStep.read_all)[1]["w"].tolist() == [1]
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000005-3"]


def test_a_name_that_something_else_has_is_an_error(tmp_path: Path) -> None:
    class Taken(Disk):
        def rename(self, source: Path, target: Path) -> None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    with pytest.raises(FileExistsError, match="File exists: '.*step-00000001'"):
        write_step(tmp_path, 1, {}, time=0.0, disk=Taken())
    assert list(tmp_path.iterdir()) == []


def test_steps_that_another_process_deletes_are_not_missed(tmp_path: Path) -> None:
    managers = [CheckpointManager(tmp_path, 1, variables=[]) for _ in range(2)]

    class Overtaken(Disk):
        def rename(self, source: Path, target: Path) -> None:
            if source.name == "step-00000001":
                managers[0].save(None, 3)
            super().rename(source, target)

    managers[0].save(None, 1)
    CheckpointManager(tmp_path, 1, variables=[], disk=Overtaken()).save(None, 2)
    assert managers[1].steps == (3,)


def test_a_step_that_another_process_saves_meanwhile_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in no list when it was chosen what to keep, and it is the newest."""
    choose = Retention.steps_to_keep

    def overtaken(retention: Retention, steps: Iterable[SavedStep]) -> set[int]:
        kept = choose(retention, steps)
        write_step(tmp_path, 3, {}, time=0.0)
        return kept

    manager = CheckpointManager(tmp_path, 1, variables=[])
    manager.save(None, 1)
    monkeypatch.setattr(Retention, "steps_to_keep", overtaken)
    manager.save(None, 2)
    assert manager.steps == (2, 3)


def test_a_reader_whose_step_is_replaced_does_not_go_back_to_an_older_one(tmp_path: Path) -> None:
    for step in (1, 2):
        write_step(tmp_path, step, {}, time=0.0)

    def replaced(step: StoredStep) -> int:
        if step.path.endswith("step-00000002"):
            write_step(tmp_path, 2, {}, time=0.0)
            raise NotFoundError("it is gone", expected="a file", got="none", hint="read another step")
        return step.manifest.step

    assert read_newest_step(tmp_path, replaced)[1] == 2


def test_a_reader_whose_steps_are_all_deleted_finds_the_newer_ones(tmp_path: Path) -> None:
    for step in (1, 2):
        _save(tmp_path, step)

    def read(stored: StoredStep) -> dict[str, Any]:
        if stored.manifest.step < 3:
            _save(tmp_path, 3)
            for old in (1, 2):
                shutil.rmtree(tmp_path / f"step-{old:08d}", ignore_errors=True)
            raise NotFoundError("gone", expected="", got="", hint="")
        return stored.read_all()

    step, loaded = read_newest_step(tmp_path, read)
    assert step.manifest.step == 3
    _check(loaded, 3)


@pytest.mark.parametrize(
    "name",
    ["step-000000001", "step-00000001-1", "step-00000001-02", "step-\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0661"],
)
def test_a_folder_that_is_not_named_as_ours_are_is_none_of_ours(tmp_path: Path, name: str) -> None:
    """It was read as step 1, whose folder was looked for without end."""
    Path(write_step(tmp_path, 1, _arrays(1), time=0.0)).rename(tmp_path / name)
    assert list_steps(tmp_path) == []
    with pytest.raises(NotFoundError, match="no checkpoint yet"):
        read_newest_step(tmp_path, StoredStep.read_all)
    write_step(tmp_path, 2, _arrays(2), time=0.0)
    assert read_newest_step(tmp_path, lambda step: step.manifest.step)[1] == 2


@pytest.mark.parametrize("kind", [np.int64, np.array, np.uint8, int])
def test_the_number_of_a_step_may_be_of_any_kind_of_integer(tmp_path: Path, kind: Any) -> None:
    """`session.run(step)` gives one of NumPy's, which JSON refuses."""
    write_step(tmp_path, kind(7), _arrays(7), time=0.0)
    assert list_steps(tmp_path) == [StepName(7)]


@pytest.mark.parametrize("step", [1.0, "1", None, np.array([1, 2]), np.float32(1)])
def test_what_is_no_number_of_a_step(tmp_path: Path, step: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no number of a step[^$]*an integer"):
        write_step(tmp_path, step, _arrays(1), time=0.0)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["a\0b", "x" * 5000, "..", ".", "", "\ud800", "pipe"])
def test_a_step_whose_shard_has_no_name_of_a_file_is_passed_over(tmp_path: Path, file: str) -> None:
    """Python raises ValueError of some of these, and waits for a writer of a pipe."""
    write_step(tmp_path, 1, _arrays(1), time=0.0)
    path = Path(write_step(tmp_path, 2, _arrays(2), time=0.0)) / MANIFEST
    os.mkfifo(path.with_name("pipe"))
    body = path.read_bytes().rpartition(b"\ncrc32c ")[0].replace(SHARD.encode(), json.dumps(file)[1:-1].encode())
    path.write_bytes(body + f"\ncrc32c {crc32c(body):08x}\n".encode())
    with pytest.warns(CheckpointWarning, match="step-00000002"):
        assert read_newest_step(tmp_path, lambda step: step.manifest.step)[1] == 1
