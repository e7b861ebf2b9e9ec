"""Compressed shards: a safetensors file as zstd frames of which each can be read alone.

The file is a plain `.zst` file, so `zstd -d` gives the safetensors file. Each frame holds 4 MiB of it, with a checksum,
and the manifest says where each ends: to read a tensor, only the frames that have a part of it are fetched.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DataLossError, InvalidArgumentError, NotFoundError
from headrace_checkpoint.durable import Bytes
from headrace_checkpoint.safetensors import Fetch
from headrace_checkpoint.threads import in_threads

__all__ = ["BLOCK", "Compression", "check_compression", "compress", "decompressing"]

BLOCK = 4 << 20
"""Bytes of a frame's content: large enough that compression does not suffer, small enough to keep some in memory."""

MAX_BLOCK = 64 << 20
"""What a manifest may ask a reader to hold for one frame, in bytes."""

_LEVEL = 3
_KEPT = 4
"""Frames that a reader keeps, since small tensors share one."""


@dataclass(frozen=True, slots=True)
class Compression:
    """How a shard is compressed.

    Attributes:
      size: bytes of its content.
      block: bytes of the content of each frame but the last.
      ends: where each frame ends in the file.
    """

    size: int
    block: int
    ends: tuple[int, ...]

    def problem(self) -> str | None:
        """What is wrong with it, in words, or None."""
        if not 1 <= self.block <= MAX_BLOCK:
            return f"frames of {self.block} bytes, where 1 to {MAX_BLOCK} are allowed"
        if len(self.ends) != math.ceil(self.size / self.block):
            return f"{len(self.ends)} frames of {self.block} bytes for {self.size} bytes"
        if any(end <= begin for begin, end in zip((0, *self.ends), self.ends, strict=False)):
            return "frames that end before they begin"
        return None


def check_compression(name: str | None) -> None:
    """Refuse a compression that there is not.

    Raises:
      InvalidArgumentError: the name is unknown.
      NotFoundError: the package for it is not installed.
    """
    if name not in (None, "zstd"):
        raise InvalidArgumentError(
            "there is no such compression", expected="'zstd' or None", got=repr(name), hint="compression='zstd'"
        )
    if name is not None:
        _library()


def _library() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError as error:
        raise NotFoundError(
            "there is no package for compressed checkpoints",
            expected="zstandard",
            got=str(error),
            hint="pip install 'headrace-checkpoint[zstd]'",
        ) from None


def compress(chunks: Iterable[Bytes]) -> tuple[list[Bytes], Compression]:
    """Compress a file, several frames at a time.

    Holds the compressed file, and for each thread a frame's content.

    Args:
      chunks: the file.
    Raises:
      NotFoundError: the package for it is not installed.
    """
    library = _library()

    def frame(parts: Sequence[memoryview]) -> bytes:
        compressor = library.ZstdCompressor(level=_LEVEL, write_checksum=True)
        compressed: bytes = compressor.compress(parts[0] if len(parts) == 1 else b"".join(parts))
        return bytes(memoryview(compressed))  # a copy: the library's own bytes keep room for the worst case

    blocks = list(_blocks(chunks))
    size = sum(part.nbytes for parts in blocks for part in parts)
    frames = in_threads(frame, blocks)
    ends = np.cumsum([len(item) for item in frames]).tolist()
    return list(frames), Compression(size, BLOCK, tuple(ends))


def _blocks(chunks: Iterable[Bytes]) -> Iterator[list[memoryview]]:
    """The content of each frame, as parts that still share memory with the file."""
    parts: list[memoryview] = []
    room = BLOCK
    for chunk in chunks:
        rest = memoryview(chunk).cast("B")
        while rest:
            parts.append(rest[:room])
            rest = rest[room:]
            room -= parts[-1].nbytes
            if room == 0:
                yield parts
                parts, room = [], BLOCK
    if parts:
        yield parts


def decompressing(path: str, size: int, fetch: Fetch, compression: Compression) -> Fetch:
    """A function that gives bytes of a compressed file's content.

    Args:
      path: the file, for errors.
      size: its length in bytes.
      fetch: gives bytes of the file.
      compression: how it is compressed.
    Raises:
      NotFoundError: the package for it is not installed.
      DataLossError: the file is not as long as it should be.
    """
    library = _library()
    ends = compression.ends
    if size != (ends[-1] if ends else 0):
        raise _damaged(path, f"{ends[-1] if ends else 0} bytes", f"{size} bytes")

    @functools.lru_cache(maxsize=_KEPT)
    def block(number: int) -> bytes:
        begin = ends[number - 1] if number else 0
        frame = fetch(begin, ends[number]).tobytes()
        expected = min(compression.block, compression.size - number * compression.block)
        try:
            if library.frame_content_size(frame) != expected:  # looked at before memory is taken for it
                raise _damaged(path, f"a frame of {expected} bytes at byte {begin}", "another")
            content: bytes = library.ZstdDecompressor().decompress(frame, allow_extra_data=False)
        except library.ZstdError as error:
            raise _damaged(path, f"a whole frame at byte {begin}", str(error)) from None
        return content

    def read(begin: int, end: int) -> NDArray[np.uint8]:
        result = np.empty(end - begin, np.uint8)
        at = begin
        while at < end:
            number, offset = divmod(at, compression.block)
            part = np.frombuffer(block(number), np.uint8)[offset : offset + end - at]
            result[at - begin : at - begin + part.size] = part
            at += part.size
        result.flags.writeable = False
        return result

    return read


def _damaged(path: str, expected: str, got: str) -> DataLossError:
    return DataLossError(
        "a compressed shard of the checkpoint is damaged",
        where=path,
        expected=expected,
        got=got,
        hint="copy it again, or restore an earlier checkpoint",
    )
