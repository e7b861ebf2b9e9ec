"""The header of a safetensors file: what it says of each array, and the rules that this must keep.

What a header says of the checksums of arrays and of their blocks is read and written here; they are computed and
compared where the bytes are (`safetensors`, which describes the format). Reader and writer stand together, since each
rule of the format has a half in both.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from headrace.errors import DataLossError, InvalidArgumentError

__all__ = [
    "ALIGNMENT",
    "DTYPES",
    "MAX_HEADER_BYTES",
    "NAMES",
    "RANKS",
    "Blocks",
    "StoredArray",
    "check_metadata",
    "check_name",
    "encode_header",
    "parse_header",
    "read_header_length",
    "refuse",
    "unique_keys",
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
DTYPES: dict[str, tuple[int, np.dtype[np.generic] | None]] = {
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
RANKS = {name: rank for rank, name in enumerate(DTYPES)}
NAMES = {dtype: name for name, (_, dtype) in DTYPES.items() if dtype is not None}


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
        dtype = DTYPES[self.dtype][1]
        return self.dtype if dtype is None else dtype.name

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.shape if self.extended is None else self.extended[1]


def check_name(name: object) -> None:
    """Raise InvalidArgumentError unless an array may have this name."""
    if not isinstance(name, str) or name == "__metadata__" or not _is_text(name):
        raise InvalidArgumentError(
            f"{name!r} cannot be an array's name",
            expected="text in Unicode, other than '__metadata__'",
            got=repr(name),
            hint="choose another name",
        )


def check_metadata(metadata: Mapping[Any, Any]) -> None:
    """Raise InvalidArgumentError unless a file can keep this free text."""
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


def encode_header(entries: Sequence[StoredArray], metadata: Mapping[str, str]) -> bytes:
    """The 8 bytes of the length and the header, with which a file begins.

    Args:
      entries: the arrays, in the order of their bytes.
      metadata: free text to keep.
    Raises:
      InvalidArgumentError: the header becomes longer than the format allows.
    """
    extended = {e.name: {"dtype": e.extended[0], "shape": e.extended[1]} for e in entries if e.extended is not None}
    ours = {_CRC_KEY: _compact({e.name: f"{e.crc32c:08x}" for e in entries if e.crc32c is not None})}
    blocks = {entry.name: entry.blocks for entry in entries if entry.blocks is not None}
    if blocks:
        digits = {name: "".join(f"{crc:08x}" for crc in each.crc32c) for name, each in blocks.items()}
        ours[_BLOCKS_KEY] = _compact({"bytes": next(iter(blocks.values())).size, "crc32c": digits})
    if extended:
        ours[_DTYPES_KEY] = _compact(extended)
    items: dict[str, Any] = {"__metadata__": {**metadata, **ours}}
    for entry in entries:
        items[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [entry.begin, entry.end]}
    text = _compact(items).encode()
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


def refuse(path: str, expected: str, got: str) -> NoReturn:
    """Raise DataLossError: the file at `path` breaks a rule of the format."""
    raise DataLossError(
        "not a valid safetensors file",
        where=path,
        expected=expected,
        got=got,
        hint="copy it again, or restore an earlier checkpoint",
    )


def read_header_length(path: str, prefix: bytes, size: int) -> int:
    """The header's length in bytes, checked against the file's.

    Args:
      path: the file, for errors.
      prefix: its first 8 bytes, or fewer where it has no more.
      size: its length in bytes.
    Raises:
      DataLossError: the file is too short for the header, or the header is longer than the format allows.
    """
    if len(prefix) < 8:
        refuse(path, "a file of at least 8 bytes", f"{len(prefix)} bytes")
    length: int = struct.unpack("<Q", prefix)[0]
    if length > MAX_HEADER_BYTES or length > size - 8:
        limit = min(MAX_HEADER_BYTES, size - 8)
        refuse(path, f"a header of at most {limit} bytes (the file has {size})", f"a header length of {length}")
    return length


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON of its items (see `json.loads`); raises ValueError if a key is there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        name = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {name!r}")
    return found


def _load_json(path: str, what: str, text: bytes | str) -> dict[str, Any]:
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        value = json.loads(decoded, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        refuse(path, f"{what} in JSON, every key once", str(error))
    if not isinstance(value, dict):
        refuse(path, f"{what} that is a JSON object", type(value).__name__)
    return value


def parse_header(path: str, text: bytes, data_size: int) -> tuple[dict[str, StoredArray], dict[str, str]]:
    """What a header says: the arrays by name, in the order of their bytes, and the free text.

    Args:
      path: the file, for errors.
      text: the header.
      data_size: the number of bytes after it.
    Raises:
      DataLossError: it breaks a rule of the format.
    """
    if not text.startswith(b"{"):
        refuse(path, "a header that begins with '{'", repr(text[:8]))
    header = _load_json(path, "a header", text)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        refuse(path, "a __metadata__ of strings only", _shorten(metadata))
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
        return 1, {}
    item = _load_json(path, _BLOCKS_KEY, text)
    if item.keys() != {"bytes", "crc32c"} or not isinstance(item["crc32c"], dict):
        refuse(path, f"bytes and crc32c in {_BLOCKS_KEY}", _shorten(item))
    if not _is_size(item["bytes"]) or not item["bytes"]:
        refuse(path, f"blocks of at least one byte in {_BLOCKS_KEY}", _shorten(item["bytes"]))
    return item["bytes"], item["crc32c"]


def _parse_entry(path: str, name: str, item: Any, crc: Any, extended: Any, size: int, blocks: Any) -> StoredArray:
    if not isinstance(item, dict) or item.keys() != {"dtype", "shape", "data_offsets"}:
        refuse(path, f"dtype, shape and data_offsets of {name!r}", _shorten(item))
    dtype, offsets = item["dtype"], item["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        refuse(path, f"a dtype of {name!r} out of {', '.join(DTYPES)}", _shorten(dtype))
    shape = _parse_shape(path, name, item["shape"])
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(_is_size(offset) for offset in offsets)):
        refuse(path, f"data_offsets [begin, end] of {name!r}", _shorten(offsets))
    _check_size(path, name, dtype, shape, offsets)
    checksum = _parse_crc(path, name, crc)
    value = _parse_extended(path, name, dtype, shape, extended)
    digits = None if blocks is None else _parse_digits(path, name, blocks, -(-(offsets[1] - offsets[0]) // size))
    parts = None if digits is None else Blocks(size, digits)
    return StoredArray(name, dtype, shape, offsets[0], offsets[1], checksum, value, parts)


def _parse_digits(path: str, name: str, digits: Any, count: int) -> tuple[int, ...]:
    if not isinstance(digits, str) or len(digits) != 8 * count or set(digits) - _HEX:
        refuse(path, f"{count} checksums of blocks of {name!r}, 8 hexadecimal digits each", _shorten(digits))
    return tuple(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8))


def _parse_shape(path: str, name: str, shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(_is_size(size) for size in shape):
        refuse(path, f"a shape of {name!r} with at most {_MAX_RANK} sizes", _shorten(shape))
    # Zero sizes are left out of the product: NumPy refuses [0, 2**62, 8] too, and so must we, before NumPy is asked.
    if math.prod(size for size in shape if size) > _MAX_BYTES // 16:
        refuse(path, f"a shape of {name!r} that a computer can hold", _shorten(shape))
    return tuple(shape)


def _check_size(path: str, name: str, dtype: str, shape: tuple[int, ...], offsets: list[int]) -> None:
    bits = math.prod(shape) * DTYPES[dtype][0]
    if bits % 8 or offsets[1] - offsets[0] != bits // 8:
        refuse(path, f"{bits / 8:g} bytes for {name!r} ({dtype} {list(shape)})", f"data_offsets {offsets}")


def _parse_crc(path: str, name: str, crc: Any) -> int | None:
    if crc is None:
        return None
    if not isinstance(crc, str) or len(crc) != 8 or set(crc) - _HEX:
        refuse(path, f"a checksum of {name!r} of 8 hexadecimal digits", _shorten(crc))
    return int(crc, 16)


def _parse_extended(
    path: str, name: str, dtype: str, shape: tuple[int, ...], item: Any
) -> tuple[str, tuple[int, ...]] | None:
    if item is None:
        return None
    if not isinstance(item, dict) or item.keys() != {"dtype", "shape"}:
        refuse(path, f"dtype and shape of {name!r} in {_DTYPES_KEY}", _shorten(item))
    logical = _parse_shape(path, name, item["shape"])
    fits = (item["dtype"] == "complex128" and dtype == "F64" and shape == (*logical, 2)) or (
        item["dtype"] == "string" and dtype == "U8" and len(shape) == 1 and shape[0] >= 8 * math.prod(logical)
    )
    if not fits:
        refuse(path, f"an extended dtype of {name!r} that fits {dtype} {list(shape)}", _shorten(item))
    return item["dtype"], logical


def _check_coverage(path: str, entries: list[StoredArray], data_size: int) -> None:
    """Neither gap nor overlap, and not a byte left over."""
    end = 0
    for entry in entries:
        if entry.begin != end:
            refuse(path, f"{entry.name!r} to begin at {end}, where the one before ends", f"{entry.begin}")
        end = entry.end
    if end != data_size:
        refuse(path, f"{end} bytes of arrays", f"{data_size} bytes after the header")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_BYTES


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
