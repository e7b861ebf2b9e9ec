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

A file that breaks any rule is refused before anything is allocated for it. Reader and writer stand together here, since
each rule of the format has a half in both.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import DataLossError, DTypeError, InvalidArgumentError, NotFoundError, known_names
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.checksum import BLOCK, crc32c, crc32c_of_blocks, in_threads
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import DISK, Bytes, Disk, replace_file

__all__ = [
    "Blocks",
    "EncodedArrays",
    "Fetch",
    "SafetensorsFile",
    "StoredArray",
    "load_safetensors",
    "mapped",
    "save_safetensors",
]

MAX_HEADER_BYTES = 100_000_000
ALIGNMENT = 64  # bytes: a cache line, and what vector loads and direct I/O want

_MAX_RANK = 64  # NumPy's own limit; also keeps a hostile shape from costing more than its text
_MAX_BYTES = 2**63 - 1
_CRC_KEY = "headrace.crc32c"
_BLOCKS_KEY = "headrace.blocks"
_DTYPES_KEY = "headrace.dtypes"
_HEX = frozenset("0123456789abcdef")


def _little(dtype: object) -> np.dtype[np.generic]:
    return np.dtype(dtype)  # type: ignore[call-overload, no-any-return]  # any dtype-like


# Name in the file -> (bits of one element, NumPy dtype, or None where NumPy has no such elements), lowest rank first:
# writers sort by falling rank, so that each array is aligned to its items.
_DTYPES: dict[str, tuple[int, np.dtype[np.generic] | None]] = {
    "BOOL": (8, _little(np.bool_)),
    "F4": (4, None),
    "F6_E2M3": (6, None),
    "F6_E3M2": (6, None),
    "U8": (8, _little(np.uint8)),
    "I8": (8, _little(np.int8)),
    "F8_E5M2": (8, _little(ml_dtypes.float8_e5m2)),
    "F8_E4M3": (8, _little(ml_dtypes.float8_e4m3fn)),
    "F8_E8M0": (8, _little(ml_dtypes.float8_e8m0fnu)),
    "F8_E4M3FNUZ": (8, _little(ml_dtypes.float8_e4m3fnuz)),
    "F8_E5M2FNUZ": (8, _little(ml_dtypes.float8_e5m2fnuz)),
    "I16": (16, _little("<i2")),
    "U16": (16, _little("<u2")),
    "F16": (16, _little("<f2")),
    "BF16": (16, _little(ml_dtypes.bfloat16)),
    "I32": (32, _little("<i4")),
    "U32": (32, _little("<u4")),
    "F32": (32, _little("<f4")),
    "C64": (64, _little("<c8")),
    "F64": (64, _little("<f8")),
    "I64": (64, _little("<i8")),
    "U64": (64, _little("<u8")),
}
_RANKS = {name: rank for rank, name in enumerate(_DTYPES)}
_NAMES = {dtype: name for name, (_, dtype) in _DTYPES.items() if dtype is not None}


