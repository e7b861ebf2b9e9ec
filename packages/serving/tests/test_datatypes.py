"""Raw tensors: every byte counts."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace as hr
from headrace.types import Array, as_dtype
from headrace_serving.datatypes import (
    count_elements,
    datatype_of,
    datatypes,
    tensor_from_bytes,
    tensor_to_bytes,
)
from headrace_serving.errors import BadRequestError, UnsupportedError

NUMBERS = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32"]


def framed(*strings: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(string)) + string for string in strings)


@given(
    st.sampled_from([*NUMBERS, "float64"]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    ),
    st.integers(0, 7),
)
def test_numbers_come_back_bit_for_bit_wherever_they_lie(x: Array, offset: int) -> None:
    raw = memoryview(b"\0" * offset + tensor_to_bytes(x))[offset:]
    again = tensor_from_bytes("x", as_dtype(x.dtype), x.shape, raw)
    assert (again.dtype, again.shape, again.tobytes()) == (x.dtype, x.shape, x.tobytes())
    assert again.flags.aligned


@pytest.mark.parametrize("count", [1, 5000, 50_000])
@pytest.mark.parametrize("offset", [0, 1])
def test_what_does_not_lie_where_numbers_may_is_copied(count: int, offset: int) -> None:
    """Few bytes in another way than many."""
    x = np.arange(count, dtype=np.float32)
    tensor = tensor_from_bytes("x", as_dtype("float32"), [count], memoryview(bytes(offset) + x.tobytes())[offset:])
    assert tensor.flags.aligned
    np.testing.assert_array_equal(tensor, x)


def test_bfloat16() -> None:
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    assert tensor_to_bytes(x) == b"\xc0\x3f\x00\xc0"
    assert tensor_from_bytes("x", hr.bfloat16, [2], memoryview(b"\xc0\x3f\x00\xc0")).tolist() == [1.5, -2.0]


def test_a_byte_other_than_1_is_true_too() -> None:
    assert tensor_from_bytes("x", hr.bool, [3], memoryview(b"\x00\x01\xff")).tobytes() == b"\x00\x01\x01"


def test_S09_strings_come_back_exactly() -> None:
    strings = [b"a\0b", b"", "é".encode(), b"\xff" * 300]
    tensor = tensor_from_bytes("s", hr.string, [2, 2], memoryview(framed(*strings)))
    assert (tensor.shape, tensor.ravel().tolist()) == ((2, 2), strings)
    assert tensor_to_bytes(tensor) == framed(*strings)


@pytest.mark.parametrize(
    ("shape", "raw", "message"),
    [
        ([1], b"\x05\0\0\0abc", r"expecting 2 additional bytes for input 's'\n.*a string of 5 bytes\n.*3 bytes"),
        ([1], b"\xff\xff\xff\xffabc", "expecting 4294967292 additional bytes for input 's'"),
        ([1], framed(b"abc") + b"x", r"unexpected additional input data for input 's'\n.*1 strings in 7 bytes\n.*8 by"),
        ([1], framed(b"a", b"b"), "unexpected additional input data for input 's'"),
        ([2], framed(b"a"), r"expected 2 string elements for inference input 's', got 1\n.*each with its length"),
        ([2], framed(b"a") + b"\0\0", r"expecting 2 additional bytes for input 's'\n.*the 4 bytes of a string's len"),
        ([0], framed(b"a"), "unexpected additional input data for input 's'"),
    ],
)
def test_S09_strings_whose_lengths_do_not_add_up(shape: list[int], raw: bytes, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        tensor_from_bytes("s", hr.string, shape, memoryview(raw))


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (7, r"expecting 1 additional bytes for input 'x'\n.*8 bytes for shape \[2\]\n.*got:      7 bytes"),
        (9, r"unexpected additional input data for input 'x'\n.*8 bytes for shape \[2\]\n.*got:      9 bytes"),
    ],
)
def test_too_few_and_too_many_bytes(size: int, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        tensor_from_bytes("x", hr.float32, [2], memoryview(bytes(size)))


@pytest.mark.parametrize(
    "shape", [[4611686018427387904, 8], [2**32, 2**32], [2**62, 0, 2**62], [2**63], [1] * 33, [2**61]]
)
def test_S07_shapes_beyond_any_memory(shape: list[int]) -> None:
    with pytest.raises(BadRequestError, match=r"input 'x' has a shape that is too large\n.*at most 32 dimensions"):
        count_elements("x", shape, hr.int32)
    with pytest.raises(BadRequestError, match="input 'x' has a shape that is too large"):
        tensor_from_bytes("x", hr.int32, shape, memoryview(b""))


def test_names() -> None:
    assert [datatype_of(as_dtype(name)) for name in ("bool", "uint16", "float16", "string")] == [
        "BOOL",
        "UINT16",
        "FP16",
        "BYTES",
    ]
    assert len(datatypes()) == 14
    with pytest.raises(UnsupportedError, match=r"has no datatype for complex64\n.*BOOL, UINT8"):
        datatype_of(hr.complex64)
