"""Files of named arrays in the safetensors format, which many tools read, with a checksum for each array.

A file is: 8 bytes, the header's length N, little-endian; N bytes of JSON; then the arrays' bytes, one array after
another with neither gap nor overlap, little-endian and in C order. The header maps each name to its dtype, shape and
`[begin, end)` within the arrays' bytes; the entry `__metadata__` maps strings to strings.

What we add stays inside the format, so any reader still reads the file:

- the header is padded with spaces so that the arrays' bytes begin at a multiple of 64, and arrays are sorted by
  falling item size, so each is aligned to its items and a mapped file needs no copy;
- `__metadata__["headrace.crc32c"]` is a JSON object of each array's CRC-32C as 8 hexadecimal digits;
- `__metadata__["headrace.blocks"]` is a JSON object: `"bytes"`, the size of a block (1 MiB), and `"crc32c"`, for each
  array of more than one block the CRC-32C of each of its blocks, in order, as 8 hexadecimal digits after another;
- `__metadata__["headrace.dtypes"]` is a JSON object of the arrays whose dtype the format lacks, each
  `{"dtype": ..., "shape": [...]}`: `complex128` is stored as F64 with a last axis of 2 (real, imaginary), `string` as
  U8: all lengths as little-endian uint64, then all bytes.

A file that breaks any rule is refused before anything is allocated for it. The rules of the header are in
`safetensors_header`; here are the bytes of the arrays, and the checksums over them.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import DataLossError, DTypeError, InvalidArgumentError, NotFoundError, known_names
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.checksum import BLOCK, crc32c, crc32c_of_blocks
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import DISK, Bytes, Disk, replace_file
from headrace_checkpoint.safetensors_header import (
    DTYPES,
    NAMES,
    RANKS,
    Blocks,
    StoredArray,
    check_metadata,
    check_name,
    encode_header,
    parse_header,
    read_header_length,
    refuse,
)
from headrace_checkpoint.threads import in_threads

__all__ = [
    "EncodedArrays",
    "Fetch",
    "SafetensorsFile",
    "load_safetensors",
    "mapped",
    "save_safetensors",
]


@dataclass(frozen=True, slots=True)
class EncodedArrays:
    """A safetensors file as chunks of bytes that still share memory with the arrays.

    Attributes:
      chunks: the whole file, in order.
      size: its length in bytes.
      header_crc32c: the checksum of the 8 length bytes and the header.
      crc32c: each array's checksum.
    """

    chunks: list[Bytes]
    size: int
    header_crc32c: int
    crc32c: dict[str, int]

    @classmethod
    def of(cls, arrays: Mapping[str, ArrayLike], metadata: Mapping[str, str] | None = None) -> EncodedArrays:
        """Lay out a file.

        Args:
          arrays: name to array, of any shape and memory layout; strings are object arrays of `bytes`.
          metadata: free text to keep in the header; keys that begin with `headrace.` are ours.

        Raises:
          DTypeError: an array's dtype has no form in the format.
          InvalidArgumentError: a name or a metadata item that the format cannot hold.
        """
        check_metadata(metadata or {})
        payloads = sorted(
            (_Payload.of(name, np.asarray(array)) for name, array in arrays.items()),
            key=lambda payload: (-RANKS[payload.dtype], payload.name),
        )
        found = in_threads(lambda payload: crc32c_of_blocks(payload.data, BLOCK), payloads)
        entries, end = [], 0
        for payload, (crc, each) in zip(payloads, found, strict=True):
            begin, end = end, end + payload.data.nbytes
            blocks = Blocks(BLOCK, each) if len(each) > 1 else None
            entries.append(
                StoredArray(payload.name, payload.dtype, payload.shape, begin, end, crc, payload.extended, blocks)
            )
        header = encode_header(entries, metadata or {})
        return cls(
            chunks=[header, *(payload.data for payload in payloads)],
            size=len(header) + end,
            header_crc32c=crc32c(header),
            crc32c={payload.name: crc for payload, (crc, _) in zip(payloads, found, strict=True)},
        )


def save_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, ArrayLike],
    metadata: Mapping[str, str] | None = None,
    *,
    disk: Disk = DISK,
) -> None:
    """Write arrays to a safetensors file: the whole of it, or, after a crash or an error, nothing of it.

    Args:
      path: the file; an existing one is replaced in one step.
      arrays: name to array; strings are object arrays of `bytes`.
      metadata: free text kept in the file's header.
      disk: whose system calls to use.

    Raises:
      DTypeError: an array's dtype has no form in the format.
      InvalidArgumentError: a name or a metadata item that the format cannot hold.
      OSError: the disk refused.

    Example:
      >>> import numpy as np, tempfile, pathlib
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
      >>> save_safetensors(path, {"w": np.eye(2, dtype=np.float32)})
      >>> load_safetensors(path)["w"]
      array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    replace_file(Path(path), EncodedArrays.of(arrays, metadata).chunks, disk)


def load_safetensors(path: str | os.PathLike[str], *, verify: bool = True) -> dict[str, Array]:
    """Read every array of a safetensors file as a read-only view of the mapped file.

    Args:
      path: the file.
      verify: check each array against its checksum, where the file has one.

    Raises:
      NotFoundError: there is no such file.
      DataLossError: the file breaks a rule of the format, or a checksum does not match.
      DTypeError: it holds elements that NumPy has no dtype for.
    """
    with SafetensorsFile(path) as file:
        return dict(zip(file, in_threads(lambda name: file.read(name, verify=verify), file), strict=True))


_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)

Fetch = Callable[[int, int], NDArray[np.uint8]]
"""Gives the bytes of a file from one place to another."""


class SafetensorsFile:
    """One open safetensors file: its directory is read and checked at once, arrays when they are asked for.

    Arrays share the mapped file's memory, are read-only, and stay valid after `close`. The file must not be truncated
    by others meanwhile; our own writers never do that, they replace files whole.

    Args:
      path: the file.
      size: its length in bytes, where it is not a local file.
      fetch: gives the bytes from one place of the file to another, where it is not a local file.

    Raises:
      NotFoundError: there is no such file.
      DataLossError: the file breaks a rule of the format.
    """

    def __init__(self, path: str | os.PathLike[str], *, size: int | None = None, fetch: Fetch | None = None) -> None:
        self.path = os.fspath(path)
        if fetch is None or size is None:
            size, fetch = mapped(self.path)
        self.size, self._fetch = size, fetch
        self._data_start = 8 + read_header_length(self.path, fetch(0, min(8, size)).tobytes(), size)
        header = fetch(0, self._data_start)
        self.header_crc32c = crc32c(header)
        self.entries, self.metadata = parse_header(self.path, header[8:].tobytes(), size - self._data_start)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; arrays already read keep the memory they need."""
        # A map with views on it cannot be closed; it goes when the last view goes.
        del self._fetch

    def read(self, name: str, box: Box | None = None, *, verify: bool = True) -> Array:
        """Return one array or a part of it as a read-only view; strings are decoded into a new object array.

        What is fetched is the part, and, to verify it, the rest of the blocks in which it lies; where the file has no
        checksums of blocks, all of the array. A part that is scattered over the array becomes a new array.

        Args:
          name: the array's name.
          box: which part; None: all of it.
          verify: check it against its checksums, where the file has any.

        Raises:
          NotFoundError: there is no such array in the file.
          InvalidArgumentError: the box is not within the array.
          DataLossError: a checksum does not match, or the bytes are no value of their dtype.
          DTypeError: NumPy has no dtype for the elements.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise NotFoundError(
                f"there is no array {name!r}",
                where=self.path,
                expected=known_names(name, self.entries),
                got=repr(name),
                hint="iterate over the file for the names",
            )
        wanted = Box.whole(entry.value_shape) if box is None else box
        if not wanted.lies_in(entry.value_shape):
            raise InvalidArgumentError(
                f"there is no such part of array {name!r}",
                where=self.path,
                expected=f"a box within {list(entry.value_shape)}",
                got=str(wanted),
                hint="the part's offset and shape have one number for each axis",
            )
        dtype = DTYPES[entry.dtype][1]
        if dtype is None:
            raise DTypeError(
                f"array {name!r} has elements that NumPy cannot hold",
                where=self.path,
                expected="elements of whole bytes",
                got=entry.dtype,
                hint="unpack them with the program that wrote them",
            )
        if entry.value_dtype == "string":
            _, raw = self._fetch_verified(entry, 0, entry.end - entry.begin, verify)
            place: tuple[Any, ...] = (*wanted.within(Box.whole(entry.value_shape)), ...)  # a scalar stays an array
            strings: Array = _decode_strings(self.path, entry, raw)[place]
            return strings
        return self._read_box(entry, np.dtype("<c16") if entry.value_dtype == "complex128" else dtype, wanted, verify)

    def _read_box(self, entry: StoredArray, dtype: np.dtype[np.generic], box: Box, verify: bool) -> Array:
        if not box.num_elements:
            return np.empty(box.shape, dtype)
        size = BLOCK if entry.blocks is None else entry.blocks.size
        parts = list(box.runs(entry.value_shape, size // dtype.itemsize))
        if len(parts) == 1:
            return self._read_run(entry, dtype, box, verify)
        result = np.empty(box.shape, dtype)
        for part in parts:
            result[part.within(box)] = self._read_run(entry, dtype, part, verify)
        return result

    def _read_run(self, entry: StoredArray, dtype: np.dtype[np.generic], box: Box, verify: bool) -> Array:
        shape = entry.value_shape
        first, last = box.span(shape)
        start, raw = self._fetch_verified(entry, first * dtype.itemsize, last * dtype.itemsize, verify)
        strides = [math.prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape))]
        return np.ndarray(box.shape, dtype, raw.data, first * dtype.itemsize - start, strides)

    def _fetch_verified(self, entry: StoredArray, begin: int, end: int, verify: bool) -> tuple[int, NDArray[np.uint8]]:
        """Bytes of an array from `begin` to `end` at least; where in the array they begin, and they."""
        blocks = None if not verify or entry.crc32c is None else entry.blocks or _whole(entry, entry.crc32c)
        if blocks is not None:
            begin = begin // blocks.size * blocks.size
            end = min(-(-end // blocks.size) * blocks.size, entry.end - entry.begin)
        at = self._data_start + entry.begin
        raw = self._fetch(at + begin, at + end)
        if blocks is not None:
            self._verify(entry, blocks, begin, raw)
        if verify and entry.dtype == "BOOL" and raw.size and raw.max() > 1:
            refuse(self.path, f"0 or 1 for each element of {entry.name!r}", f"the byte {raw.max()}")
        return begin, raw

    def _verify(self, entry: StoredArray, blocks: Blocks, begin: int, raw: NDArray[np.uint8]) -> None:
        for offset in range(0, raw.size, blocks.size):
            part = raw[offset : offset + blocks.size]
            number = (begin + offset) // blocks.size
            found, expected = crc32c(part), blocks.crc32c[number]
            if found != expected:
                place = self._data_start + entry.begin + begin + offset
                which = f", in block {number + 1} of {len(blocks.crc32c)}" if len(blocks.crc32c) > 1 else ""
                raise DataLossError(
                    f"array {entry.name!r} is damaged{which}: its checksum does not match",
                    where=f"{self.path}, bytes {place} to {place + part.size}",
                    expected=f"CRC-32C {expected:08x}",
                    got=f"{found:08x}",
                    hint="restore an earlier checkpoint or copy the file again",
                )


def _whole(entry: StoredArray, crc: int) -> Blocks:
    """An array that is verified as one."""
    return Blocks(max(1, entry.end - entry.begin), (crc,))


@dataclass(frozen=True, slots=True)
class _Payload:
    """One array, ready to be written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    extended: tuple[str, tuple[int, ...]] | None = field(default=None)

    @classmethod
    def of(cls, name: str, array: NDArray[Any]) -> _Payload:
        check_name(name)
        shape = tuple(array.shape)
        if array.dtype.kind in "OSU":
            raw = np.frombuffer(_encode_strings(name, array), np.uint8)
            return cls(name, "U8", raw.shape, raw.data, ("string", shape))
        # Not `ascontiguousarray`, which would turn a scalar into an array of one element.
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        flat = plain.reshape(-1)
        if plain.dtype == np.dtype("<c16"):
            data = flat.view(np.uint8).data
            return cls(name, "F64", (*shape, 2), data, ("complex128", shape))
        stored = NAMES.get(plain.dtype)
        if stored is None:
            raise DTypeError(
                f"array {name!r} has a dtype that safetensors files cannot hold",
                expected="bool, an integer, float or complex type, or bytes",
                got=str(array.dtype),
                hint="array.view or array.astype makes one of these",
            )
        return cls(name, stored, shape, flat.view(np.uint8).data)


def _encode_strings(name: str, array: NDArray[Any]) -> bytes:
    items = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
    wrong = next((item for item in items if not isinstance(item, bytes)), None)
    if wrong is not None:
        raise DTypeError(
            f"array {name!r} of strings holds something else",
            expected="bytes",
            got=repr(wrong),
            hint="give the array a dtype other than object",
        )
    return struct.pack(f"<{len(items)}Q", *map(len, items)) + b"".join(items)


def mapped(path: str) -> tuple[int, Fetch]:
    """The size of a local file, and a function that gives views of its map.

    Raises:
      NotFoundError: there is no such file.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            size = os.fstat(file.fileno()).st_size
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError) as error:
        # A name that no file can have is one that an index or a manifest made up.
        if isinstance(error, OSError) and error.errno not in _NO_FILE:
            raise
        raise NotFoundError(
            "there is no such file", expected="a safetensors file", got=path, hint="look at the path"
        ) from None

    def fetch(begin: int, end: int) -> NDArray[np.uint8]:
        return np.frombuffer(content, np.uint8, end - begin, begin)

    return size, fetch


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe would wait for a writer, for ever perhaps."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _decode_strings(path: str, entry: StoredArray, stored: NDArray[np.uint8]) -> Array:
    raw, count = stored.tobytes(), math.prod(entry.value_shape)
    lengths = struct.unpack_from(f"<{count}Q", raw)
    if sum(lengths) != len(raw) - 8 * count:
        refuse(path, f"strings of {len(raw) - 8 * count} bytes in {entry.name!r}", f"lengths of {sum(lengths)} bytes")
    items = np.empty(count, object)
    offset = 8 * count
    for index, length in enumerate(lengths):
        items[index] = raw[offset : offset + length]
        offset += length
    return items.reshape(entry.value_shape)
