"""FarmHash's 64-bit fingerprint, a published function of bytes that does not change; all arithmetic is modulo 2**64.

Source: G. Pike, FarmHash (https://github.com/google/farmhash), `Fingerprint64`; the constants are its own.
"""

from __future__ import annotations

__all__ = ["fingerprint64"]

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F

Pair = tuple[int, int]


def _fetch(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotate(value: int, shift: int) -> int:
    value &= _MASK
    return (value >> shift | value << (64 - shift)) & _MASK


def _mixed(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _joined(u: int, v: int, multiplier: int) -> int:
    a = _mixed((u ^ v) * multiplier)
    return _mixed((v ^ a) * multiplier) * multiplier & _MASK


def fingerprint64(data: bytes) -> int:
    """The fingerprint of some bytes.

    Args:
      data: any length.
    Returns:
      A number below 2**64.
    """
    length = len(data)
    if length <= 16:
        return _short(data, length)
    if length <= 64:
        return _medium(data, length)
    return _long(data, length)


def _short(data: bytes, length: int) -> int:
    multiplier = _K2 + 2 * length
    if length >= 8:
        a, b = _fetch(data, 0) + _K2, _fetch(data, length - 8)
        c = _rotate(b, 37) * multiplier + a & _MASK
        d = (_rotate(a, 25) + b) * multiplier & _MASK
        return _joined(c, d, multiplier)
    if length >= 4:
        return _joined(length + (_fetch(data, 0, 4) << 3), _fetch(data, length - 4, 4), multiplier)
    if not length:
        return _K2
    y = data[0] + (data[length >> 1] << 8)
    z = length + (data[-1] << 2)
    return _mixed(y * _K2 & _MASK ^ z * _K0 & _MASK) * _K2 & _MASK


def _medium(data: bytes, length: int) -> int:
    """17 to 64 bytes: two rounds where there are more than 32, else one."""
    multiplier = _K2 + 2 * length
    wide = length > 32
    a, b = _fetch(data, 0) * (_K2 if wide else _K1) & _MASK, _fetch(data, 8)
    c, d = _fetch(data, length - 8) * multiplier & _MASK, _fetch(data, length - 16) * _K2 & _MASK
    y = _rotate(a + b, 43) + _rotate(c, 30) + d & _MASK
    z = _joined(y, a + _rotate(b + _K2, 18) + c & _MASK, multiplier)
    if not wide:
        return z
    e, f = _fetch(data, 16) * multiplier & _MASK, _fetch(data, 24)
    g = (y + _fetch(data, length - 32)) * multiplier & _MASK
    h = (z + _fetch(data, length - 24)) * multiplier & _MASK
    first = _rotate(e + f, 43) + _rotate(g, 30) + h & _MASK
    return _joined(first, e + _rotate(f + a, 18) + g & _MASK, multiplier)


def _weak(data: bytes, at: int, a: int, b: int) -> Pair:
    """32 bytes taken up into two numbers."""
    w, x, y, z = (_fetch(data, at + step) for step in (0, 8, 16, 24))
    a = a + w & _MASK
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y & _MASK
    b = b + _rotate(a, 44) & _MASK
    return a + z & _MASK, b + c & _MASK


def _round(
    data: bytes, at: int, state: tuple[int, int, int, Pair, Pair], multiplier: int, factor: int
) -> tuple[int, int, int, Pair, Pair]:
    """64 bytes taken up; in the last round `factor` is 9, else 1."""
    x, y, z, v, w = state
    x = _rotate(x + y + v[0] + _fetch(data, at + 8), 37) * multiplier & _MASK
    y = _rotate(y + v[1] + _fetch(data, at + 48), 42) * multiplier & _MASK
    x ^= w[1] * factor & _MASK
    y = y + v[0] * factor + _fetch(data, at + 40) & _MASK
    z = _rotate(z + w[0], 33) * multiplier & _MASK
    v = _weak(data, at, v[1] * multiplier, x + w[0])
    w = _weak(data, at + 32, z + w[1], y + _fetch(data, at + 16))
    return z, y, x, v, w


def _long(data: bytes, length: int) -> int:
    seed = 81
    y = seed * _K1 + 113 & _MASK
    z = _mixed(y * _K2 + 113) * _K2 & _MASK
    state = seed * _K2 + _fetch(data, 0) & _MASK, y, z, (0, 0), (0, 0)
    end = (length - 1) // 64 * 64
    for at in range(0, end, 64):
        state = _round(data, at, state, _K1, 1)
    x, y, z, v, w = state
    multiplier = _K1 + ((z & 0xFF) << 1)
    w = w[0] + (length - 1 & 63) & _MASK, w[1]
    v = v[0] + w[0] & _MASK, v[1]
    w = w[0] + v[0] & _MASK, w[1]
    x, y, z, v, w = _round(data, length - 64, (x, y, z, v, w), multiplier, 9)
    first = _joined(v[0], w[0], multiplier) + _mixed(y) * _K0 + z & _MASK
    return _joined(first, _joined(v[1], w[1], multiplier) + x & _MASK, multiplier)
