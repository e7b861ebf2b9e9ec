"""TensorBundle, the format of TensorFlow's checkpoints: `<prefix>.index` and `<prefix>.data-00000-of-00001`.

The index is a sorted table: the empty key holds a header, every other key is a tensor's name with its dtype, shape,
shard, place and checksum. A tensor that was saved in slices has an entry with the list of its slices only, and one
more entry for each slice, under a key that encodes name and place. Shards are the tensors' bytes, one after another.
Strings are stored as all lengths (varints), the masked checksum of the lengths (as uint32, or uint64 for a giant),
and all bytes.

Reader and writer stand together here, since each rule of the format has a half in both.

Source: worked out from files that TensorFlow wrote, and checked both ways against it (`nox -s oracle`).
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import ArrayLike, NDArray

from headrace.errors import (
    DataLossError,
    DTypeError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
    known_names,
)
from headrace.graph.proto.tensor_pb2 import TensorShapeProto
from headrace.graph.proto.types_pb2 import DataType
from headrace_checkpoint.checksum import crc32c, mask, unmask
from headrace_checkpoint.dtypes import STRING, Array, dtype_name, number_of, numpy_dtype
from headrace_checkpoint.durable import DISK, Bytes, Disk, replace_file
from headrace_checkpoint.proto.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto, TensorSliceProto
from headrace_checkpoint.sstable import append_varint, decode_table, encode_table, read_varint

__all__ = ["ArraySlice", "BundleEntry", "TensorBundle", "merge_bundles", "save_bundle"]

_PRODUCER = 1
_MAX_BYTES = 2**63 - 1
_MAX_RANK = 64


class BundleEntry(NamedTuple):
    """What a bundle says of one tensor or slice.

    Attributes:
      dtype: TensorFlow's number of the dtype.
      shape: the sizes.
      shard: in which data file the bytes are.
      offset: where they begin there.
      size: how many they are.
      crc32c: their checksum.
      slices: where set, the boxes `((start, length), ...)` of the entries that hold the data; the length is -1 where
        the box spans the whole axis and the writer did not spell it out, as its key tells the two apart.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc32c: int
    slices: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def dtype_name(self) -> str:
        """The name of the dtype."""
        return dtype_name(self.dtype)


class ArraySlice(NamedTuple):
    """A box of a larger tensor, to be written as one of its slices.

    Attributes:
      full_shape: of the whole tensor.
      start: where the box begins on each axis.
      array: its values.
    """

    full_shape: tuple[int, ...]
    start: tuple[int, ...]
    array: ArrayLike


