"""The records of files, one after the other: lines, runs of bytes, and TFRecords with their checksums.

A TFRecord is its length as 8 bytes, a checksum of these, the bytes and a checksum of them; numbers are little endian.
Checksums are CRC-32C, masked so that those of data that holds checksums do not become predictable.

Source: TensorFlow's `record_reader.h` for the frame; RFC 3720 appendix B.4 for the polynomial.
"""

from __future__ import annotations

import gzip
import importlib
import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from headrace.errors import DataLossError

__all__ = ["Record", "crc32c", "fixed_length_records", "framed_records", "masked", "opened", "text_lines"]

Record = tuple[bytes, bytes]
"""What tells a record from the others of its file, and its bytes."""

_POLYNOMIAL = 0x82F63B78
_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_LONGEST = 1 << 40
"""Bytes of a record; a greater length is a damaged one."""


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def _crc32c_in_python(data: bytes) -> int:
    """About 10 MB a second; the package google-crc32c is used in its place where it is installed."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _fastest() -> Callable[[bytes], int]:
    try:
        value: Callable[[bytes], int] = importlib.import_module("google_crc32c").value
    except ImportError:
        return _crc32c_in_python
    return value


crc32c: Callable[[bytes], int] = _fastest()
"""The CRC-32C of some bytes."""


def masked(data: bytes) -> int:
    """The checksum in the form in which record files hold it."""
    crc = crc32c(data)
    return (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


def opened(path: Path, compression: str) -> BinaryIO:
    """A file to read from, which takes the compression of the whole of it off.

    Args:
      path: the file.
      compression: `""`, `"GZIP"` or `"ZLIB"`.
    Raises:
      OSError: it cannot be opened.
      DataLossError: it is not compressed so.
    """
    if compression == "GZIP":
        return gzip.open(path)  # type: ignore[return-value]  # a binary stream
    if compression == "ZLIB":
        try:
            return io.BytesIO(zlib.decompress(path.read_bytes()))
        except zlib.error as error:
            raise _damaged(path, 0, f"no zlib stream: {error}") from error
    return path.open("rb")


def text_lines(path: Path, skipped: int) -> Iterator[Record]:
    """The lines of a text file without their ends, numbered from 1; the first `skipped` are passed over."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number > skipped:
                yield str(number).encode(), line.rstrip(b"\n").replace(b"\r", b"")


def fixed_length_records(
    path: Path, length: int, *, header: int, footer: int, hop: int, compression: str
) -> Iterator[Record]:
    """Runs of `length` bytes between header and footer, `hop` from one start to the next, numbered from 0."""
    with opened(path, compression) as file:
        size = file.seek(0, io.SEEK_END)
        start, number = header, 0
        while start + length <= size - footer:
            file.seek(start)
            yield str(number).encode(), file.read(length)
            start, number = start + hop, number + 1


def framed_records(path: Path, compression: str) -> Iterator[Record]:
    """The records of a TFRecord file, each with the offset of its frame.

    Raises:
      DataLossError: a frame is cut off, or a checksum is not that of the bytes.
    """
    with opened(path, compression) as file:
        offset = 0
        while True:
            head = _read(file, _LENGTH.size, path, offset)
            if not head:
                return
            if len(head) < _LENGTH.size:
                raise _damaged(path, offset, "the frame of a record is cut off")
            length, checksum = _LENGTH.unpack(head)
            if masked(head[:8]) != checksum or length > _LONGEST:
                raise _damaged(path, offset, "the checksum of a length is wrong")
            data = _read(file, length, path, offset)
            tail = _read(file, _CHECKSUM.size, path, offset)
            if len(data) < length or len(tail) < _CHECKSUM.size:
                raise _damaged(path, offset, "a record is cut off")
            if masked(data) != _CHECKSUM.unpack(tail)[0]:
                raise _damaged(path, offset, "the checksum of a record is wrong")
            yield str(offset).encode(), data
            offset += _LENGTH.size + length + _CHECKSUM.size


def _read(file: BinaryIO, count: int, path: Path, offset: int) -> bytes:
    try:
        return file.read(count)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, offset, f"the compressed stream is damaged: {error}") from error


def _damaged(path: Path, offset: int, what: str) -> DataLossError:
    return DataLossError(
        f"record file '{path}' is damaged",
        expected="whole records with right checksums",
        got=f"{what}, at byte {offset}",
        hint="check compression_type; copy the file again, or write it anew",
    )