@dataclass(frozen=True, slots=True)
class Blocks:
    """The checksums of the parts of one array.

    Attributes:
      size: bytes of each block but the last.
      crc32c: of each.
    """

    size: int
    crc32c: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredArray:
    """What a file says of one array.

    Attributes:
      name: the array's name.
      dtype: the format's own name of the stored elements, such as `"F32"`.
      shape: the stored shape.
      begin: where its bytes begin, counted from the start of the arrays' bytes.
      end: where they end.
      crc32c: the checksum of its bytes, or None where the file has none.
      extended: `(dtype, shape)` of the value, where the format lacks its dtype (`"complex128"`, `"string"`).
      blocks: where the file has checksums of its parts too.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    crc32c: int | None = None
    extended: tuple[str, tuple[int, ...]] | None = None
    blocks: Blocks | None = None

    @property
    def value_dtype(self) -> str:
        """The name of the value's dtype as NumPy and Headrace spell it, or the format's own where neither has it."""
        if self.extended is not None:
            return self.extended[0]
        dtype = _DTYPES[self.dtype][1]
        return self.dtype if dtype is None else dtype.name

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.shape if self.extended is None else self.extended[1]


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
        _check_metadata(metadata or {})
        payloads = sorted(
            (_Payload.of(name, np.asarray(array)) for name, array in arrays.items()),
            key=lambda payload: (-_RANKS[payload.dtype], payload.name),
        )
        found = in_threads(lambda payload: crc32c_of_blocks(payload.data, BLOCK), payloads)
        crcs = {payload.name: crc for payload, (crc, _) in zip(payloads, found, strict=True)}
        blocks = {payload.name: each for payload, (_, each) in zip(payloads, found, strict=True) if len(each) > 1}
        header = _header(payloads, crcs, blocks, dict(metadata or {}))
        return cls(
            chunks=[header, *(payload.data for payload in payloads)],
            size=len(header) + sum(payload.data.nbytes for payload in payloads),
            header_crc32c=crc32c(header),
            crc32c=crcs,
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
        self._data_start = 8 + _read_header(self.path, fetch(0, min(8, size)).tobytes(), size)
        header = fetch(0, self._data_start)
        self.header_crc32c = crc32c(header)
        self.entries, self.metadata = _parse_header(self.path, header[8:].tobytes(), size - self._data_start)

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
        dtype = _DTYPES[entry.dtype][1]
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
            _refuse(self.path, f"0 or 1 for each element of {entry.name!r}", f"the byte {raw.max()}")
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
        _check_name(name)
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
        stored = _NAMES.get(plain.dtype)
        if stored is None:
            raise DTypeError(
                f"array {name!r} has a dtype that safetensors files cannot hold",
                expected="bool, an integer, float or complex type, or bytes",
                got=str(array.dtype),
                hint="array.view or array.astype makes one of these",
            )
        return cls(name, stored, shape, flat.view(np.uint8).data)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or name == "__metadata__" or not _is_text(name):
        raise InvalidArgumentError(
            f"{name!r} cannot be an array's name",
            expected="text in Unicode, other than '__metadata__'",
            got=repr(name),
            hint="choose another name",
        )


def _check_metadata(metadata: Mapping[Any, Any]) -> None:
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str) and _is_text(key + value)):
            raise InvalidArgumentError(
                "metadata of a safetensors file is text only",
                expected="str to str",
                got=f"{key!r}: {value!r}",
                hint="json.dumps makes text of it",
            )
        if key.startswith("headrace."):
            raise InvalidArgumentError(
                f"the metadata key {key!r} is reserved",
                expected="a key without 'headrace.' in front",
                got=repr(key),
                hint="choose another key",
            )


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


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


def _header(
    payloads: list[_Payload],
    crcs: Mapping[str, int],
    blocks: Mapping[str, tuple[int, ...]],
    metadata: dict[str, str],
) -> bytes:
    extended = {p.name: {"dtype": p.extended[0], "shape": p.extended[1]} for p in payloads if p.extended is not None}
    metadata[_CRC_KEY] = _compact({name: f"{crc:08x}" for name, crc in crcs.items()})
    if blocks:
        digits = {name: "".join(f"{crc:08x}" for crc in each) for name, each in blocks.items()}
        metadata[_BLOCKS_KEY] = _compact({"bytes": BLOCK, "crc32c": digits})
    if extended:
        metadata[_DTYPES_KEY] = _compact(extended)
    entries: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for payload in payloads:
        end = offset + payload.data.nbytes
        entries[payload.name] = {"dtype": payload.dtype, "shape": payload.shape, "data_offsets": [offset, end]}
        offset = end
    text = _compact(entries).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidArgumentError(
            "too many or too long names for one safetensors file",
            expected=f"a header of at most {MAX_HEADER_BYTES} bytes",
            got=f"{len(text)} bytes",
            hint="split the arrays over several files",
        )
    return struct.pack("<Q", len(text)) + text


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Reading. Every function below trusts nothing it is given.


def mapped(path: str) -> tuple[int, Fetch]:
    """The size of a local file, and a function that gives views of its map.

    Raises:
      NotFoundError: there is no such file.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise NotFoundError(
            "there is no such file", expected="a safetensors file", got=path, hint="look at the path"
        ) from None

    def fetch(begin: int, end: int) -> NDArray[np.uint8]:
        return np.frombuffer(content, np.uint8, end - begin, begin)

    return size, fetch


