"""CRC-32C, as every format of this package uses it.

Source: Castagnoli polynomial as in RFC 3720 (iSCSI) appendix B.4; the masked form is LevelDB's, which keeps a checksum
of data that itself contains checksums from becoming predictable.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from fastcrc import crc32
from numpy.typing import NDArray

__all__ = ["BLOCK", "crc32c", "crc32c_of_blocks", "mask", "unmask"]

BLOCK = 1 << 20
"""Bytes that have a checksum of their own: what is read to verify one of them, and 8 digits for each in a header."""

_MASK_DELTA = 0xA282EAD8


def crc32c(data: bytes | bytearray | memoryview | NDArray[Any], crc: int = 0) -> int:
    """The CRC-32C of some bytes, or its continuation after others.

    Args:
      data: bytes, or a contiguous array whose memory is meant.
      crc: the checksum of what came before.

    Example:
      >>> hex(crc32c(b"123456789"))
      '0xe3069283'
    """
    buffer = data.data if isinstance(data, np.ndarray) else data
    return crc32.iscsi(buffer, crc)  # iSCSI's is Castagnoli's; other threads run meanwhile


def crc32c_of_blocks(data: memoryview, block: int = BLOCK) -> tuple[int, tuple[int, ...]]:
    """The CRC-32C of some bytes, and that of each block of them, in one pass.

    Args:
      data: bytes.
      block: their number in each block but the last, which may have fewer.
    """
    whole, each = 0, []
    for begin in range(0, len(data), block):
        part = data[begin : begin + block]
        crc = crc32c(part)
        whole = _joined(whole, crc, block) if len(part) == block else crc32c(part, whole)
        each.append(crc)
    return whole, tuple(each)


def _joined(first: int, second: int, size: int) -> int:
    """The checksum of some bytes and `size` more, from those of both.

    Source: like crc32_combine of zlib: without carry, the checksum of a sum is the sum of the checksums.
    """
    moved = 0
    for table in _shifts(size):
        moved ^= table[first & 255]
        first >>= 8
    return moved ^ second


@functools.cache
def _shifts(size: int) -> list[list[int]]:
    """What `size` zero bytes make of a checksum, by the value of each of its four bytes, the lowest first."""
    zeros = memoryview(bytes(1 << 16))

    def after(crc: int) -> int:
        for begin in range(0, size, len(zeros)):
            crc = crc32c(zeros[: size - begin], crc)
        return crc

    origin = after(0)
    tables = []
    for byte in range(4):
        table = [0]
        for bit in range(8 * byte, 8 * byte + 8):
            column = after(1 << bit) ^ origin
            table += [value ^ column for value in table]
        tables.append(table)
    return tables


def mask(crc: int) -> int:
    """The form in which LevelDB tables, TensorBundles and event files store a checksum."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(masked: int) -> int:
    """The checksum that `mask` was given."""
    rotated = (masked - _MASK_DELTA) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF
