"""CRC-32C, as every format of this package uses it.

Source: Castagnoli polynomial as in RFC 3720 (iSCSI) appendix B.4; the masked form is LevelDB's, which keeps a checksum
of data that itself contains checksums from becoming predictable.
"""

from __future__ import annotations

from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

__all__ = ["crc32c", "mask", "unmask"]

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
    # The library refuses memoryviews but takes arrays, which share their memory just as well.
    flat = data if isinstance(data, (bytes, np.ndarray)) else np.frombuffer(data, np.uint8)
    return int(google_crc32c.extend(crc, flat))


def mask(crc: int) -> int:
    """The form in which LevelDB tables, TensorBundles and event files store a checksum."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(masked: int) -> int:
    """The checksum that `mask` was given."""
    rotated = (masked - _MASK_DELTA) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF
