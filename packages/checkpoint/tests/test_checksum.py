"""CRC-32C and its masked form."""

from __future__ import annotations

import numpy as np

from headrace_checkpoint.checksum import crc32c, mask, unmask


def test_known_values() -> None:
    # RFC 3720, B.4.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


def test_every_kind_of_buffer_gives_the_same() -> None:
    data = bytes(range(256))
    expected = crc32c(data)
    assert crc32c(bytearray(data)) == expected
    assert crc32c(memoryview(bytearray(data))) == expected
    assert crc32c(np.frombuffer(data, np.uint8)) == expected
    assert crc32c(np.frombuffer(data, np.float32)) == expected
    assert crc32c(data[100:], crc32c(data[:100])) == expected


def test_mask_is_undone() -> None:
    assert [unmask(mask(crc)) for crc in (0, 1, 0xFFFFFFFF, 0x12345678)] == [0, 1, 0xFFFFFFFF, 0x12345678]
    assert mask(0) == 0xA282EAD8
