"""Whatever values are restored from: the same variables, from every kind of file."""

from __future__ import annotations

import io
import json
import re
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataLossError, InvalidArgumentError, NotFoundError, ShapeError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.restore import Part
from headrace_checkpoint.safetensors import save_safetensors
from headrace_checkpoint.saver import Saver
from headrace_checkpoint.sources import HuggingFaceIndex, TensorType, open_source
from headrace_checkpoint.store import StoredStep, write_step
from headrace_checkpoint.targets import save_indexed_safetensors
from headrace_checkpoint.tensor_bundle import save_bundle

ARRAYS: dict[str, Any] = {
    "table": np.arange(12, dtype=np.float32).reshape(4, 3),
    "step": np.array(7),
    "half": np.array([0.5, -1.5], ml_dtypes.bfloat16),
}


def _save_index(folder: Path, arrays: dict[str, Any] = ARRAYS) -> Path:
    files = {name: f"model-{number:05d}-of-{len(arrays):05d}.safetensors" for number, name in enumerate(arrays, 1)}
    for name, file in files.items():
        save_safetensors(folder / file, {name: arrays[name]})
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    return path


def _save(kind: str, folder: Path) -> Path:
    if kind == "step":
        return write_step(folder, 3, ARRAYS, time=0.0)
    if kind == "safetensors":
        save_safetensors(folder / "model.safetensors", ARRAYS)
        return folder / "model.safetensors"
    if kind == "index":
        return _save_index(folder)
    if kind == "npz":
        np.savez(folder / "model.npz", **{name: value for name, value in ARRAYS.items() if name != "half"})
        return folder / "model.npz"
    save_bundle(folder / "ckpt-3", {f"{name}/.ATTRIBUTES/VARIABLE_VALUE": value for name, value in ARRAYS.items()})
    return folder / ("ckpt-3" if kind == "bundle" else "ckpt-3.data-00000-of-00001")


KINDS = ["step", "safetensors", "index", "npz", "bundle", "member of a bundle"]


@pytest.mark.parametrize("kind", KINDS)
def test_variables_are_restored_from_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    path = _save(kind, tmp_path)
    source = open_source(path)
    assert source is not None
    names = [name for name in ARRAYS if kind != "npz" or name != "half"]
    assert source.tensors == {name: TensorType(ARRAYS[name].dtype.name, ARRAYS[name].shape) for name in names}
    np.testing.assert_array_equal(source.read("table", Box((1, 1), (2, 2))), ARRAYS["table"][1:3, 1:])
    prefix = kind.replace(" ", "_")
    variables = [hr.Variable(np.zeros_like(ARRAYS[name]), name=f"{prefix}/{name}") for name in names]
    report = Saver(variables).restore(None, path, names={re.compile(f"{prefix}/(.*)"): r"\1"})
    assert report.restored == tuple(sorted(f"{prefix}/{name}" for name in names))
    assert report.step == (3 if kind == "step" else None)
    for variable, name in zip(variables, names, strict=True):
        np.testing.assert_array_equal(variable.numpy(), ARRAYS[name], strict=True)


def test_a_path_that_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert open_source(tmp_path / "notes.txt") is None
    assert open_source(tmp_path) is None
    for missing in ("a.safetensors", "b.safetensors.index.json"):
        with pytest.raises(NotFoundError, match="there is no such file"):
            open_source(tmp_path / missing)
    with pytest.raises(NotFoundError, match="no checkpoint yet"):
        Saver([hr.Variable(0.0)]).restore(None, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "expected: JSON"),
        (b"[" * 100_000, "expected: JSON"),
        (b"[]", "a weight_map of tensor to file"),
        (b'{"weight_map": {"a": 1}}', "a weight_map of tensor to file"),
        (b'{"weight_map": {"a": "../a.safetensors"}}', "files beside the index"),
    ],
)
def test_a_damaged_index_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(content)
    with pytest.raises(DataLossError, match=f"not a valid index(.|\\n)*{message}"):
        open_source(path)


def test_an_index_and_its_files_must_agree(tmp_path: Path) -> None:
    index = HuggingFaceIndex(_save_index(tmp_path))
    with pytest.raises(NotFoundError, match="no tensor 'tabel' in the index(.|\\n)*close ones: table"):
        index.read("tabel")
    save_safetensors(tmp_path / "model-00001-of-00003.safetensors", {"other": np.zeros(1)})
    with pytest.raises(DataLossError, match="the same tensors in the index and in model-00001(.|\\n)*'other'"):
        index.read("table")


def test_a_damaged_npz_file_or_one_of_python_objects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK nothing")
    with pytest.raises(DataLossError, match=r"not a valid \.npz"):
        open_source(path)
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(DataLossError, match="never unpickled"):
        open_source(path)
    np.savez(path, a=np.zeros(100), b=np.array(["x"]))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    source = open_source(path)
    assert source is not None
    assert source.read("b").tolist() == [b"x"]
    path.write_bytes(data)
    with pytest.raises(DataLossError, match=r"not a valid \.npz"):
        source.read("a")


