"""Steps that several writers save together, and readers of other parts than were written."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import AbortedError, DeadlineExceededError, InvalidArgumentError, UnimplementedError
from headrace_checkpoint.boxes import Box, covers
from headrace_checkpoint.durable import DISK, Disk
from headrace_checkpoint.shared import Writers, write_shared_step
from headrace_checkpoint.store import StoredStep, list_steps, read_newest_step
from headrace_checkpoint.tensor_bundle import ArraySlice


def _together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What each writer's call returned or raised."""
    results: list[Any] = [None] * count

    def run(rank: int) -> None:
        try:
            results[rank] = work(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def _save(
    root: Path, step: int, arrays: list[dict[str, Any]], timeout: float = 30.0, disk: Disk = DISK, **more: Any
) -> list[Any]:
    def write(rank: int) -> Path:
        writers = Writers(rank, len(arrays), "job-1", timeout)
        return Path(write_shared_step(root, step, arrays[rank], writers, time=1.0, disk=disk, **more))

    return _together(len(arrays), write)


def _rows(whole: np.ndarray[Any, Any], bounds: list[int]) -> list[ArraySlice]:
    rest = (0,) * (whole.ndim - 1)
    return [ArraySlice(whole.shape, (start, *rest), whole[start:end]) for start, end in itertools.pairwise(bounds)]


def test_writers_make_one_step(tmp_path: Path) -> None:
    table = np.arange(30, dtype=np.float32).reshape(10, 3)
    bias = np.array([b"a", b""], object)
    parts = [{"table": part, "bias": bias} for part in _rows(table, [0, 3, 7, 10])]
    parts[1]["own"] = np.array(5)
    paths = _save(tmp_path, 42, parts, objects={"epoch": 1}, streams={"noise": (1, 2)})
    assert paths == [tmp_path / "step-00000042"] * 3
    step, loaded = read_newest_step(tmp_path, StoredStep.read_all)
    np.testing.assert_array_equal(loaded["table"], table, strict=True)
    np.testing.assert_array_equal(loaded["bias"], bias)
    assert loaded["own"] == 5
    assert (step.manifest.objects, step.manifest.streams) == ({"epoch": 1}, {"noise": (1, 2)})
    assert sorted(entry.name for entry in paths[0].iterdir()) == [
        "MANIFEST.json", *(f"shard-{rank:05d}-of-00003.safetensors" for rank in range(3))
    ]  # fmt: skip


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        _save(tmp_path, 7, [{"a": np.array(value)}, {"b": np.array(value)}])
    assert [str(name) for name in list_steps(tmp_path)] == ["step-00000007-2"]
    assert read_newest_step(tmp_path, StoredStep.read_all)[1] == {"a": 2.0, "b": 2.0}


def test_a_missing_writer_is_named_and_earlier_steps_stay(tmp_path: Path) -> None:
    _save(tmp_path, 1, [{"a": np.array(1)}])

    def write(rank: int) -> str:
        if rank == 1:
            return ""
        return write_shared_step(
            tmp_path, 2, {f"a{rank}": np.array(1)}, Writers(rank, 3, "job-1", 0.3), time=1.0, disk=DISK
        )

    chief, _, other = _together(3, write)
    assert isinstance(chief, DeadlineExceededError)
    assert "no part of writer 1" in str(chief)
    assert isinstance(other, (AbortedError, DeadlineExceededError))
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000001"]


def test_an_error_of_the_chief_reaches_the_others(tmp_path: Path) -> None:
    whole = np.zeros((4, 2), np.float32)
    halves = [{"w": ArraySlice(whole.shape, (0, 0), whole[:2])}, {"w": ArraySlice(whole.shape, (3, 0), whole[3:])}]
    chief, other = _save(tmp_path, 1, halves)
    assert isinstance(chief, InvalidArgumentError)
    assert "6 of 8 elements" in str(chief)
    assert isinstance(other, AbortedError)
    assert "the chief gave the checkpoint up" in str(other)
    assert list_steps(tmp_path) == []
    chief, _ = _save(tmp_path, 1, [{"w": np.zeros(2)}, {"w": np.zeros(3)}])
    assert "do not fit each other" in str(chief)


def test_an_object_store_takes_one_writer() -> None:
    with pytest.raises(UnimplementedError, match=r"several writers cannot save(.|\n)*memory://ckpt"):
        write_shared_step("memory://ckpt", 1, {}, Writers(0, 2, "job"), time=0.0, disk=DISK)


@pytest.mark.parametrize(
    "wrong", [{"rank": 2}, {"rank": -1}, {"count": 0}, {"launch": ""}, {"launch": "a~b"}, {"launch": "a\0b"}]
)
def test_wrong_writers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="the writers of a shared step are wrong"):
        Writers(**{"rank": 0, "count": 2, "launch": "job", **wrong})


DTYPES = [np.bool_, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex128, object]


@st.composite
def _cuts(draw: st.DrawFn, size: int, most: int) -> list[int]:
    inner = draw(st.lists(st.integers(0, size), max_size=most - 1))
    return [0, *sorted(inner), size]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_T9_what_n_writers_saved_m_readers_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("reshard")
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    dtype = data.draw(st.sampled_from(DTYPES))
    numbers = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, shape)
    whole = numbers.astype(str).astype("S").astype(object) if dtype is object else numbers.astype(dtype)
    written = _rows(whole, data.draw(_cuts(shape[0], 4)))
    results = _save(root, 1, [{"w": part} for part in written])
    assert results == [root / "step-00000001"] * len(written)
    step = StoredStep(root / "step-00000001")
    for part in _rows(whole, data.draw(_cuts(shape[0], 4))):
        box = Box(part.start, np.asarray(part.array).shape)
        np.testing.assert_array_equal(step.read("w", box), part.array, strict=True)


def test_shards_without_a_part_of_what_is_read_are_not_looked_at(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    (path, *_) = _save(tmp_path, 1, [{"w": part} for part in _rows(table, [0, 2, 4, 6])])
    shard = path / "shard-00002-of-00003.safetensors"
    damaged = bytearray(shard.read_bytes())
    damaged[-1] ^= 1
    shard.write_bytes(damaged)
    np.testing.assert_array_equal(StoredStep(path).read("w", Box((1, 0), (3, 2))), table[1:4])


def test_boxes() -> None:
    box = Box((1, 2), (3, 4))
    assert box.intersection(Box((4, 0), (1, 9))) is None
    assert covers([Box((0, 0), (2, 9)), Box((2, 0), (2, 9))], box)
    assert not covers([Box((0, 0), (2, 9))], box)
    assert covers([], Box((0,), (0,)))