class TensorBundle:
    """One bundle, open for reading: the index is read and checked at once, tensors when they are asked for.

    Args:
      prefix: the path up to `.index`.

    Raises:
      NotFoundError: there is no such bundle, or a shard of it is missing.
      DataLossError: the index is damaged.
      UnimplementedError: it was written on a big-endian machine, or is compressed.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        self.prefix = os.fspath(prefix)
        self._index = f"{self.prefix}.index"
        header, rows = self._read_index()
        self.num_shards = header.num_shards
        self._shards = [self._open_shard(number) for number in range(self.num_shards)]
        self.entries: dict[str, BundleEntry] = {}
        self._slices: dict[bytes, BundleEntry] = {}
        for key, value in rows:
            if key.startswith(b"\x00"):
                self._slices[key] = self._parse_entry(repr(key), value)
            else:
                name = self._parse_name(key)
                self.entries[name] = self._parse_entry(repr(name), value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def read(self, name: str, *, verify: bool = True) -> Array:
        """Return one tensor: a read-only view of the mapped shard, or a new array for strings and sliced tensors.

        Args:
          name: the tensor's name.
          verify: check its bytes against their checksum.

        Raises:
          NotFoundError: there is no such tensor, or a slice of it is missing.
          DataLossError: the checksum does not match, or the bytes are no value of that dtype and shape.
          DTypeError: no array can hold the dtype (variants, resources).
        """
        entry = self.entries.get(name)
        if entry is None:
            raise NotFoundError(
                f"there is no tensor {name!r} in the checkpoint",
                where=self.prefix,
                expected=known_names(name, self.entries),
                got=repr(name),
                hint="iterate over the bundle for the names",
            )
        return self._read_slices(name, entry, verify) if entry.slices else self._read_entry(name, entry, verify)

    def read_all(self, *, verify: bool = True) -> dict[str, Array]:
        """Return every tensor, by name."""
        return {name: self.read(name, verify=verify) for name in self}

    def _read_index(self) -> tuple[BundleHeaderProto, list[tuple[bytes, bytes]]]:
        try:
            table = Path(self._index).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise self._missing() from None
        rows = list(decode_table(table, self._index))
        if not rows or rows[0][0]:
            self._refuse("a header under the empty key", f"{len(rows)} entries without one")
        header = BundleHeaderProto()
        try:
            header.ParseFromString(rows[0][1])
        except DecodeError as error:
            self._refuse("a bundle's header", str(error))
        if header.endianness != BundleHeaderProto.LITTLE:
            raise UnimplementedError(
                "the checkpoint was written on a big-endian machine",
                where=self._index,
                expected="little-endian",
                got="big-endian",
                hint="write it again on a little-endian machine",
            )
        if header.version.min_consumer > _PRODUCER or not 0 <= header.num_shards <= len(table):
            self._refuse("a bundle of version 1", str(header).replace("\n", " "))
        return header, rows[1:]

    def _missing(self) -> NotFoundError:
        hint = "look at the path"
        for ending in (".index", ".meta", ".data-"):
            stem, found, rest = self.prefix.rpartition(ending)
            if found and (not rest or ending == ".data-") and os.path.exists(f"{stem}.index"):
                hint = f"name the checkpoint by its prefix: {stem}"
        return NotFoundError(
            "there is no checkpoint of this name", expected=f"the file {self._index}", got=self.prefix, hint=hint
        )

    def _open_shard(self, number: int) -> NDArray[np.uint8]:
        path = _shard_path(self.prefix, number, self.num_shards)
        try:
            if os.path.getsize(path) == 0:  # an empty file cannot be mapped
                return np.zeros(0, np.uint8)
            return np.memmap(path, np.uint8, "r")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise NotFoundError(
                f"shard {number} of {self.num_shards} of the checkpoint is missing",
                where=self.prefix,
                expected=f"the file {path}",
                got="no such file",
                hint="copy every file of the checkpoint",
            ) from None

    def _parse_name(self, key: bytes) -> str:
        try:
            return key.decode("utf-8")
        except UnicodeDecodeError:
            self._refuse("names in UTF-8", repr(key))

    def _parse_entry(self, label: str, value: bytes) -> BundleEntry:
        proto = BundleEntryProto()
        try:
            proto.ParseFromString(value)
        except DecodeError as error:
            self._refuse(f"an entry of {label}", str(error))
        shape = tuple(dim.size for dim in proto.shape.dim)
        if proto.shape.unknown_rank or len(shape) > _MAX_RANK or any(size < 0 for size in shape):
            self._refuse(f"a shape of {label}", str(proto.shape).replace("\n", " "))
        if math.prod(size for size in shape if size) > _MAX_BYTES // 16:
            self._refuse(f"a shape of {label} that a computer can hold", str(shape))
        slices = tuple(self._parse_slice(label, shape, part) for part in proto.slices)
        place = (proto.shard_id, proto.offset, proto.size)
        entry = BundleEntry(proto.dtype, shape, *place, unmask(proto.crc32c), slices)
        self._check_entry(label, entry)
        return entry

    def _check_entry(self, label: str, entry: BundleEntry) -> None:
        if entry.slices:
            return
        if not 0 <= entry.shard < self.num_shards:
            self._refuse(f"a shard of {label} below {self.num_shards}", str(entry.shard))
        available = self._shards[entry.shard].size
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > available:
            self._refuse(
                f"{label} within the {available} bytes of shard {entry.shard}",
                f"bytes {entry.offset} to {entry.offset + entry.size}",
            )
        dtype = numpy_dtype(entry.dtype)
        if dtype is not None and math.prod(entry.shape) * dtype.itemsize != entry.size:
            self._refuse(f"the bytes of {label}: {entry.dtype_name}{list(entry.shape)}", f"{entry.size} bytes")

    def _parse_slice(self, label: str, shape: tuple[int, ...], proto: TensorSliceProto) -> tuple[tuple[int, int], ...]:
        if len(proto.extent) != len(shape):
            self._refuse(f"slices of {label} with {len(shape)} axes", f"{len(proto.extent)}")
        box = tuple((part.start, part.length if part.HasField("length") else -1) for part in proto.extent)
        for (start, length), size in zip(_spelt_out(box, shape), shape, strict=True):
            if start < 0 or length < 0 or start + length > size:
                self._refuse(f"slices of {label} inside {list(shape)}", str(box))
        return box

    def _read_entry(self, name: str, entry: BundleEntry, verify: bool) -> Array:
        raw = self._shards[entry.shard][entry.offset : entry.offset + entry.size]
        if entry.dtype == STRING:
            return self._read_strings(name, entry, raw.tobytes(), verify)
        dtype = numpy_dtype(entry.dtype)
        if dtype is None:
            raise self._no_array(name, entry)
        if verify:
            self._check_crc(name, entry, crc32c(raw))
            if dtype == np.bool_ and raw.size and raw.max() > 1:
                self._refuse(f"0 or 1 for each element of {name!r}", f"the byte {raw.max()}")
        return np.frombuffer(raw, dtype).reshape(entry.shape) if raw.size else np.empty(entry.shape, dtype)

    def _check_crc(self, name: str, entry: BundleEntry, crc: int) -> None:
        if crc != entry.crc32c:
            raise DataLossError(
                f"tensor {name!r} is damaged: its checksum does not match",
                where=f"{_shard_path(self.prefix, entry.shard, self.num_shards)}, byte {entry.offset} on",
                expected=f"CRC-32C {entry.crc32c:08x}",
                got=f"{crc:08x}",
                hint="restore an earlier checkpoint or copy the files again",
            )

    def _read_strings(self, name: str, entry: BundleEntry, raw: bytes, verify: bool) -> Array:
        count = math.prod(entry.shape)
        if count > len(raw):
            self._refuse(f"{count} strings in {name!r}", f"{len(raw)} bytes")
        lengths, position = [], 0
        try:
            for _ in range(count):
                length, position = read_varint(raw, position)
                lengths.append(length)
        except ValueError as error:
            self._refuse(f"{count} lengths of strings in {name!r}", str(error))
        body = position + 4
        if body + sum(lengths) != len(raw):
            self._refuse(f"strings of {len(raw) - body} bytes in {name!r}", f"lengths of {sum(lengths)} bytes")
        if verify:
            crc = crc32c(_packed_lengths(lengths))
            if struct.pack("<I", mask(crc)) != raw[position:body]:
                self._refuse(f"lengths of strings of {name!r} that match their checksum", "others")
            self._check_crc(name, entry, crc32c(raw[position:], crc))
        items = np.empty(count, object)
        for index, length in enumerate(lengths):
            items[index] = raw[body : body + length]
            body += length
        return items.reshape(entry.shape)

    def _read_slices(self, name: str, entry: BundleEntry, verify: bool) -> Array:
        """Put a tensor together; nothing is allocated before its slices are known to fill it."""
        parts = [self._find_slice(name, entry, box) for box in entry.slices]
        whole = math.prod(entry.shape)
        available = sum(math.prod(part.shape) for part in parts)
        stored = sum(shard.size for shard in self._shards)
        if available < whole or sum(part.size for part in parts) > stored:
            raise self._not_enough_slices(name, available, whole)
        covered = np.zeros(entry.shape, np.bool_)
        result: Array = np.empty(entry.shape, numpy_dtype(entry.dtype) or object)
        for box, part in zip(entry.slices, parts, strict=True):
            place = tuple(slice(start, start + length) for start, length in _spelt_out(box, entry.shape))
            result[place] = self._read_entry(name, part, verify)
            covered[place] = True
        if not covered.all():
            raise self._not_enough_slices(name, int(covered.sum()), whole)
        result.flags.writeable = False
        return result

    def _find_slice(self, name: str, entry: BundleEntry, box: tuple[tuple[int, int], ...]) -> BundleEntry:
        part = self._slices.get(_slice_key(name, box))
        if part is None:
            raise NotFoundError(
                f"a slice of tensor {name!r} is missing from the checkpoint",
                where=self.prefix,
                expected=f"start and length {_spelt_out(box, entry.shape)}",
                got="no such entry",
                hint="merge every part of the checkpoint",
            )
        if part.dtype != entry.dtype or part.shape != tuple(n for _, n in _spelt_out(box, entry.shape)) or part.slices:
            self._refuse(f"a slice {box} of {name!r}", str(part))
        if numpy_dtype(part.dtype) is None and part.dtype != STRING:
            raise self._no_array(name, entry)
        return part

    def _no_array(self, name: str, entry: BundleEntry) -> DTypeError:
        return DTypeError(
            f"tensor {name!r} has a dtype that no array can hold",
            where=self.prefix,
            expected="numbers or strings",
            got=entry.dtype_name,
            hint="read the other tensors by name",
        )

    def _not_enough_slices(self, name: str, available: int, whole: int) -> DataLossError:
        return DataLossError(
            f"not enough slices of tensor {name!r}: they do not fill it",
            where=self.prefix,
            expected=f"{whole} elements",
            got=f"{available}",
        )

    def _refuse(self, expected: str, got: str) -> NoReturn:
        raise DataLossError(
            "not a valid checkpoint",
            where=self._index,
            expected=expected,
            got=got,
            hint="copy it again, or restore an earlier checkpoint",
        )


def save_bundle(
    prefix: str | os.PathLike[str],
    arrays: Mapping[str, ArrayLike],
    slices: Mapping[str, Sequence[ArraySlice]] | None = None,
    *,
    disk: Disk = DISK,
) -> None:
    """Write a bundle of one shard, which TensorFlow can restore.

    An old bundle of that prefix is replaced file by file, so a crash in between leaves a bundle that is refused on
    reading. Where that matters write under a new prefix, or into a `staged_directory`.

    Args:
      prefix: the path up to `.index`; its folder must exist.
      arrays: name to array; strings are object arrays of `bytes`.
      slices: name to the slices of a tensor that is not written as a whole.
      disk: whose system calls to use.

    Raises:
      DTypeError: an array's dtype is not one of TensorFlow's.
      InvalidArgumentError: a name that cannot be a key, or a slice outside its tensor.
      OSError: the disk refused.

    Example:
      >>> import numpy as np, tempfile
      >>> prefix = tempfile.mkdtemp() + "/model"
      >>> save_bundle(prefix, {"w": np.arange(3)})
      >>> TensorBundle(prefix).read("w").tolist()
      [0, 1, 2]
    """
    rows: list[tuple[bytes, BundleEntryProto, list[Bytes]]] = []
    for name, array in arrays.items():
        rows.append((_key(name), *_encode_array(name, np.asarray(array))))
    for name, parts in (slices or {}).items():
        rows.extend(_encode_slices(name, parts))
    rows.sort(key=lambda row: row[0])
    offset = 0
    chunks: list[Bytes] = []
    for _, entry, data in rows:
        entry.offset = offset
        offset += entry.size
        chunks += data
    replace_file(Path(_shard_path(os.fspath(prefix), 0, 1)), chunks, disk)
    index = _encode_index(1, [(key, entry.SerializeToString()) for key, entry, _ in rows])
    replace_file(Path(f"{os.fspath(prefix)}.index"), [index], disk)


def merge_bundles(
    prefixes: Iterable[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    disk: Disk = DISK,
) -> None:
    """Make one bundle of several by moving their shards under one name, without reading the tensors.

    Args:
      prefixes: the bundles, which are gone afterwards. The same tensor in two of them must be in slices.
      target: the prefix of the result.
      disk: whose system calls to use.

    Raises:
      InvalidArgumentError: two bundles hold the same tensor.
      NotFoundError, DataLossError: as `TensorBundle`.
    """
    sources = [TensorBundle(prefix) for prefix in prefixes]
    total = sum(source.num_shards for source in sources)
    merged: dict[bytes, BundleEntryProto] = {}
    moves: list[tuple[str, str]] = []
    for source in sources:
        first = len(moves)
        for number in range(source.num_shards):
            old = _shard_path(source.prefix, number, source.num_shards)
            moves.append((old, _shard_path(os.fspath(target), first + number, total)))
        for key, value in decode_table(Path(f"{source.prefix}.index").read_bytes(), source.prefix):
            if key:
                _merge_entry(merged, key, BundleEntryProto.FromString(value), first)
    for old, new in moves:
        disk.rename(Path(old), Path(new))
    index = _encode_index(total, sorted((key, entry.SerializeToString()) for key, entry in merged.items()))
    replace_file(Path(f"{os.fspath(target)}.index"), [index], disk)
    for source in sources:
        if source.prefix != os.fspath(target):
            disk.remove_file(Path(f"{source.prefix}.index"))


def _merge_entry(merged: dict[bytes, BundleEntryProto], key: bytes, entry: BundleEntryProto, first: int) -> None:
    there = merged.get(key)
    if there is None:
        if not entry.slices:
            entry.shard_id += first
        merged[key] = entry
    elif entry.slices and there.slices and (entry.dtype, entry.shape) == (there.dtype, there.shape):
        there.slices.extend(part for part in entry.slices if part not in there.slices)
    else:
        raise InvalidArgumentError(
            "two checkpoints hold the same tensor",
            expected="each tensor in one of them, or in slices",
            got=key.decode("utf-8", "backslashreplace"),
            hint="save it only once",
        )


def _shard_path(prefix: str, number: int, total: int) -> str:
    return f"{prefix}.data-{number:05d}-of-{total:05d}"


def _key(name: str) -> bytes:
    try:
        key = name.encode("utf-8")
    except UnicodeEncodeError:
        key = b""
    if not key or key.startswith(b"\x00"):
        raise InvalidArgumentError(
            "this cannot be a tensor's name in a checkpoint",
            expected="text in Unicode, not empty, with no zero byte in front",
            got=repr(name),
            hint="choose another name",
        )
    return key


def _encode_index(num_shards: int, rows: list[tuple[bytes, bytes]]) -> bytes:
    header = BundleHeaderProto(num_shards=num_shards)
    header.version.producer = _PRODUCER
    return encode_table([(b"", header.SerializeToString()), *rows])


def _encode_array(name: str, array: NDArray[Any]) -> tuple[BundleEntryProto, list[Bytes]]:
    entry = BundleEntryProto(shape=_shape_proto(array.shape))
    chunks: list[Bytes]
    if array.dtype.kind in "OSU":
        entry.dtype = cast(DataType, STRING)
        chunks, crc = _encode_strings(name, array)
    else:
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        number = number_of(plain.dtype)
        if number is None:
            raise DTypeError(
                f"tensor {name!r} has a dtype that TensorFlow does not know",
                expected="bool, an integer, float or complex type, or bytes",
                got=str(array.dtype),
                hint="array.view or array.astype makes one of these",
            )
        entry.dtype = cast(DataType, number)
        raw = plain.reshape(-1).view(np.uint8)
        chunks, crc = [raw.data], crc32c(raw)
    entry.size = sum(len(chunk) for chunk in chunks)
    entry.crc32c = mask(crc)
    return entry, chunks


def _shape_proto(shape: Iterable[int]) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape])


def _encode_strings(name: str, array: NDArray[Any]) -> tuple[list[Bytes], int]:
    items = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
    wrong = next((item for item in items if not isinstance(item, bytes)), None)
    if wrong is not None:
        raise DTypeError(
            f"tensor {name!r} of strings holds something else",
            expected="bytes",
            got=repr(wrong),
            hint="give the array a dtype other than object",
        )
    lengths = bytearray()
    for item in items:
        append_varint(lengths, len(item))
    crc = crc32c(_packed_lengths([len(item) for item in items]))
    rest = struct.pack("<I", mask(crc)) + b"".join(items)
    return [lengths, rest], crc32c(rest, crc)


def _packed_lengths(lengths: list[int]) -> bytes:
    """The lengths as the checksum sees them."""
    return b"".join(struct.pack("<I" if length < 2**32 else "<Q", length) for length in lengths)


def _encode_slices(name: str, parts: Sequence[ArraySlice]) -> Iterator[tuple[bytes, BundleEntryProto, list[Bytes]]]:
    whole = BundleEntryProto(shape=_shape_proto(parts[0].full_shape if parts else ()))
    for part in parts:
        array = np.asarray(part.array)
        box = tuple(zip(part.start, array.shape, strict=False))
        inside = len(part.start) == array.ndim == len(part.full_shape) and all(
            start >= 0 and start + length <= size for (start, length), size in zip(box, part.full_shape, strict=True)
        )
        if not inside or part.full_shape != parts[0].full_shape:
            raise InvalidArgumentError(
                f"a slice of tensor {name!r} lies outside it",
                expected=f"inside {parts[0].full_shape}",
                got=f"start and length {box}",
                hint="all slices of a tensor have its full shape",
            )
        entry, chunks = _encode_array(name, array)
        whole.dtype = entry.dtype
        whole.slices.add(extent=[TensorSliceProto.Extent(start=start, length=length) for start, length in box])
        yield _slice_key(name, box), entry, chunks
    yield _key(name), whole, []


def _spelt_out(box: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """A box of which every length is a number."""
    return tuple((start, size if length == -1 else length) for (start, length), size in zip(box, shape, strict=True))


def _slice_key(name: str, box: tuple[tuple[int, int], ...]) -> bytes:
    """The key of a slice: 0, name, rank, then start and length of each axis."""
    key = bytearray(b"\x00")
    key += _key(name).replace(b"\x00", b"\x00\xff") + b"\x00\x01"
    key += bytes([1, len(box)]) if box else b"\x00"
    for start, length in box:
        key += _ordered_int(start) + _ordered_int(length)
    return bytes(key)


def _ordered_int(value: int) -> bytes:
    """An integer as bytes that sort as integers do: n leading ones give the length n, as UTF-8 does, sign flipped."""
    magnitude = ~value if value < 0 else value
    length = max(1, -(-(magnitude.bit_length() + 1) // 7))
    code = value & (1 << 8 * length) - 1
    ones = ((1 << length) - 1) << (7 * length)
    return (code ^ ones).to_bytes(length, "big")
