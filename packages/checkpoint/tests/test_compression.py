"""Compressed shards: smaller files, the same tensors, damage found, memory bounded."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import DataLossError, InvalidArgumentError, NotFoundError
from headrace_checkpoint import compression as module
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.compression import BLOCK, Compression, compress, decompressing
from headrace_checkpoint.manifest import MANIFEST, Manifest
from headrace_checkpoint.safetensors import load_safetensors
from headrace_checkpoint.saver import CheckpointManager, Saver
from headrace_checkpoint.store import StoredStep, write_step

ARRAYS = {
    "layer/w": np.arange(60_000, dtype=np.float32).reshape(200, 300),
    "s": np.array([b"a", b""], object),
    "c": np.array(1 + 2j),
    "empty": np.zeros((0, 3), np.int8),
}
SHARD = "shard-00000-of-00001.safetensors.zst"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 1000)


def same(found: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> bool:
    return found.keys() == arrays.keys() and all(
        found[name].dtype == array.dtype and found[name].tolist() == array.tolist() for name, array in arrays.items()
    )


def test_a_compressed_step_is_smaller_and_the_same(tmp_path: Path) -> None:
    path = Path(write_step(tmp_path, 1, ARRAYS, time=0.0, compression="zstd"))
    assert sorted(file.name for file in path.iterdir()) == [MANIFEST, SHARD]
    assert (path / SHARD).stat().st_size < 0.7 * ARRAYS["layer/w"].nbytes
    step = StoredStep(path)
    assert same(step.read_all(), ARRAYS)
    assert not step.read("layer/w").flags.writeable
    assert step.read("layer/w", Box((7, 3), (2, 2))).tolist() == ARRAYS["layer/w"][7:9, 3:5].tolist()


def test_another_program_decompresses_it_to_a_safetensors_file(tmp_path: Path) -> None:
    path = Path(write_step(tmp_path, 1, ARRAYS, time=0.0, compression="zstd"))
    with (path / SHARD).open("rb") as packed, (tmp_path / "f.safetensors").open("wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(packed, plain)
    assert same(load_safetensors(tmp_path / "f.safetensors"), ARRAYS)


def test_only_compressed_steps_ask_for_a_later_reader(tmp_path: Path) -> None:
    for number, compression in enumerate((None, "zstd")):
        path = Path(write_step(tmp_path, number, ARRAYS, time=0.0, compression=compression))
        text = (path / MANIFEST).read_text()
        assert (f'"min_reader": {3 if compression else 1}' in text, '"zstd"' in text) == (True, compression is not None)


def test_saver_and_manager_compress_shards_side_by_side(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        variables = [hr.Variable(np.full(10_000, number, np.float32), name=f"v{number}") for number in range(4)]
    with hr.Session(graph) as session:
        saver = Saver(compression="zstd", shard_bytes=50_000)
        path = Path(saver.save(session, tmp_path / "a", step=1))
        assert [file.suffix for file in sorted(path.iterdir())][1:] == [".zst"] * 4
        assert sum(file.stat().st_size for file in path.iterdir()) < 10_000
        session.write_variables({"v2": np.zeros(10_000, np.float32)})
        assert saver.restore(session, tmp_path / "a").is_complete
        assert session.run(variables[2])[-1] == 2
        with CheckpointManager(tmp_path / "b", compression="zstd", asynchronous=True) as manager:
            manager.save(session, 1)
            assert manager.restore(session).is_complete


@pytest.mark.usefixtures("small_blocks")
def test_every_flipped_byte_and_every_truncation_of_a_compressed_shard_is_detected(tmp_path: Path) -> None:
    arrays = {"w": np.arange(300, dtype=np.int16), "v": np.ones(40)}
    path = Path(write_step(tmp_path, 1, arrays, time=0.0, compression="zstd"))
    good = (path / SHARD).read_bytes()
    for index in range(len(good)):
        cut = [good[:index]] if index % 7 == 0 else []  # any shorter file is refused by its length
        for damaged in (good[:index] + bytes([good[index] ^ 1]) + good[index + 1 :], *cut):
            (path / SHARD).write_bytes(damaged)
            try:
                found = StoredStep(path).read_all()
            except DataLossError:
                continue
            assert same(found, arrays), index  # a bit of a frame's header that says nothing of the content
            assert len(damaged) == len(good)


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 4000), max_size=5), data=st.data())
def test_any_part_of_any_file(sizes: list[int], data: st.DataObject) -> None:
    rng = np.random.default_rng(len(sizes))
    chunks = [rng.integers(0, 4, size, np.uint8).tobytes() for size in sizes]
    content = b"".join(chunks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", 1000)
        frames, how = compress(chunks)
    packed = np.frombuffer(b"".join(bytes(frame) for frame in frames), np.uint8)
    assert how.problem() is None
    read = decompressing("f", packed.size, lambda begin, end: packed[begin:end], how)
    begin = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(begin, len(content)))
    assert read(begin, end).tobytes() == content[begin:end]


def test_only_frames_with_a_part_of_what_is_read_are_fetched(small_blocks: None) -> None:
    frames, how = compress([bytes(10_000)])
    packed = np.frombuffer(b"".join(bytes(frame) for frame in frames), np.uint8)
    fetched: list[int] = []

    def fetch(begin: int, end: int) -> np.ndarray:
        fetched.append(how.ends.index(end))
        return packed[begin:end]

    read = decompressing("f", packed.size, fetch, how)
    read(2500, 4001)
    read(3000, 3500)  # kept from before
    assert fetched == [2, 3, 4]


def test_a_hostile_frame_is_refused_before_memory_is_taken() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(200 << 20))
    packed = np.frombuffer(bomb, np.uint8)
    how = Compression(1000, 1000, (packed.size,))
    read = decompressing("f", packed.size, lambda begin, end: packed[begin:end], how)
    tracemalloc.start()
    with pytest.raises(DataLossError, match=r"compressed shard of the checkpoint is damaged[^$]*frame of 1000 bytes"):
        read(0, 10)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        (Compression(10, 0, ()), "frames of 0 bytes"),
        (Compression(10, 1 << 40, (5,)), "are allowed"),
        (Compression(10, 3, (1, 2, 3)), "3 frames of 3 bytes for 10 bytes"),
        (Compression(10, 5, (7, 7)), "end before they begin"),
    ],
)
def test_wrong_descriptions_are_refused(tmp_path: Path, how: Compression, problem: str) -> None:
    path = Path(write_step(tmp_path, 1, ARRAYS, time=0.0, compression="zstd"))
    manifest = Manifest.decode((path / MANIFEST).read_bytes(), "m")
    files = {name: dataclasses.replace(file, compression=how) for name, file in manifest.files.items()}
    (path / MANIFEST).write_bytes(dataclasses.replace(manifest, files=files).encode())
    with pytest.raises(DataLossError, match=problem):
        StoredStep(path)


def test_the_file_of_another_length_is_refused(tmp_path: Path) -> None:
    path = Path(write_step(tmp_path, 1, ARRAYS, time=0.0, compression="zstd"))
    with (path / SHARD).open("ab") as file:
        file.write(b"x")
    with pytest.raises(DataLossError, match="compressed shard of the checkpoint is damaged"):
        StoredStep(path)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no such compression[^$]*'zstd' or None[^$]*'gzip'"):
        Saver(compression="gzip")


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(NotFoundError, match=r"no package for compressed checkpoints[^$]*headrace-checkpoint\[zstd\]"):
        Saver(compression="zstd")


def test_the_package_is_not_imported_unless_it_is_asked_for() -> None:
    program = "import sys, headrace_checkpoint; sys.exit('zstandard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_compressing_holds_little_beside_the_result() -> None:
    content = np.zeros(16 * BLOCK, np.uint8)
    tracemalloc.start()
    frames, _ = compress([content.data])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(len(frame) for frame in frames) < 1 << 20
    assert peak < 16 * BLOCK // 4