def test_names_may_be_patterns(tmp_path: Path) -> None:
    stored = {"bert/layer_0/kernel": np.ones(2, np.float32), "bert/layer_1/kernel": np.full(2, 2, np.float32)}
    save_safetensors(tmp_path / "model.safetensors", {**stored, "head": np.zeros(1, np.float32)})
    variables = [hr.Variable(np.zeros(2, np.float32), name=f"enc/{i}/w") for i in range(2)]
    saver = Saver(variables)
    names = {re.compile(r"enc/(\d+)/w"): r"bert/layer_\1/kernel"}
    report = saver.restore(None, tmp_path / "model.safetensors", names=names, strict=False)
    assert (report.restored, report.unexpected) == (("enc/0/w", "enc/1/w"), ("head",))
    assert [variable.numpy().tolist() for variable in variables] == [[1, 1], [2, 2]]
    report = saver.restore(
        None, tmp_path / "model.safetensors", names={**names, "enc/0/w": "bert/layer_1/kernel"}, strict=False
    )
    assert variables[0].numpy().tolist() == [2, 2]
    with pytest.raises(InvalidArgumentError, match=r"name map names variables(.|\n)*got: *dec/"):
        saver.restore(None, tmp_path / "model.safetensors", names={re.compile("dec/.*"): "x"})


def _shards(count: int) -> tuple[list[hr.Variable], dict[str, Part]]:
    rows = np.array_split(np.zeros((7, 2), np.float32), count)
    starts = np.cumsum([0, *map(len, rows)])[:-1].tolist()
    variables = [hr.Variable(part, name=f"shards/{count}/{number}") for number, part in enumerate(rows)]
    parts = {
        variable.name: Part("table", (7, 2), (int(start), 0))
        for variable, start in zip(variables, starts, strict=False)
    }
    return variables, parts


def test_a_partitioned_variable_is_restored_into_another_number_of_shards(tmp_path: Path) -> None:
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    three, parts = _shards(3)
    for variable in three:
        start = parts[variable.name].start[0]
        variable.assign(table[start : start + variable.shape[0]])
    path = Saver(three, parts=parts).save(None, tmp_path, step=1)
    np.testing.assert_array_equal(StoredStep(path).read("table"), table)
    two, parts_of_two = _shards(2)
    assert Saver(two, parts=parts_of_two).restore(None, tmp_path).is_complete
    np.testing.assert_array_equal(np.concatenate([variable.numpy() for variable in two]), table)

    with pytest.raises(InvalidArgumentError, match=r"'table' do not make the whole(.|\n)*of 14 elements"):
        Saver(three[1:], parts=parts).save(None, tmp_path, step=2)
    wrong = {name: Part("table", (8, 2), part.start) for name, part in parts_of_two.items()}
    with pytest.raises(ShapeError, match=r"float32\[4, 2\] of \[8, 2\] wanted"):
        Saver(two, parts=wrong).restore(None, tmp_path)


def _npy(shape: tuple[int, ...], data: bytes) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + data


def test_an_npz_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no such file"):
        open_source(tmp_path / "a.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_and_truncations_of_an_npz_file_never_give_a_wrong_value(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "a.npz"
    save(path, a=np.arange(20.0), b=np.array([b"x"]))
    good = path.read_bytes()
    damaged = 0
    for index in range(0, len(good), 3):
        for bad in (good[:index], good[:index] + bytes([good[index] ^ 0xFF]) + good[index + 1 :]):
            path.write_bytes(bad)
            try:
                source = open_source(path)
                assert source is not None
                values = {name: source.read(name).tolist() for name in source.tensors}
            except DataLossError:
                damaged += 1
            else:  # zip files have no checksum of names, nor of how many there are
                assert all(value in (list(range(20)), [b"x"]) for value in values.values())
    assert damaged > len(good) // 3


def test_an_npz_file_that_lies_about_sizes_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", _npy((1 << 40,), bytes(16)))
    tracemalloc.start()
    try:
        with pytest.raises(DataLossError, match=r"a\.npy has 16 bytes for float64\[1099511627776\]"):
            open_source(path)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", _npy((1 << 28,), bytes(16)))
        content = path.read_bytes()
        at = content.index(b"PK\x01\x02") + 24  # the size of the content, in the directory at the end
        path.write_bytes(content[:at] + struct.pack("<I", (1 << 31) + 128) + content[at + 4 :])
        with pytest.raises(DataLossError, match=r"a\.npy has 144 bytes, which cannot hold 2147483776"):
            open_source(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_a_part_of_a_safetensors_file_is_read_alone(tmp_path: Path) -> None:
    arrays = {"w": np.arange(12).reshape(3, 4)}
    save_safetensors(tmp_path / "w.safetensors", arrays)
    save_indexed_safetensors(tmp_path / "w.safetensors.index.json", arrays)
    for name in ("w.safetensors", "w.safetensors.index.json"):
        source = open_source(tmp_path / name)
        assert source is not None
        assert source.read("w", Box((1, 1), (2, 2))).tolist() == [[5, 6], [9, 10]]


def test_K03_an_npz_file_with_one_name_twice_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.zeros(1))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content.getvalue())
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", content.getvalue())
    with pytest.raises(DataLossError, match=r"'a\.npy' is there twice"):
        open_source(tmp_path / "a.npz")


def test_K03_an_index_with_one_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{"weight_map": {"w": "a.safetensors", "w": "b.safetensors"}}')
    with pytest.raises(DataLossError, match="duplicate key 'w'"):
        open_source(path)
