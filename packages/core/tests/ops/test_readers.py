"""Readers of record files, fed by queues."""

from __future__ import annotations

import gzip
import struct
import threading
import zlib

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataLossError, DeadlineExceededError, EndOfDataError, InvalidArgumentError, NotFoundError
from headrace.kernels import record_files
from headrace.kernels.record_files import crc32c, masked


def framed(*records: bytes) -> bytes:
    parts = []
    for record in records:
        head = struct.pack("<Q", len(record))
        parts += [head, struct.pack("<I", masked(head)), record, struct.pack("<I", masked(record))]
    return b"".join(parts)


class Reading:
    """A graph that reads files with one reader."""

    def __init__(self, make, *paths):
        self.graph = hr.Graph()
        with self.graph.as_default():
            self.names = hr.FIFOQueue(10, hr.string, shapes=[[]])
            self.reader = make()
            self.next = self.reader.read(self.names)
            self.count = hr.placeholder(hr.int64, [])
            self.several = self.reader.read_up_to(self.names, self.count)
            self.counts = [self.reader.records_produced(), self.reader.files_completed()]
            self.fill = self.names.enqueue_many([str(path) for path in paths]) if paths else None
            self.close = self.names.close()
            self.reset = self.reader.reset()
        self.session = hr.Session(self.graph)
        if self.fill is not None:
            self.session.run(self.fill)
        self.session.run(self.close)

    def all(self):
        found = []
        while True:
            try:
                key, value = self.session.run(self.next)
            except EndOfDataError:
                return found
            found.append((key.item().decode(), value.item()))


def test_a43_lines_of_several_files(tmp_path):
    first, second, empty = (tmp_path / name for name in ("a", "b", "c"))
    first.write_bytes(b"head\none\r\ntwo")
    second.write_bytes(b"head\n\nlast\n")
    empty.write_bytes(b"")
    reading = Reading(lambda: hr.files.text_line_reader(skip_header_lines=1), first, empty, second)
    assert reading.all() == [
        (f"{first}:2", b"one"), (f"{first}:3", b"two"), (f"{second}:2", b""), (f"{second}:3", b"last"),
    ]  # fmt: skip
    assert [int(count) for count in reading.session.run(reading.counts)] == [4, 3]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_framed_records(tmp_path, compression):
    path = tmp_path / "records"
    data = framed(b"one", b"", bytes(1000))
    path.write_bytes({"": data, "GZIP": gzip.compress(data), "ZLIB": zlib.compress(data)}[compression])
    reading = Reading(lambda: hr.files.record_reader(compression=compression), path)
    assert reading.all() == [(f"{path}:0", b"one"), (f"{path}:19", b""), (f"{path}:35", bytes(1000))]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: data[:5], "frame of a record is cut off"),
        (lambda data: data[:14], "a record is cut off"),
        (lambda data: b"\x05" + data[1:], "checksum of a length"),
        (lambda data: data[:13] + b"X" + data[14:], "checksum of a record"),
    ],
)
def test_damaged_records_are_named_with_their_place(tmp_path, damage, text):
    path = tmp_path / "records"
    path.write_bytes(damage(framed(b"abcd")))
    with pytest.raises(DataLossError, match=text):
        Reading(hr.files.record_reader, path).all()


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_file_without_the_compression_is_named(tmp_path, compression):
    path = tmp_path / "records"
    path.write_bytes(framed(b"abcd"))
    with pytest.raises(DataLossError, match="damaged"):
        Reading(lambda: hr.files.record_reader(compression=compression), path).all()


@pytest.mark.parametrize("compression", ["", "ZLIB"])
def test_records_of_one_length(tmp_path, compression):
    path = tmp_path / "x"
    data = b"HH" + b"aaabbbccc" + b"F"
    path.write_bytes(zlib.compress(data) if compression else data)
    options = {"header_bytes": 2, "footer_bytes": 1, "compression": compression}
    plain = Reading(lambda: hr.files.fixed_length_reader(3, **options), path)
    assert plain.all() == [(f"{path}:0", b"aaa"), (f"{path}:1", b"bbb"), (f"{path}:2", b"ccc")]
    hopping = Reading(lambda: hr.files.fixed_length_reader(4, **options, hop_bytes=2), path)
    assert [value for _, value in hopping.all()] == [b"aaab", b"abbb", b"bbcc"]


def test_whole_files_and_names(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\x00\xff")
    assert Reading(hr.files.whole_file_reader, path).all() == [(str(path), b"\x00\xff")]
    assert Reading(lambda: hr.files.Reader("IdentityReaderV2"), path).all() == [(str(path), str(path).encode())]


def test_several_records_at_once_are_those_of_one_file(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1\n2\n3\n")
    second.write_text("4\n")
    reading = Reading(hr.files.text_line_reader, first, second)

    def take(count):
        keys, values = reading.session.run(reading.several, feeds={reading.count: count})
        assert len(keys) == len(values)
        return values.tolist()

    assert [take(2), take(9), take(9)] == [[b"1", b"2"], [b"3"], [b"4"]]
    with pytest.raises(EndOfDataError, match="closed"):
        take(1)
    with pytest.raises(InvalidArgumentError, match="num_records is too small"):
        take(0)


def test_a_reset_reader_starts_anew(tmp_path):
    path = tmp_path / "x"
    path.write_text("1\n2\n")
    reading = Reading(hr.files.text_line_reader, path, path)
    reading.session.run(reading.next)
    reading.session.run(reading.reset)
    assert [int(count) for count in reading.session.run(reading.counts)] == [0, 0]
    assert [value for _, value in reading.all()] == [b"1", b"2"]


def test_a_missing_file_is_named_and_the_next_one_is_read(tmp_path):
    path = tmp_path / "x"
    path.write_text("1\n")
    reading = Reading(hr.files.text_line_reader, tmp_path / "missing", path)
    with pytest.raises(NotFoundError, match="missing' cannot be opened"):
        reading.session.run(reading.next)
    assert [value for _, value in reading.all()] == [b"1"]


def test_many_threads_share_a_reader(tmp_path):
    path = tmp_path / "x"
    path.write_text("".join(f"{number}\n" for number in range(400)))
    reading = Reading(hr.files.text_line_reader, path)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.extend(value for _, value in reading.all())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, found)) == list(range(400))


def test_waiting_for_a_name_ends_with_the_time_of_the_step():
    with hr.Graph().as_default() as graph:
        names = hr.FIFOQueue(1, hr.string, shapes=[[]])
        record = hr.files.text_line_reader().read(names)
    with hr.Session(graph) as session, pytest.raises(DeadlineExceededError, match="did not end in time"):
        session.run(record, timeout=0.05)


def test_a_queue_of_something_else_is_refused():
    with hr.Graph().as_default() as graph:
        numbers = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        record = hr.files.text_line_reader().read(numbers)
    with hr.Session(graph) as session, pytest.raises(InvalidArgumentError, match="does not hold names of files"):
        session.run(record)


def test_a_negative_header_is_refused():
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match="header_bytes is negative"):
        hr.files.fixed_length_reader(3, header_bytes=-1)


def test_checksums_are_the_published_ones():
    assert crc32c(b"123456789") == record_files._crc32c_in_python(b"123456789") == 0xE3069283
    data = np.random.default_rng(0).bytes(1000)
    assert record_files._crc32c_in_python(data) == crc32c(data)
