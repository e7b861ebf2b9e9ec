"""SipHash-2-4: a hash of bytes under a secret key, so that nobody can choose strings that fall together.

Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, section 2.
"""

from __future__ import annotations

import struct

__all__ = ["siphash"]

_MASK = (1 << 64) - 1
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash(data: bytes, first: int, second: int) -> int:
    """Return the 64-bit hash of `data` under the key of two 64-bit numbers.

    Example:
      >>> hex(siphash(bytes(range(15)), 0x0706050403020100, 0x0F0E0D0C0B0A0908))
      '0xa129ca6149be45e5'
    """
    first, second = first & _MASK, second & _MASK
    a, b, c, d = (word ^ key for word, key in zip(_START, (first, second, first, second), strict=True))
    whole = len(data) - len(data) % 8
    last = data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    for (word,) in (*struct.iter_unpack("<Q", data[:whole]), struct.unpack("<Q", last)):
        a, b, c, d = _rounds(a, b, c, d ^ word, 2)
        a ^= word
    a, b, c, d = _rounds(a, b, c ^ 0xFF, d, 4)
    return a ^ b ^ c ^ d


def _rounds(a: int, b: int, c: int, d: int, count: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        a, c = (a + b) & _MASK, (c + d) & _MASK
        b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
        a = _rotated(a, 32)
        c, a = (c + b) & _MASK, (a + d) & _MASK
        b, d = _rotated(b, 17) ^ c, _rotated(d, 21) ^ a
        c = _rotated(c, 32)
    return a, b, c, d


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK
