"""Constants beside a graph: they come back bit for bit, and a damaged file is refused."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace import types
from headrace.graph.constants import read_constants, write_constants


def _write(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_every_dtype_and_shape_comes_back_bit_for_bit(tmp_path: Path) -> None:
    numeric = [dtype for dtype in types.COMPUTABLE if dtype.size]
    constants = {
        f"{dtype}{shape}": np.arange(24)
        .reshape(2, 3, 4)[:, ::2]
        .astype(dtype.array_type)
        .reshape(-1)[: int(np.prod(shape))]
        .reshape(shape)
        for dtype in numeric
        for shape in [(), (0,), (3,), (2, 3)]
    }
    constants["strided"] = np.arange(10.0)[::-3]
    write_constants(tmp_path / "constants", constants)
    again = read_constants(tmp_path / "constants")
    assert list(again) == list(constants)
    for key, value in constants.items():
        assert (again[key].dtype, again[key].shape, again[key].tobytes()) == (value.dtype, value.shape, value.tobytes())
        assert not again[key].flags.writeable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected: a header(.|\n)*0 bytes"),
        (b"short", "expected: a header(.|\n)*5 bytes"),
        (struct.pack("<Q", 2**63) + b"{}", "header of at most 2 bytes"),
        (struct.pack("<Q", 2) + b"{]", "header of dtype, shape and offsets"),
        (struct.pack("<Q", 2) + b"[]", "header of dtype, shape and offsets"),
        (struct.pack("<Q", 2) + b"\xff\xff", "header of dtype, shape and offsets"),
    ],
)
def test_a_file_without_a_whole_header_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "constants").write_bytes(content)
    with pytest.raises(hr.errors.DataLossError, match=f"constants in '.*' are damaged(.|\n)*{message}"):
        read_constants(tmp_path / "constants")


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [2], "data_offsets": [0, 12]},
        {"shape": [2], "data_offsets": [4, 12]},
        {"shape": [2], "data_offsets": [-8, 0]},
        {"shape": [-2], "data_offsets": [0, 8]},
        {"shape": [2**62, 4], "data_offsets": [0, 8]},
        {"shape": [2.0], "data_offsets": [0, 8]},
        {"shape": ["2"], "data_offsets": [0, 8]},
        {"shape": [2], "data_offsets": [0]},
        {"shape": [2], "data_offsets": ["0", "8"]},
        {"shape": 2, "data_offsets": [0, 8]},
        {"shape": [2]},
        [],
    ],
    ids=str,
)
def test_an_entry_that_does_not_fit_its_bytes_is_refused(tmp_path: Path, entry: object) -> None:
    path = _write(tmp_path / "constants", {"__metadata__": {"key": "float32"}, "key": entry}, bytes(8))
    with pytest.raises(hr.errors.DataLossError, match="header of dtype, shape and offsets"):
        read_constants(path)


@pytest.mark.parametrize("dtype", ["string", "variant", "nothing", 3, None])
def test_an_entry_of_a_dtype_without_bytes_is_refused(tmp_path: Path, dtype: object) -> None:
    header = {"__metadata__": {"key": dtype}, "key": {"shape": [1], "data_offsets": [0, 8]}}
    with pytest.raises(hr.errors.DataLossError, match="header of dtype, shape and offsets"):
        read_constants(_write(tmp_path / "constants", header, bytes(8)))


def test_bytes_changed_at_random_give_arrays_or_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "constants"
    write_constants(path, {"a": np.arange(6.0), "b": np.ones((2, 2), np.complex128)})
    whole = path.read_bytes()
    rng = random.Random(0)
    for _ in range(500):
        damaged = bytearray(whole[: rng.choice([len(whole), rng.randrange(len(whole))])])
        for _ in range(rng.randrange(3)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            for value in read_constants(path).values():
                value.tobytes()
        except hr.errors.DataLossError:
            pass
