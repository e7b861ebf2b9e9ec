"""Sorted tables of byte strings on disk: LevelDB's table format, without compression.

A table is a row of blocks and a footer of 48 bytes. A block holds entries in the order of their keys, each
`varint shared, varint rest, varint length, rest of the key, value` where `shared` bytes are those of the key before;
every 16th entry shares nothing and its place is listed at the block's end (`u32 places..., u32 count`). A block is
followed by a byte 0 (no compression) and the masked CRC-32C of both. The last blocks are an empty one (LevelDB's
"metaindex") and the index: last key of each block -> its place. The footer holds these two places and a magic number.

Source: table_format.md of LevelDB, read for the layout only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

from headrace.errors import DataLossError, UnimplementedError
from headrace_checkpoint.checksum import crc32c, mask, unmask

__all__ = ["append_varint", "decode_table", "encode_table", "read_varint"]

FOOTER_BYTES = 48
BLOCK_BYTES = 262_144
RESTART_INTERVAL = 16

_MAGIC = 0xDB4775248B80FB57
# A writer that restarts every 16 keys, as all do, cannot make keys grow more than 16-fold.
_MAX_KEY_GROWTH = 64


class _Place(NamedTuple):
    offset: int
    size: int


def append_varint(buffer: bytearray, value: int) -> None:
    """Append an unsigned integer, 7 bits to a byte, lowest first."""
    while value > 127:
        buffer.append(value & 127 | 128)
        value >>= 7
    buffer.append(value)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned integer of at most 64 bits; returns it and the position after it.

    Raises:
      ValueError: the data ends inside it, or it is longer than 64 bits.
    """
    value = 0
    for count in range(10):
        if position + count >= len(data):
            raise ValueError("a number is cut off")
        byte = data[position + count]
        value |= (byte & 127) << 7 * count
        if byte < 128:
            if value >= 2**64:
                break
            return value, position + count + 1
    raise ValueError("a number is longer than 64 bits")


def encode_table(entries: Iterable[tuple[bytes, bytes]], block_bytes: int = BLOCK_BYTES) -> bytes:
    """Write a table.

    Args:
      entries: keys and values, in rising order of keys.
      block_bytes: a block is closed once it has this many bytes.
    """
    table = bytearray()
    index: list[tuple[bytes, bytes]] = []
    block: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in entries:
        block.append((key, value))
        size += len(key) + len(value)
        if size >= block_bytes:
            index.append((key, _append_block(table, block)))
            block, size = [], 0
    if block:
        index.append((block[-1][0], _append_block(table, block)))
    footer = bytearray(_append_block(table, []) + _append_block(table, index))
    footer += bytes(FOOTER_BYTES - 8 - len(footer)) + struct.pack("<Q", _MAGIC)
    return bytes(table + footer)


def _append_block(table: bytearray, entries: list[tuple[bytes, bytes]]) -> bytes:
    """Append a block and its trailer; returns its place, encoded."""
    block = bytearray()
    restarts = []
    last = b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % RESTART_INTERVAL == 0:
            restarts.append(len(block))
        else:
            shared = _shared_prefix(last, key)
        for length in (shared, len(key) - shared, len(value)):
            append_varint(block, length)
        block += key[shared:] + value
        last = key
    restarts = restarts or [0]
    block += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    place = bytearray()
    append_varint(place, len(table))
    append_varint(place, len(block))
    block.append(0)
    table += block + struct.pack("<I", mask(crc32c(block)))
    return bytes(place)


def _shared_prefix(a: bytes, b: bytes) -> int:
    limit = min(len(a), len(b))
    return next((index for index in range(limit) if a[index] != b[index]), limit)


def decode_table(data: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Read a table's entries in order, checking every block against its checksum.

    Args:
      data: the whole table.
      name: what to call it in errors.

    Raises:
      DataLossError: it is no table, cut off, or damaged.
      UnimplementedError: a block is compressed.
    """
    if len(data) < FOOTER_BYTES or struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
        _refuse(name, "a sorted table, which ends in its magic number", f"{len(data)} bytes that do not")
    budget = _MAX_KEY_GROWTH * len(data)
    last: bytes | None = None
    try:
        position = len(data) - FOOTER_BYTES
        _, position = _read_place(data, position)
        index, _ = _read_place(data, position)
        for _, encoded in _decode_block(data, index, name):
            block, _ = _read_place(encoded, 0)
            for key, value in _decode_block(data, block, name):
                budget -= len(key) + 1
                if budget < 0 or (last is not None and key <= last):
                    raise ValueError("keys out of order")
                yield key, value
                last = key
    except ValueError as error:
        _refuse(name, "a well-formed sorted table", str(error))


def _read_place(data: bytes, position: int) -> tuple[_Place, int]:
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return _Place(offset, size), position


def _decode_block(data: bytes, place: _Place, name: str) -> Iterator[tuple[bytes, bytes]]:
    end = place.offset + place.size
    if place.size < 4 or end + 5 > len(data) - FOOTER_BYTES:
        raise ValueError(f"a block at {place.offset} of {place.size} bytes lies outside")
    stored = unmask(struct.unpack_from("<I", data, end + 1)[0])
    if crc32c(data[place.offset : end + 1]) != stored:
        raise ValueError(f"the checksum of the block at {place.offset} does not match")
    if data[end] != 0:
        raise UnimplementedError(
            "a block of the table is compressed",
            where=name,
            expected="type 0",
            got=f"type {data[end]}",
            hint="write it again with TensorFlow, which does not compress",
        )
    block = data[place.offset : end]
    (count,) = struct.unpack_from("<I", block, len(block) - 4)
    limit = len(block) - 4 - 4 * count
    if limit < 0:
        raise ValueError("a block's list of restarts is longer than the block")
    yield from _decode_entries(block, limit)


def _decode_entries(block: bytes, limit: int) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    key = b""
    while position < limit:
        shared, position = read_varint(block, position)
        rest, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared > len(key) or position + rest + length > limit:
            raise ValueError("an entry is longer than its block")
        key = key[:shared] + block[position : position + rest]
        position += rest
        yield key, block[position : position + length]
        position += length


def _refuse(name: str, expected: str, got: str) -> NoReturn:
    raise DataLossError(
        "not a valid table",
        where=name,
        expected=expected,
        got=got,
        hint="copy it again, or restore an earlier checkpoint",
    )
