"""CRC-32C, as every format of this package uses it.

Source: Castagnoli polynomial as in RFC 3720 (iSCSI) appendix B.4; the masked form is LevelDB's, which keeps a checksum
of data that itself contains checksums from becoming predictable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from fastcrc import crc32
from numpy.typing import NDArray

__all__ = ["crc32c", "in_threads", "mask", "unmask"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_MASK_DELTA = 0xA282EAD8
_THREADS = min(8, os.cpu_count() or 1)
"""Memory gives no more than some cores can sum up."""


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


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Call a function of each item, several at a time: reading and computing checksums let other threads run.

    Args:
      function: called from several threads at once.
      items: in the order of the results.
    Raises:
      Exception: what the function raised of the first item for which it raised.
    """
    every = list(items)
    if len(every) < 2:
        return [function(item) for item in every]
    with ThreadPoolExecutor(min(len(every), _THREADS), thread_name_prefix="headrace-checksum") as pool:
        return list(pool.map(function, every))


def mask(crc: int) -> int:
    """The form in which LevelDB tables, TensorBundles and event files store a checksum."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(masked: int) -> int:
    """The checksum that `mask` was given."""
    rotated = (masked - _MASK_DELTA) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF
