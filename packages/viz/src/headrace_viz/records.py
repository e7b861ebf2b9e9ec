"""The framing of event files: records with their own length and checksums.

A file is a sequence of records and nothing else. One record is

    length  u64, little-endian       number of bytes of data
    crc     u32, little-endian       masked CRC-32C of the 8 bytes of length
    data    `length` bytes
    crc     u32, little-endian       masked CRC-32C of data

A checksum is masked (rotated and shifted by a constant) so that the checksum of data that holds checksums stays
meaningful. Readers that follow a growing file wait at a record that is cut off, but give up on the whole rest of a file
at a wrong checksum. Hence a writer never appends to a file that it did not make, and never leaves part of a record
before another one.

Source: the TFRecord format, tensorflow.org/tutorials/load_data/tfrecord.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO

import google_crc32c

from headrace.errors import DataLossError
from headrace_viz.storage import open_file

_HEADER_BYTES = 12
_FOOTER_BYTES = 4


def masked_crc32c(data: bytes) -> int:
    """Return the masked CRC-32C of `data`, in 0 ... 2**32 - 1.

    Example:
      >>> hex(masked_crc32c(b"123456789"))
      '0xc78ab0e5'
    """
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@functools.lru_cache(maxsize=256)  # scalars come in few lengths; 0.7 us saved of each record
def _header(length: int) -> bytes:
    head = struct.pack("<Q", length)
    return head + struct.pack("<I", masked_crc32c(head))


def frame(data: bytes) -> bytes:
    """Return `data` as one record.

    Example:
      >>> len(frame(b"abc"))
      19
    """
    return _header(len(data)) + data + struct.pack("<I", masked_crc32c(data))


def read_records(
    path: str | os.PathLike[str],
    *,
    torn_tail_ok: bool = False,
    on_damage: Callable[[DataLossError], None] | None = None,
) -> Iterator[bytes]:
    """Iterate over the data of every complete record of a file, checking both checksums of each.

    Memory stays within the size of the largest record that is really there, whatever lengths the file claims.

    Args:
      path: the file, or its URL.
      torn_tail_ok: a record that the end of the file cuts off ends the iteration instead of raising. A writer that was
        killed leaves such a tail, and so does one that is still at work.
      on_damage: is told of each wrong checksum instead of its being raised. A record whose data are wrong is passed
        over; where a length is wrong the iteration ends, since nothing says where the next record begins.
    Raises:
      DataLossError: a checksum is wrong; or the file ends inside a record and `torn_tail_ok` is false. The complete
        records before that place have been given out.
      OSError: the file cannot be read.
    """
    with open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        offset = 0
        while offset < size:
            try:
                length = _read_length(file, os.fspath(path), offset, size - offset)
            except DataLossError as error:
                if on_damage is None:
                    raise
                on_damage(error)
                return
            if length is None:
                if torn_tail_ok:
                    return
                raise DataLossError(
                    "event file ends inside a record",
                    where=f"{os.fspath(path)}, byte {offset}",
                    expected="whole records up to the end of the file",
                    got=f"{size - offset} bytes of a record that is longer",
                    hint="read with torn_tail_ok=True to take the complete records of a file whose writer was stopped",
                )
            data, footer = file.read(length), file.read(_FOOTER_BYTES)
            (data_crc,) = struct.unpack("<I", footer)
            expected = masked_crc32c(data)
            if data_crc == expected:
                yield data
            else:
                damage = _checksum_error(os.fspath(path), offset, "data", expected, data_crc)
                if on_damage is None:
                    raise damage
                on_damage(damage)
            offset += _HEADER_BYTES + length + _FOOTER_BYTES


def _read_length(file: BinaryIO, path: str, offset: int, available: int) -> int | None:
    """Return the length of the record at the file's position; None where it needs more bytes than `available`."""
    if available < _HEADER_BYTES:
        return None
    length: int
    length, length_crc = struct.unpack("<QI", file.read(_HEADER_BYTES))
    expected = masked_crc32c(struct.pack("<Q", length))
    if length_crc != expected:
        raise _checksum_error(path, offset, "length", expected, length_crc)
    return length if _HEADER_BYTES + length + _FOOTER_BYTES <= available else None


def _checksum_error(path: str, offset: int, part: str, expected: int, got: int) -> DataLossError:
    return DataLossError(
        f"event file has a damaged record: wrong checksum of its {part}",
        where=f"{path}, record at byte {offset}",
        expected=f"0x{expected:08x}",
        got=f"0x{got:08x}",
        hint="the records before this one are good; copy the file again if it was copied",
    )
