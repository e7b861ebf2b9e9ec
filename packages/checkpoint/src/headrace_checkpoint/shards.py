"""Shards: the files into which the tensors of one step are divided, each a safetensors file of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import InvalidArgumentError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.compression import Compression, check_compression, compress
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import Disk, write_file
from headrace_checkpoint.manifest import Chunk, StoredFile, StoredTensor
from headrace_checkpoint.safetensors import EncodedArrays
from headrace_checkpoint.threads import in_threads

__all__ = ["Shard", "encode_shard", "encode_shards", "split_by_size", "write_shards"]

_WRITERS = 4
"""Shards that are written at a time: the disk is the limit, not the processor."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One file, ready to be written, and what the manifest says of it.

    Attributes:
      name: the file's name.
      content: the file.
      tensors: the tensors of which it has a chunk, each with that chunk.
      compression: how the content is compressed, or None.
    """

    name: str
    content: EncodedArrays
    tensors: Mapping[str, StoredTensor]
    compression: Compression | None = None

    @property
    def file(self) -> StoredFile:
        """What the file must look like."""
        return StoredFile(self.content.size, f"{self.content.header_crc32c:08x}", self.compression)


def encode_shards(
    arrays: Mapping[str, Array], shard_bytes: int | None = None, compression: str | None = None
) -> list[Shard]:
    """Lay out the files for whole tensors.

    Args:
      arrays: name to array.
      shard_bytes: begin another file where one has grown to this size; None: one file for all.
      compression: `"zstd"`, or None.
    Raises:
      DTypeError: an array that cannot be stored.
      InvalidArgumentError: `shard_bytes` is not positive, or the compression is unknown.
      NotFoundError: the package for the compression is not installed.
    """
    groups = split_by_size({name: array.nbytes for name, array in arrays.items()}, shard_bytes)
    return [
        encode_shard({name: arrays[name] for name in group}, {}, number, len(groups), compression)
        for number, group in enumerate(groups)
    ]


def encode_shard(
    arrays: Mapping[str, Array],
    places: Mapping[str, StoredTensor],
    number: int,
    count: int,
    compression: str | None = None,
) -> Shard:
    """Lay out one file.

    Args:
      arrays: name to array: whole tensors, or chunks of larger ones.
      places: for a chunk, the whole tensor's dtype and shape, with one chunk that says which box this is.
      number: which of the files it is.
      count: how many there are.
      compression: `"zstd"`, or None.
    Raises:
      DTypeError: an array that cannot be stored.
      InvalidArgumentError: the compression is unknown.
      NotFoundError: the package for it is not installed.
    """
    check_compression(compression)
    name = f"shard-{number:05d}-of-{count:05d}.safetensors" + ("" if compression is None else ".zst")
    content = EncodedArrays.of(arrays)
    frames: Compression | None = None
    if compression is not None:
        chunks, frames = compress(content.chunks)
        content = dataclasses.replace(content, chunks=chunks, size=frames.ends[-1])
    tensors: dict[str, StoredTensor] = {}
    for tensor, array in arrays.items():
        shape = places[tensor].shape if tensor in places else array.shape
        box = places[tensor].chunks[0].box if tensor in places else Box.whole(array.shape)
        dtype = "string" if array.dtype.kind in "OSU" else array.dtype.name
        tensors[tensor] = StoredTensor(dtype, tuple(shape), (Chunk(box, name, f"{content.crc32c[tensor]:08x}"),))
    return Shard(name, content, tensors, frames)


def split_by_size(sizes: Mapping[str, int], limit: int | None) -> list[list[str]]:
    """Divide names into groups, in order: a group ends before it would exceed the limit.

    Example:
      >>> split_by_size({"a": 3, "b": 3, "c": 9, "d": 1}, 6)
      [['a', 'b'], ['c'], ['d']]
    """
    if limit is None:
        return [list(sizes)]
    if limit < 1:
        raise InvalidArgumentError(
            "shards must have room for something",
            expected="bytes of a shard >= 1, or None for one shard",
            got=str(limit),
            hint="5_000_000_000 is what others use",
        )
    groups: list[list[str]] = [[]]
    filled = 0
    for name, size in sizes.items():
        if groups[-1] and filled + size > limit:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups


def write_shards(folder: Path, shards: Sequence[Shard], disk: Disk) -> None:
    """Create the files in a folder, several at a time, and force their data to the disk.

    Raises:
      OSError: any call failed.
    """
    in_threads(lambda shard: write_file(folder / shard.name, shard.content.chunks, disk), shards, _WRITERS)