def _refuse(path: str, expected: str, got: str) -> NoReturn:
    raise DataLossError(
        "not a valid safetensors file",
        where=path,
        expected=expected,
        got=got,
        hint="copy it again, or restore an earlier checkpoint",
    )


def _read_header(path: str, prefix: bytes, size: int) -> int:
    """The header's length, checked against the file's."""
    if len(prefix) < 8:
        _refuse(path, "a file of at least 8 bytes", f"{len(prefix)} bytes")
    length: int = struct.unpack("<Q", prefix)[0]
    if length > MAX_HEADER_BYTES or length > size - 8:
        limit = min(MAX_HEADER_BYTES, size - 8)
        _refuse(path, f"a header of at most {limit} bytes (the file has {size})", f"a header length of {length}")
    return length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        name = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {name!r}")
    return found


def _load_json(path: str, what: str, text: bytes | str) -> dict[str, Any]:
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        value = json.loads(decoded, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"{what} in JSON, every key once", str(error))
    if not isinstance(value, dict):
        _refuse(path, f"{what} that is a JSON object", type(value).__name__)
    return value


def _parse_header(path: str, text: bytes, data_size: int) -> tuple[dict[str, StoredArray], dict[str, str]]:
    if not text.startswith(b"{"):
        _refuse(path, "a header that begins with '{'", repr(text[:8]))
    header = _load_json(path, "a header", text)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        _refuse(path, "a __metadata__ of strings only", _shorten(metadata))
    crcs = _load_json(path, _CRC_KEY, metadata.get(_CRC_KEY, "{}"))
    extended = _load_json(path, _DTYPES_KEY, metadata.get(_DTYPES_KEY, "{}"))
    size, blocks = _parse_blocks(path, metadata.get(_BLOCKS_KEY))
    entries = [
        _parse_entry(path, name, item, crcs.get(name), extended.get(name), size, blocks.get(name))
        for name, item in header.items()
    ]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_coverage(path, entries, data_size)
    user = {key: value for key, value in metadata.items() if key not in (_CRC_KEY, _BLOCKS_KEY, _DTYPES_KEY)}
    return {entry.name: entry for entry in entries}, user


def _parse_blocks(path: str, text: str | None) -> tuple[int, dict[str, Any]]:
    """The size of a block, and each array's digits."""
    if text is None:
        return BLOCK, {}
    item = _load_json(path, _BLOCKS_KEY, text)
    if item.keys() != {"bytes", "crc32c"} or not isinstance(item["crc32c"], dict):
        _refuse(path, f"bytes and crc32c in {_BLOCKS_KEY}", _shorten(item))
    if not _is_size(item["bytes"]) or not item["bytes"]:
        _refuse(path, f"blocks of at least one byte in {_BLOCKS_KEY}", _shorten(item["bytes"]))
    return item["bytes"], item["crc32c"]


def _parse_entry(path: str, name: str, item: Any, crc: Any, extended: Any, size: int, blocks: Any) -> StoredArray:
    if not isinstance(item, dict) or item.keys() != {"dtype", "shape", "data_offsets"}:
        _refuse(path, f"dtype, shape and data_offsets of {name!r}", _shorten(item))
    dtype, offsets = item["dtype"], item["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        _refuse(path, f"a dtype of {name!r} out of {', '.join(_DTYPES)}", _shorten(dtype))
    shape = _parse_shape(path, name, item["shape"])
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(_is_size(offset) for offset in offsets)):
        _refuse(path, f"data_offsets [begin, end] of {name!r}", _shorten(offsets))
    _check_size(path, name, dtype, shape, offsets)
    checksum = _parse_crc(path, name, crc)
    value = _parse_extended(path, name, dtype, shape, extended)
    digits = None if blocks is None else _parse_digits(path, name, blocks, -(-(offsets[1] - offsets[0]) // size))
    parts = None if digits is None else Blocks(size, digits)
    return StoredArray(name, dtype, shape, offsets[0], offsets[1], checksum, value, parts)


def _parse_digits(path: str, name: str, digits: Any, count: int) -> tuple[int, ...]:
    if not isinstance(digits, str) or len(digits) != 8 * count or set(digits) - _HEX:
        _refuse(path, f"{count} checksums of blocks of {name!r}, 8 hexadecimal digits each", _shorten(digits))
    return tuple(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8))


def _parse_shape(path: str, name: str, shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(_is_size(size) for size in shape):
        _refuse(path, f"a shape of {name!r} with at most {_MAX_RANK} sizes", _shorten(shape))
    # Zero sizes are left out of the product: NumPy refuses [0, 2**62, 8] too, and so must we, before NumPy is asked.
    if math.prod(size for size in shape if size) > _MAX_BYTES // 16:
        _refuse(path, f"a shape of {name!r} that a computer can hold", _shorten(shape))
    return tuple(shape)


def _check_size(path: str, name: str, dtype: str, shape: tuple[int, ...], offsets: list[int]) -> None:
    bits = math.prod(shape) * _DTYPES[dtype][0]
    if bits % 8 or offsets[1] - offsets[0] != bits // 8:
        _refuse(path, f"{bits / 8:g} bytes for {name!r} ({dtype} {list(shape)})", f"data_offsets {offsets}")


def _parse_crc(path: str, name: str, crc: Any) -> int | None:
    if crc is None:
        return None
    if not isinstance(crc, str) or len(crc) != 8 or set(crc) - _HEX:
        _refuse(path, f"a checksum of {name!r} of 8 hexadecimal digits", _shorten(crc))
    return int(crc, 16)


def _parse_extended(
    path: str, name: str, dtype: str, shape: tuple[int, ...], item: Any
) -> tuple[str, tuple[int, ...]] | None:
    if item is None:
        return None
    if not isinstance(item, dict) or item.keys() != {"dtype", "shape"}:
        _refuse(path, f"dtype and shape of {name!r} in {_DTYPES_KEY}", _shorten(item))
    logical = _parse_shape(path, name, item["shape"])
    fits = (item["dtype"] == "complex128" and dtype == "F64" and shape == (*logical, 2)) or (
        item["dtype"] == "string" and dtype == "U8" and len(shape) == 1 and shape[0] >= 8 * math.prod(logical)
    )
    if not fits:
        _refuse(path, f"an extended dtype of {name!r} that fits {dtype} {list(shape)}", _shorten(item))
    return item["dtype"], logical


def _check_coverage(path: str, entries: list[StoredArray], data_size: int) -> None:
    """Neither gap nor overlap, and not a byte left over."""
    end = 0
    for entry in entries:
        if entry.begin != end:
            _refuse(path, f"{entry.name!r} to begin at {end}, where the one before ends", f"{entry.begin}")
        end = entry.end
    if end != data_size:
        _refuse(path, f"{end} bytes of arrays", f"{data_size} bytes after the header")


def _decode_strings(path: str, entry: StoredArray, stored: NDArray[np.uint8]) -> Array:
    raw, count = stored.tobytes(), math.prod(entry.value_shape)
    lengths = struct.unpack_from(f"<{count}Q", raw)
    if sum(lengths) != len(raw) - 8 * count:
        _refuse(path, f"strings of {len(raw) - 8 * count} bytes in {entry.name!r}", f"lengths of {sum(lengths)} bytes")
    items = np.empty(count, object)
    offset = 8 * count
    for index, length in enumerate(lengths):
        items[index] = raw[offset : offset + length]
        offset += length
    return items.reshape(entry.value_shape)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_BYTES


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
