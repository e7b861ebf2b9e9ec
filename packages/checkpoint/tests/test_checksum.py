"""CRC-32C and its masked form."""

from __future__ import annotations

import numpy as np
import pytest

from headrace_checkpoint.checksum import crc32c, crc32c_of_blocks, mask, unmask


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


@pytest.mark.parametrize("block", [1, 3, 64, 1 << 17])
def test_blocks_have_checksums_of_their_own_and_together_the_one_of_all(block: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, 3 << 17, np.uint8).data
    for size in (0, 1, 63, 64, 65, 1000) if block < 1000 else (block - 1, 3 * block, 3 * block - 5):
        whole, each = crc32c_of_blocks(data[:size], block)
        assert whole == crc32c(data[:size])
        assert list(each) == [crc32c(data[begin : min(begin + block, size)]) for begin in range(0, size, block)]


def test_mask_is_undone() -> None:
    assert [unmask(mask(crc)) for crc in (0, 1, 0xFFFFFFFF, 0x12345678)] == [0, 1, 0xFFFFFFFF, 0x12345678]
    assert mask(0) == 0xA282EAD8
