"""Files of other programs' formats, written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from headrace.errors import DTypeError, InvalidArgumentError
from headrace_checkpoint.sources import HuggingFaceIndex, open_source
from headrace_checkpoint.targets import format_of, save_indexed_safetensors, write_tensors

ARRAYS = {name: np.full(4, number, np.float32) for number, name in enumerate("abc")}


def test_an_index_names_the_file_of_each_tensor(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    save_indexed_safetensors(path, ARRAYS, shard_bytes=32)
    content = json.loads(path.read_text())
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    assert content == {"metadata": {"total_size": 48}, "weight_map": {"a": first, "b": first, "c": second}}
    index = HuggingFaceIndex(path)
    assert {name: index.read(name).tolist() for name in index.tensors} == {k: v.tolist() for k, v in ARRAYS.items()}
    with pytest.raises(InvalidArgumentError, match="an index of safetensors files has another name"):
        save_indexed_safetensors(tmp_path / "model.json", ARRAYS)


def test_the_format_follows_the_name() -> None:
    names = {
        "a.safetensors": "safetensors",
        "a.safetensors.index.json": "index",
        "a.npz": "npz",
        "dir/ckpt-1": "tensorflow",
    }
    assert {name: format_of(name) for name in names} == names
    for prefix in ("model", "model.ckpt", "v1.2.ckpt-100"):
        assert format_of(prefix) == "tensorflow"
    for name in ("m.xyz", "m.safetensor", "m.ckpt-", "m.pt", "model.v2", "m.ckpt-1.index"):
        with pytest.raises(InvalidArgumentError, match=rf"has this ending[^$]*\.npz, or [^$]*got: *{name}\n[^$]*index"):
            format_of(name)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no such format(.|\n)*safetensors, index, npz, tensorflow"):
        write_tensors(tmp_path / "a", ARRAYS, form="pickle")
    with pytest.raises(DTypeError, match="safetensors files cannot hold"):
        write_tensors(tmp_path / "a.safetensors", {"a": np.zeros(1, "datetime64[s]")})
    assert list(tmp_path.iterdir()) == []


def test_what_numpy_would_change_is_refused_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_tensors(path, {"s": np.array([b"a\0b", b""], object), "half": np.ones(2, np.float16)})
    before = path.read_bytes()
    assert np.load(path)["s"].tolist() == [b"a\0b", b""]
    for wrong, message in (
        (np.array([b"a\0"], object), "array 's' has strings that NumPy would cut"),
        (np.ones(2, ml_dtypes.bfloat16), r"array 's' has a dtype that \.npz files do not name[^$]*got: *bfloat16"),
    ):
        with pytest.raises(DTypeError, match=message):
            write_tensors(path, {"s": wrong})
    assert (path.read_bytes(), [file.name for file in tmp_path.iterdir()]) == (before, ["a.npz"])


def test_npz_files_keep_any_name(tmp_path: Path) -> None:
    """`numpy.savez` takes some names for its own arguments, and `numpy.load` some for others'."""
    names = ["a", "a.npy", "a.npy.npy", "file", "allow_pickle", "self", "x/y", "../z", "\u00e9\n", ""]
    arrays = {name: np.array([number, 1]) for number, name in enumerate(names)}
    write_tensors(tmp_path / "a.npz", arrays)
    source = open_source(tmp_path / "a.npz")
    assert source is not None
    assert {name: source.read(name).tolist() for name in source.tensors} == {n: a.tolist() for n, a in arrays.items()}
    with np.load(tmp_path / "a.npz") as theirs:
        assert theirs["allow_pickle"].tolist() == [4, 1]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 70_000])
def test_names_that_no_npz_file_keeps(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\.npz file cannot have this name"):
        write_tensors(tmp_path / "a.npz", {name: np.zeros(1)})
    assert not any(tmp_path.iterdir())


def test_a_full_disk_is_named_with_the_npz_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np.lib.format, "write_array", refuse)
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.npz'"):
        write_tensors(tmp_path / "a.npz", ARRAYS)
    assert not any(tmp_path.iterdir())
