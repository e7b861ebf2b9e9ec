"""Framing: what is written is read back, and every damage is found or harmless."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DataLossError
from headrace_viz.records import frame, masked_crc32c, read_records

RECORDS = [b"first", b"", b"\x00" * 40, b"last one"]
IMAGE = b"".join(frame(data) for data in RECORDS)


def test_crc_is_castagnolis() -> None:
    crc = 0xE3069283  # the check value of CRC-32C for these nine bytes
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_layout() -> None:
    assert frame(b"abc") == (
        struct.pack("<QI", 3, masked_crc32c(struct.pack("<Q", 3))) + b"abc" + struct.pack("<I", masked_crc32c(b"abc"))
    )


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=8))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("records") / "file"
    path.write_bytes(b"".join(frame(data) for data in records))
    assert list(read_records(path)) == records


def test_truncated_anywhere_gives_exactly_the_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "file"
    ends = [sum(len(frame(data)) for data in RECORDS[:count]) for count in range(len(RECORDS) + 1)]
    for size in range(len(IMAGE) + 1):
        path.write_bytes(IMAGE[:size])
        whole = sum(end <= size for end in ends) - 1
        assert list(read_records(path, torn_tail_ok=True)) == RECORDS[:whole]
        if size in ends:
            assert list(read_records(path)) == RECORDS[:whole]
        else:
            with pytest.raises(DataLossError, match=f"ends inside a record\n.*byte {ends[whole]}\n"):
                list(read_records(path))


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for bit in range(8 * len(IMAGE)):
        damaged = bytearray(IMAGE)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DataLossError, match=r"wrong checksum of its (length|data)"):
            list(read_records(path, torn_tail_ok=True))


def test_a_length_beyond_the_file_allocates_nothing(tmp_path: Path) -> None:
    head = struct.pack("<Q", 2**63)
    path = tmp_path / "file"
    path.write_bytes(head + struct.pack("<I", masked_crc32c(head)) + b"abc")
    with pytest.raises(DataLossError, match="ends inside a record"):
        list(read_records(path))


def test_stock_tensorboard_reads_the_frames(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    path = tmp_path / "events.out.tfevents.1.host.1.0"
    path.write_bytes(IMAGE)
    assert list(loader.RawEventFileLoader(str(path)).Load()) == RECORDS


def test_lenient_reading_passes_over_damaged_data_and_stops_at_damaged_lengths(tmp_path: Path) -> None:
    path = tmp_path / "file"
    starts = [sum(len(frame(data)) for data in RECORDS[:count]) for count in range(len(RECORDS))]
    for number, start in enumerate(starts):
        for place, rest in ((start, []), (start + 12, RECORDS[number + 1 :])):  # its length, its data or their checksum
            damaged = bytearray(IMAGE)
            damaged[place] ^= 1
            path.write_bytes(damaged)
            told: list[DataLossError] = []
            assert list(read_records(path, on_damage=told.append)) == RECORDS[:number] + rest
            assert [error.where for error in told] == [f"{path}, record at byte {start}"]
