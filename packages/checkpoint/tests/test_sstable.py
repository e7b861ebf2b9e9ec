"""Sorted tables: round trips, and refusal of whatever is not one."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DataLossError, UnimplementedError
from headrace_checkpoint.checksum import crc32c, mask
from headrace_checkpoint.sstable import append_varint, decode_table, encode_table, read_varint

ROWS = [(b"", b"header"), *((f"layer/{i:04d}/kernel".encode(), bytes([i % 256]) * (i % 7)) for i in range(200))]


def _decode(data: bytes) -> list[tuple[bytes, bytes]]:
    return list(decode_table(data, "the table"))


@pytest.mark.parametrize("block_bytes", [1, 100, 2_000, 262_144])
def test_rows_survive_every_block_size(block_bytes: int) -> None:
    assert _decode(encode_table(ROWS, block_bytes)) == ROWS


def test_an_empty_table_has_no_rows() -> None:
    assert _decode(encode_table([])) == []


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=40), max_size=60), st.integers(1, 300))
def test_round_trip_of_any_rows(rows: dict[bytes, bytes], block_bytes: int) -> None:
    assert _decode(encode_table(sorted(rows.items()), block_bytes)) == sorted(rows.items())


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
def test_a_varint_reads_back(value: int) -> None:
    buffer = bytearray()
    append_varint(buffer, value)
    assert read_varint(bytes(buffer), 0) == (value, len(buffer))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9 + b"\x7f", b"\x80" * 11])
def test_a_broken_varint_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"a number is (cut off|longer than 64 bits)"):
        read_varint(data, 0)


def test_every_truncation_is_refused() -> None:
    table = encode_table(ROWS[:20], 100)
    for length in range(len(table)):
        with pytest.raises(DataLossError, match="not a valid table"):
            _decode(table[:length])


def test_every_flipped_bit_is_refused_or_harmless() -> None:
    table = encode_table(ROWS[:20], 100)
    harmless = 0
    for index in range(len(table)):
        broken = table[:index] + bytes([table[index] ^ 1]) + table[index + 1 :]
        try:
            assert _decode(broken) == ROWS[:20]
            harmless += 1
        except (DataLossError, UnimplementedError):
            pass
    # Nobody reads the padding of the footer, the empty metaindex block and its place.
    assert harmless < 60


def _block(content: bytes, kind: int = 0) -> bytes:
    body = content + bytes([kind])
    return body + struct.pack("<I", mask(crc32c(body)))


def _table(content: bytes, kind: int = 0) -> bytes:
    """A table of one block with the given content, rightly framed."""
    first = _block(content, kind)
    place = bytearray()
    append_varint(place, 0)
    append_varint(place, len(content))
    index = bytes([0, 1, len(place)]) + b"z" + bytes(place) + struct.pack("<II", 0, 1)
    footer = bytearray(b"\0\0")
    append_varint(footer, len(first))
    append_varint(footer, len(index))
    padding = bytes(40 - len(footer))
    return first + _block(index) + bytes(footer) + padding + struct.pack("<Q", 0xDB4775248B80FB57)


END = struct.pack("<II", 0, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x05\x01\x00a" + END, "longer than its block"),
        (b"\x00\x7f\x00a" + END, "longer than its block"),
        (b"\x00\x01\x7fa" + END, "longer than its block"),
        (b"\x00\x01\x00b\x00\x01\x00a" + END, "out of order"),
        (b"\x00\x01\x00a\x00\x01\x00a" + END, "out of order"),
        (b"\x00\x01" + END, "longer than its block"),
        (struct.pack("<I", 2**31), "list of restarts"),
        (b"abc", "lies outside"),
    ],
)
def test_broken_blocks_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataLossError, match=message):
        _decode(_table(content))


def test_compressed_blocks_are_named() -> None:
    with pytest.raises(UnimplementedError, match=r"compressed[^$]*got: *type 1"):
        _decode(_table(b"\x00\x01\x00a" + END, kind=1))


def test_keys_that_grow_without_end_are_refused() -> None:
    long = 100_000
    content = bytearray(b"\x00")
    append_varint(content, long)
    content += b"\x00" + b"k" * long
    for _ in range(20_000):  # each entry is 5 bytes and makes a key one byte longer than the last
        append_varint(content, long)
        content += b"\x01\x00z"
        long += 1
    table = _table(bytes(content) + END)
    tracemalloc.start()
    try:
        with pytest.raises(DataLossError, match="out of order"):
            _decode(table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(table)
