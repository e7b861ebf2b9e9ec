"""The safetensors reader and writer, beside the public library and against hostile files."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.errors import DataLossError, DTypeError, InvalidArgumentError, NotFoundError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.checksum import BLOCK
from headrace_checkpoint.safetensors import EncodedArrays, SafetensorsFile, load_safetensors, save_safetensors

DTYPES = [
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16,
    ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
]  # fmt: skip
STRINGS = np.array([[b"", b"\x00\xff"], [b"x" * 100_000, b"\xc3\x28"]], object)


def _same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _file(path: Path, header: object, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _entry(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.safetensors"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)])
def test_every_dtype_and_shape_reads_back_bit_for_bit(path: Path, dtype: type, shape: tuple[int, ...]) -> None:
    raw = np.random.default_rng(0).integers(0, 2, size=(*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    array: Any = raw.view(dtype).reshape(shape)
    save_safetensors(path, {"a": array, "other": np.arange(3, dtype=np.uint8)})
    assert _same(load_safetensors(path)["a"], array)


def test_nan_payload_and_negative_zero_survive(path: Path) -> None:
    array = np.array([0x7FC00001, 0x80000000, 0xFF800000, 1], np.uint32).view(np.float32)
    save_safetensors(path, {"a": array})
    assert _same(load_safetensors(path)["a"], array)


def test_strings_keep_zero_bytes_and_shapes(path: Path) -> None:
    scalar = np.array(b"a\0b", object)
    save_safetensors(path, {"s": STRINGS, "scalar": scalar, "none": np.empty((0, 2), object), "text": np.array(["é"])})
    loaded = load_safetensors(path)
    assert loaded["s"].tolist() == STRINGS.tolist()
    assert loaded["scalar"].shape == ()
    assert loaded["scalar"].item() == b"a\0b"
    assert loaded["none"].shape == (0, 2)
    assert loaded["text"].tolist() == ["é".encode()]


def test_arrays_are_read_only_views_that_outlive_the_file(path: Path) -> None:
    array = np.arange(1000, dtype=np.float32)
    save_safetensors(path, {"a": array})
    with SafetensorsFile(path) as file:
        view = file.read("a")
    assert not view.flags.writeable
    assert not view.flags.owndata
    path.unlink()
    np.testing.assert_array_equal(view, array)


def test_data_begins_at_a_multiple_of_64_and_items_are_aligned(path: Path) -> None:
    arrays = {f"n{i}": np.ones(3, dtype) for i, dtype in enumerate(DTYPES)}
    save_safetensors(path, arrays)
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    assert (8 + length) % 64 == 0
    with SafetensorsFile(path) as file:
        assert all(file.read(name).flags.aligned for name in file)


def test_metadata_is_kept(path: Path) -> None:
    save_safetensors(path, {"é/名": np.ones(1)}, {"note": "größe"})
    with SafetensorsFile(path) as file:
        assert file.metadata == {"note": "größe"}
        assert list(file) == ["é/名"]
        assert len(file) == 1
        assert "é/名" in file
        assert (file.entries["é/名"].value_dtype, file.entries["é/名"].value_shape) == ("float64", (1,))


def test_encoding_shares_memory_with_the_arrays() -> None:
    array = np.zeros(1 << 20, np.float32)
    tracemalloc.start()
    try:
        encoded = EncodedArrays.of({"a": array})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert encoded.size > array.nbytes
    assert peak < array.nbytes // 8


def test_the_public_library_reads_ours(path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="the oracle")
    skip = {np.dtype(np.complex128), *(np.dtype(d) for d in DTYPES if "float8" in np.dtype(d).name)}
    arrays = {
        np.dtype(d).name: np.arange(6).astype(d).reshape(2, 3)
        for d in DTYPES
        if np.dtype(d) not in skip | {np.dtype(ml_dtypes.bfloat16)}
    }
    arrays["scalar"], arrays["empty"] = np.array(2.5), np.zeros((0, 3), np.int8)
    save_safetensors(path, arrays)
    theirs = library.load_file(path)
    assert theirs.keys() == arrays.keys()
    assert all(_same(theirs[name], arrays[name]) for name in arrays)


def test_the_public_library_opens_our_extended_dtypes(path: Path) -> None:
    library = pytest.importorskip("safetensors", reason="the oracle")
    save_safetensors(path, {"c": np.array([1 + 2j, 3 - 4j]), "s": STRINGS, "h": np.ones(2, ml_dtypes.bfloat16)})
    with library.safe_open(path, "numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("c"), [[1, 2], [3, -4]])
        assert file.get_slice("h").get_dtype() == "BF16"
        assert file.get_slice("s").get_dtype() == "U8"


def test_we_read_the_public_librarys(path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="the oracle")
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([True]), "c": np.array(7, np.int64)}
    library.save_file(arrays, path, metadata={"k": "v"})
    loaded = load_safetensors(path)
    assert all(_same(loaded[name], arrays[name]) for name in arrays)


def test_bfloat16_of_others(path: Path) -> None:
    _file(path, {"h": _entry("BF16", [2], 0, 4)}, bytes.fromhex("c03f00c0"))
    assert _same(load_safetensors(path)["h"], np.array([1.5, -2.0], ml_dtypes.bfloat16))


# Hard cases. Ids are those of the list of inputs that broke other systems.


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2**64 - 1) + b"{}",
        struct.pack("<Q", 1000) + b"{}" + b" " * 10,
        b"\x02\x00",
        b"",
        struct.pack("<Q", 0),
        struct.pack("<Q", 0) + b"{}",
        struct.pack("<Q", 100_000_001) + b"{}",
    ],
    ids=["2**63", "2**64-1", "1000 in 20", "2 bytes", "empty", "0", "0 with data", "over the limit"],
)
def test_K01_a_lying_header_length_is_refused_without_allocating(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(DataLossError, match=r"not a valid safetensors file\n.*\n  expected: a "):
            load_safetensors(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(6)[::2],
        np.arange(3, dtype=">f4"),
        np.arange(6)[::-1],
        np.broadcast_to(np.arange(3.0), (2, 3)),
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(3, dtype=">c16"),
    ],
    ids=["fortran", "strided", "big-endian", "reversed", "broadcast", "transposed", "big-endian complex128"],
)
def test_K07_any_memory_layout_is_saved_as_its_values(path: Path, array: Any) -> None:
    save_safetensors(path, {"a": array})
    loaded = load_safetensors(path)["a"]
    np.testing.assert_array_equal(loaded, array)
    assert loaded.dtype == array.dtype.newbyteorder("<")


def test_string_lengths_that_lie_are_refused(path: Path) -> None:
    header = {
        "__metadata__": {"headrace.dtypes": '{"b":{"dtype":"string","shape":[1]}}'},
        "b": _entry("U8", [11], 0, 11),
    }
    _file(path, header, struct.pack("<Q", 2**60) + b"abc")
    with pytest.raises(DataLossError, match=r"strings of 3 bytes in 'b'"):
        load_safetensors(path)


def test_a_byte_that_is_no_bool_is_refused(path: Path) -> None:
    _file(path, {"a": _entry("BOOL", [2], 0, 2)}, b"\x01\x02")
    with pytest.raises(DataLossError, match="0 or 1 for each element of 'a'"):
        load_safetensors(path)


def test_elements_without_a_numpy_dtype(path: Path) -> None:
    _file(path, {"a": _entry("F4", [2], 0, 1)}, b"\x00")
    with SafetensorsFile(path) as file:
        assert file.entries["a"].value_dtype == "F4"
        with pytest.raises(DTypeError, match=r"elements that NumPy cannot hold[^$]*got: *F4"):
            file.read("a")


def test_every_flipped_bit_of_the_data_is_found(path: Path) -> None:
    save_safetensors(path, {"a": np.arange(4, dtype=np.int16), "s": np.array([b"ab"], object)})
    good = path.read_bytes()
    start = 8 + struct.unpack("<Q", good[:8])[0]
    for index in range(start, len(good)):
        path.write_bytes(good[:index] + bytes([good[index] ^ 4]) + good[index + 1 :])
        with pytest.raises(DataLossError, match="checksum does not match"):
            load_safetensors(path)
    path.write_bytes(good[:start] + b"\x07" + good[start + 1 :])
    assert load_safetensors(path, verify=False)["a"][0] == 7


def test_damage_names_the_block(path: Path) -> None:
    save_safetensors(path, {"a": np.arange(BLOCK // 2, dtype=np.uint32), "b": np.zeros(BLOCK, np.uint8)})
    content = bytearray(path.read_bytes())
    start = 8 + struct.unpack("<Q", content[:8])[0]
    content[start + BLOCK + 5] ^= 1
    path.write_bytes(content)
    with SafetensorsFile(path) as file:
        assert [None if entry.blocks is None else len(entry.blocks.crc32c) for entry in file.entries.values()] == [
            2,
            None,
        ]
        places = f"bytes {start + BLOCK} to {start + 2 * BLOCK}"
        with pytest.raises(DataLossError, match=rf"array 'a' is damaged, in block 2 of 2: .*\n *where: .*{places}\n"):
            file.read("a")
        middle = BLOCK // 4
        assert file.read("a", Box((3,), (middle - 3,))).tolist() == list(range(3, middle))
        with pytest.raises(DataLossError, match="block 2 of 2"):
            file.read("a", Box((2 * middle - 1,), (1,)))
        assert file.read("a", Box((middle,), (1,)), verify=False)[0] == middle


@st.composite
def parts(draw: st.DrawFn) -> tuple[tuple[int, ...], Box]:
    """A shape and a part of it."""
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=4)))
    offset = tuple(draw(st.integers(0, size)) for size in shape)
    sizes = tuple(draw(st.integers(0, size - begin)) for size, begin in zip(shape, offset, strict=True))
    return shape, Box(offset, sizes)


@settings(max_examples=200, deadline=None)
@given(parts(), st.sampled_from(["u1", "<f4", "<c16", "O", "?"]), st.integers(1, 40), st.randoms())
def test_a_part_is_read_and_verified_and_no_more(
    tmp_path_factory: pytest.TempPathFactory, part: tuple[tuple[int, ...], Box], dtype: str, block: int, rnd: Random
) -> None:
    shape, box = part
    path = tmp_path_factory.getbasetemp() / "part.safetensors"
    numbers = np.arange(math.prod(shape)) % (2 if dtype == "?" else 251)
    whole: Any = np.empty(shape, dtype)
    whole[...] = np.reshape([b"%d" % number for number in numbers] if dtype == "O" else numbers, shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace_checkpoint.safetensors.BLOCK", block)
        save_safetensors(path, {"a": whole})
    content = np.fromfile(path, np.uint8)
    fetched = np.zeros(content.size, bool)

    def fetch(begin: int, end: int) -> NDArray[np.uint8]:
        fetched[begin:end] = True
        return content[begin:end]

    file = SafetensorsFile(path, size=content.size, fetch=fetch)
    start = 8 + struct.unpack("<Q", content[:8])[0]
    fetched[:] = False
    expected = whole[(*box.within(Box.whole(shape)), ...)]
    np.testing.assert_array_equal(file.read("a", box), expected, strict=True)
    if dtype != "O" and box.num_elements:
        wanted = np.zeros(shape, bool)
        wanted[box.within(Box.whole(shape))] = True
        bytes_wanted = np.repeat(wanted.reshape(-1), whole.itemsize)
        blocks = np.array([bytes_wanted[at : at + block].any() for at in range(0, bytes_wanted.size, block)])
        assert not fetched[start:][~np.repeat(blocks, block)[: bytes_wanted.size]].any()
    if content.size > start:
        at = rnd.randrange(start, content.size)
        content[at] ^= 0x10
        if fetched[at]:
            with pytest.raises(DataLossError):
                file.read("a", box)
        else:
            np.testing.assert_array_equal(file.read("a", box), expected, strict=True)


def test_a_box_that_is_not_within_the_array(path: Path) -> None:
    save_safetensors(path, {"a": np.zeros((2, 3))})
    with SafetensorsFile(path) as file:
        for box in (Box((0, 0), (2, 4)), Box((-1, 0), (1, 1)), Box((0,), (2,))):
            with pytest.raises(InvalidArgumentError, match=r"no such part of array 'a'[^$]*a box within \[2, 3\]"):
                file.read("a", box)


def test_every_truncation_is_found(path: Path) -> None:
    save_safetensors(path, {"a": np.arange(4, dtype=np.int16)})
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(DataLossError, match="not a valid safetensors file"):
            load_safetensors(path)


def test_missing_files_and_names(path: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        load_safetensors(path)
    with pytest.raises(NotFoundError, match="no such file"):
        load_safetensors(tmp_path)
    save_safetensors(path, {"weight": np.ones(1)})
    with SafetensorsFile(path) as file, pytest.raises(NotFoundError, match=r"no array 'weigth'[^$]*close ones: weight"):
        file.read("weigth")


@pytest.mark.parametrize("name", ["__metadata__", "\ud800", 5, b"a"])
def test_names_that_cannot_be_written(path: Path, name: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be an array's name"):
        save_safetensors(path, {name: np.ones(1)})
    assert not path.exists()


def test_what_else_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DTypeError, match="array 'a' has a dtype"):
        save_safetensors(path, {"a": np.zeros(1, "datetime64[s]")})
    with pytest.raises(DTypeError, match=r"array 'a' of strings holds something else[^$]*got: *3"):
        save_safetensors(path, {"a": np.array([3], object)})
    with pytest.raises(InvalidArgumentError, match="text only"):
        save_safetensors(path, {}, {"k": 1})  # type: ignore[dict-item]  # on purpose
    with pytest.raises(InvalidArgumentError, match="is reserved"):
        save_safetensors(path, {}, {"headrace.crc32c": "{}"})
    monkeypatch.setattr("headrace_checkpoint.safetensors_header.MAX_HEADER_BYTES", 100)
    with pytest.raises(InvalidArgumentError, match="too many or too long names"):
        save_safetensors(path, {"a" * 100: np.ones(1)})
    assert not path.exists()


EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 3),
        st.binary(max_size=4) | st.sampled_from([b"9" * 40, b"[" * 50]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(EDITS)
def test_fuzzed_files_give_a_typed_error_or_the_truth(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[float, int, bytes]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.safetensors"
    arrays = {"a": np.arange(4, dtype=np.float32), "s": np.array([b"ab", b""], object), "c": np.array(1j)}
    header, *data = (bytes(chunk) for chunk in EncodedArrays.of(arrays).chunks)
    fuzzed = bytearray(header + b"".join(data))
    for where, length, replacement in edits:
        at = int(where * len(fuzzed))
        fuzzed[at : at + length] = replacement
    path.write_bytes(fuzzed)
    tracemalloc.start()
    try:
        loaded = load_safetensors(path)
        if fuzzed.startswith(header):
            assert {name: array.tolist() for name, array in loaded.items()} == {
                n: a.tolist() for n, a in arrays.items()
            }
    except (DataLossError, DTypeError):
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 64 * len(fuzzed) + 500_000
