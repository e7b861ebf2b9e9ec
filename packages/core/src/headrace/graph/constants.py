"""Constants beside a graph file: by content, without a size limit.

The file is a valid safetensors file (8 bytes of header length, a JSON header, the data): `{key: {"dtype", "shape",
"data_offsets"}}`, the data at a multiple of 64 bytes. Keys are hashes of the content, so that an equal constant is
stored once.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import DataLossError
from headrace.types import Array, as_dtype

__all__ = ["read_constants", "write_constants"]

_NAMES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "complex64": "C64", "complex128": "U8",
}  # fmt: skip
_MAX_HEADER = 100_000_000


def write_constants(path: Path, constants: Mapping[str, Array]) -> None:
    """Write arrays to a file, one after the other; none is copied as a whole if it is contiguous."""
    entries: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    offset = 0
    for key, value in constants.items():
        dtype = as_dtype(value.dtype)
        shape = [*value.shape, 16] if dtype.name == "complex128" else list(value.shape)
        metadata[key] = dtype.name
        entries[key] = {"dtype": _NAMES[dtype.name], "shape": shape, "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    header = json.dumps({"__metadata__": metadata, **entries}).encode()
    header += b" " * (-(len(header) + 8) % 64)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)))
        file.write(header)
        for value in constants.values():
            file.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)


def read_constants(path: Path) -> dict[str, Array]:
    """Map the arrays of a file into memory; they are read from it when they are used.

    Raises:
      DataLossError: the file is damaged.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        if size < 8:
            raise _damaged(path, "a header", f"{size} bytes")
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(_MAX_HEADER, size - 8):
        raise _damaged(path, f"a header of at most {size - 8} bytes", str(length))
    try:
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__")
        return {key: _view(content, 8 + length, metadata[key], entry) for key, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, "a header of dtype, shape and offsets", str(error)) from error


def _view(content: mmap.mmap, start: int, dtype_name: str, entry: Mapping[str, Any]) -> Array:
    dtype = as_dtype(dtype_name).array_type
    shape = entry["shape"][:-1] if dtype_name == "complex128" else entry["shape"]
    begin, end = entry["data_offsets"]
    count = math.prod(shape)
    if min([begin, *shape], default=0) < 0 or end - begin != count * dtype.itemsize or start + end > len(content):
        raise ValueError(f"{dtype_name}{shape} does not fit bytes {begin} to {end}")
    return np.frombuffer(content, dtype, count, start + begin).reshape(shape)


def _damaged(path: Path, expected: str, got: str) -> DataLossError:
    return DataLossError(
        f"the constants in '{path}' are damaged",
        expected=expected,
        got=got,
        hint="export the graph again, or copy both files",
    )
