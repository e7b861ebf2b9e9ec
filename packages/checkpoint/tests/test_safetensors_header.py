"""Headers of safetensors files: what is written is read again, and what breaks a rule is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import DataLossError
from headrace_checkpoint.safetensors_header import (
    ALIGNMENT,
    Blocks,
    StoredArray,
    encode_header,
    parse_header,
    read_header_length,
)


def _parse(header: object, data_size: int) -> tuple[dict[str, StoredArray], dict[str, str]]:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return parse_header("f.safetensors", text, data_size)


def _entry(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_what_is_written_is_read_again() -> None:
    entries = [
        StoredArray("c", "F64", (3, 2), 0, 48, 7, ("complex128", (3,))),
        StoredArray("w\n\N{SNOWMAN}", "F32", (0, 4), 48, 48, 0),
        StoredArray("s", "U8", (20,), 48, 68, 0xFFFFFFFF, ("string", (2, 1)), Blocks(16, (1, 2))),
        StoredArray("of others", "BOOL", (), 68, 69),
    ]
    content = encode_header(entries, {"made by": "hand"})
    length = read_header_length("f.safetensors", content[:8], len(content) + 69)
    assert (8 + length, len(content) % ALIGNMENT) == (len(content), 0)
    found, metadata = _parse(content[8:], 69)
    assert (list(found.values()), metadata) == (entries, {"made by": "hand"})


# Hard cases. Ids are those of the list of inputs that broke other systems.


def test_K03_duplicate_names_are_refused() -> None:
    text = (
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    )
    with pytest.raises(DataLossError, match="duplicate key 'a'"):
        parse_header("f", text, 8)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("F32", [2**62, 8]),
        ("U8", [2**32, 2**32]),
        ("U8", [0, 2**62, 8]),
        ("U8", [2**63 - 1]),
        ("U8", [10**18] * 60),
        ("U8", [2**64]),
    ],
)
def test_K05_an_overflowing_shape_is_refused(dtype: str, shape: list[int]) -> None:
    with pytest.raises(DataLossError, match=r"shape of 'a'|bytes for 'a'"):
        _parse({"a": _entry(dtype, shape, 0, 0)}, 0)


GOOD = {"a": _entry("F32", [2], 0, 8), "b": _entry("U8", [3], 8, 11)}


@pytest.mark.parametrize(
    ("header", "size", "message"),
    [
        (b" {}", 0, "begins with '{'"),
        (b"[]", 0, "begins with '{'"),
        (b'{"a":', 0, "in JSON"),
        (b'{"a":\xff}', 0, "in JSON"),
        (b'{"a":' + b"[" * 100_000, 0, "in JSON"),
        (b'{"a":' + b"1" * 10_000 + b"}", 0, "in JSON"),
        ({**GOOD, "b": _entry("U8", [3], 9, 12)}, 12, "'b' to begin at 8"),
        ({**GOOD, "b": _entry("U8", [3], 7, 10)}, 10, "'b' to begin at 8"),
        (GOOD, 12, "11 bytes of arrays"),
        (GOOD, 10, "11 bytes of arrays"),
        ({}, 1, "0 bytes of arrays"),
        ({"a": _entry("F32", [2], 0, 7)}, 7, "8 bytes for 'a'"),
        ({"a": _entry("F32", [2], 8, 0)}, 8, "8 bytes for 'a'"),
        ({"a": _entry("F31", [2], 0, 8)}, 8, "a dtype of 'a'"),
        ({"a": _entry("F4", [3], 0, 1)}, 1, "1.5 bytes for 'a'"),
        ({"a": _entry("F32", [-2], 0, 8)}, 8, "a shape of 'a'"),
        ({"a": _entry("F32", [2.0], 0, 8)}, 8, "a shape of 'a'"),
        ({"a": _entry("U8", [True], 0, 1)}, 1, "a shape of 'a'"),
        ({"a": _entry("U8", [1] * 65, 0, 1)}, 1, "at most 64 sizes"),
        ({"a": {**GOOD["a"], "data_offsets": [0, 4, 8]}}, 8, "data_offsets"),
        ({"a": {**GOOD["a"], "more": 1}}, 8, "dtype, shape and data_offsets"),
        ({"a": 5}, 0, "dtype, shape and data_offsets"),
        ({"__metadata__": {"k": 1}}, 0, "strings only"),
        ({"__metadata__": []}, 0, "strings only"),
        ({"__metadata__": {"headrace.crc32c": "[]"}}, 0, "JSON object"),
        ({"__metadata__": {"headrace.crc32c": '{"a":"xyz"}'}, **GOOD}, 11, "8 hexadecimal digits"),
        ({"__metadata__": {"headrace.blocks": '{"bytes":4}'}, **GOOD}, 11, "bytes and crc32c"),
        ({"__metadata__": {"headrace.blocks": '{"bytes":4,"crc32c":7}'}, **GOOD}, 11, "bytes and crc32c"),
        ({"__metadata__": {"headrace.blocks": '{"bytes":0,"crc32c":{}}'}, **GOOD}, 11, "at least one byte"),
        (
            {"__metadata__": {"headrace.blocks": '{"bytes":4,"crc32c":{"a":"0123abcd"}}'}, **GOOD},
            11,
            "2 checksums of blocks of 'a'",
        ),
        ({"__metadata__": {"headrace.dtypes": '{"a":7}'}, **GOOD}, 11, "headrace.dtypes"),
        (
            {"__metadata__": {"headrace.dtypes": '{"b":{"dtype":"string","shape":[1]}}'}, **GOOD},
            11,
            "extended dtype",
        ),
    ],
)
def test_broken_headers_are_refused(header: object, size: int, message: str) -> None:
    with pytest.raises(DataLossError, match="not a valid safetensors file") as caught:
        _parse(header, size)
    assert message in str(caught.value)
    assert "f.safetensors" in str(caught.value)
