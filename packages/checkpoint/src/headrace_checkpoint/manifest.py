"""MANIFEST.json: what one step of a checkpoint holds; written last, so its presence means that all the rest is there.

The file is one JSON object and one more line, `crc32c xxxxxxxx`, the checksum of everything before that line. The
object:

    {"format": "headrace-checkpoint", "version": 1, "min_reader": 1,
     "step": 42, "time": 1795955563.2,
     "tensors": {"dense/kernel": {"dtype": "float32", "shape": [784, 10],
                 "chunks": [{"offset": [0, 0], "shape": [784, 10],
                             "file": "shard-00000-of-00001.safetensors", "crc32c": "1a2b3c4d"}]}},
     "files": {"shard-00000-of-00001.safetensors": {"size": 31576, "header_crc32c": "5e6f7a8b"}},
                or, compressed, {..., "zstd": {"size": 31576, "block": 4194304, "ends": [9120]}}
     "streams": {"dropout/random_uniform": [81985529216486895, 4096]},
     "objects": {"epoch": 3}, "metrics": {"val_accuracy": 0.97}}

`min_reader` is the oldest version of a reader that understands the file: 1 where each tensor is one chunk, 2 where some
are several, 3 where shards are compressed (see `compression`). A tensor's chunks fill it without overlap; `streams` is
where the streams of random numbers stood, key and counter by operation; `objects` is the user's own JSON. Each byte of
a step is under some checksum: the manifest's own, a shard's header's, or a tensor's.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from headrace.errors import DataLossError, InvalidArgumentError, UnimplementedError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.checksum import crc32c
from headrace_checkpoint.compression import Compression
from headrace_checkpoint.safetensors_header import unique_keys

__all__ = ["MANIFEST", "Chunk", "Manifest", "StoredFile", "StoredTensor", "plain_metrics", "plain_objects"]

MANIFEST = "MANIFEST.json"
FORMAT = "headrace-checkpoint"
VERSION = 3
MAX_CHUNKS = 4096
"""Of one tensor: that they do not overlap is checked pair by pair."""

_TRAILER = b"\ncrc32c "


@dataclass(frozen=True, slots=True)
class Chunk:
    """A box of a tensor and the shard that holds it under the tensor's name."""

    box: Box
    file: str
    crc32c: str


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The type of a stored tensor, and where its bytes are."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]

    def problem(self) -> str | None:
        """What keeps the chunks from being the tensor, in words, or None if they fill it exactly."""
        boxes = [chunk.box for chunk in self.chunks]
        if not boxes or len(boxes) > MAX_CHUNKS:
            return f"{len(boxes)} chunks, where 1 to {MAX_CHUNKS} are allowed"
        outside = next((box for box in boxes if not box.lies_in(self.shape)), None)
        if outside is not None:
            return f"the chunk {outside} is not within {list(self.shape)}"
        if any(a.intersection(b) is not None for a, b in itertools.combinations(boxes, 2)):
            return "two chunks overlap"
        stored, wanted = sum(box.num_elements for box in boxes), math.prod(self.shape)
        return None if stored == wanted else f"{stored} of {wanted} elements"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What a shard must look like.

    Attributes:
      size: of the file, in bytes.
      header_crc32c: the checksum of the header of its content.
      compression: how it is compressed, or None.
    """

    size: int
    header_crc32c: str
    compression: Compression | None = None

    @property
    def content_size(self) -> int:
        """The size of its content, in bytes."""
        return self.size if self.compression is None else self.compression.size


@dataclass(frozen=True, slots=True)
class Manifest:
    """The directory of one step.

    Attributes:
      step: the training step.
      time: when it was saved, in seconds since 1970.
      tensors: by name.
      files: the shards, by file name.
      streams: key and counter of each stream of random numbers, by operation.
      objects: the user's own JSON values, by name.
      metrics: numbers to choose the best step by.
    """

    step: int
    time: float
    tensors: Mapping[str, StoredTensor]
    files: Mapping[str, StoredFile]
    streams: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The content of the file.

        Raises:
          InvalidArgumentError: `objects` or `metrics` hold what JSON cannot.
        """
        content = {
            "format": FORMAT,
            "version": VERSION,
            "min_reader": self._min_reader(),
            "step": self.step,
            "time": self.time,
            "tensors": {name: _tensor_to_json(tensor) for name, tensor in self.tensors.items()},
            "files": {name: _file_to_json(file) for name, file in self.files.items()},
            "streams": dict(self.streams),
            "objects": dict(self.objects),
            "metrics": dict(self.metrics),
        }
        body = _json(content, indent=1)
        return body + _TRAILER + f"{crc32c(body):08x}\n".encode()

    def _min_reader(self) -> int:
        if any(file.compression is not None for file in self.files.values()):
            return 3
        return 1 if all(len(tensor.chunks) == 1 for tensor in self.tensors.values()) else 2

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """Read the content of the file.

        Args:
          data: the bytes.
          where: the file's path, for errors.
        Raises:
          DataLossError: it is damaged, cut off, or no manifest.
          UnimplementedError: only later versions of this package can read it.
        """
        body, found, trailer = data.rpartition(_TRAILER)
        if not found or trailer != f"{crc32c(body):08x}\n".encode():
            _refuse(where, "a last line with the checksum of all before", repr(data[-20:]))
        try:
            content = json.loads(body.decode("utf-8"), object_pairs_hook=unique_keys)
            if content["format"] != FORMAT:
                _refuse(where, f"the format {FORMAT!r}", repr(content["format"]))
            if content["min_reader"] > VERSION:
                raise UnimplementedError(
                    "the checkpoint was written by a later version",
                    where=where,
                    expected=f"format version {VERSION} or older",
                    got=f"{content['version']}",
                    hint="pip install --upgrade headrace-checkpoint",
                )
            return cls(
                step=_number(content["step"]),
                time=float(content["time"]),
                tensors={name: _tensor_from_json(item) for name, item in content["tensors"].items()},
                files={name: _file_from_json(item) for name, item in content["files"].items()},
                streams={name: _stream(item) for name, item in content["streams"].items()},
                objects=dict(content["objects"].items()),
                metrics={name: float(value) for name, value in content["metrics"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            _refuse(where, "a manifest", f"{type(error).__name__}: {error}")


def plain_objects(objects: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the user's objects, as they will be read again.

    Raises:
      InvalidArgumentError: they hold what JSON cannot.
    """
    copies: dict[str, Any] = json.loads(_json(dict(objects)))
    return copies


def plain_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics as numbers of Python.

    Raises:
      InvalidArgumentError: one is no number.
    """
    try:
        return {name: float(value) for name, value in metrics.items()}
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            "a metric of a checkpoint must be a number", expected="name to float", got=str(error), hint="float(value)"
        ) from None


def _json(content: object, indent: int | None = None) -> bytes:
    try:
        text = json.dumps(content, ensure_ascii=False, indent=indent, default=_refuse_object).encode("utf-8")
        _check_keys(content)
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            "objects and metrics of a checkpoint must be JSON",
            expected="dicts with str keys, lists, str, numbers, bool, None",
            got=str(error),
            hint="keep arrays in variables",
        ) from None


def _tensor_to_json(tensor: StoredTensor) -> dict[str, Any]:
    chunks = [
        {"offset": chunk.box.offset, "shape": chunk.box.shape, "file": chunk.file, "crc32c": chunk.crc32c}
        for chunk in tensor.chunks
    ]
    return {"dtype": tensor.dtype, "shape": tensor.shape, "chunks": chunks}


def _tensor_from_json(item: dict[str, Any]) -> StoredTensor:
    chunks = tuple(
        Chunk(Box(_sizes(chunk["offset"]), _sizes(chunk["shape"])), _text(chunk["file"]), _text(chunk["crc32c"]))
        for chunk in item["chunks"]
    )
    return StoredTensor(_text(item["dtype"]), _sizes(item["shape"]), chunks)


def _file_from_json(item: dict[str, Any]) -> StoredFile:
    return StoredFile(_number(item["size"]), _text(item["header_crc32c"]), _compression(item.get("zstd")))


def _file_to_json(file: StoredFile) -> dict[str, Any]:
    item: dict[str, Any] = {"size": file.size, "header_crc32c": file.header_crc32c}
    if file.compression is not None:
        item["zstd"] = {
            "size": file.compression.size,
            "block": file.compression.block,
            "ends": list(file.compression.ends),
        }
    return item


def _compression(item: dict[str, Any] | None) -> Compression | None:
    if item is None:
        return None
    found = Compression(_number(item["size"]), _number(item["block"]), _sizes(item["ends"]))
    problem = found.problem()
    if problem is not None:
        raise ValueError(problem)
    return found


def _sizes(value: list[Any]) -> tuple[int, ...]:
    return tuple(_number(size) for size in value)


def _stream(value: list[Any]) -> tuple[int, int]:
    key, counter = value
    return _number(key), _number(counter)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _check_keys(content: object) -> None:
    """Refuse keys that `json` would make text of: they would not be read again as they were, and two may become one."""
    rest = [content]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            for key in item:
                if not isinstance(key, str):
                    raise TypeError(f"the key {key!r} of type {type(key).__name__}")
            rest += item.values()
        elif isinstance(item, (list, tuple)):
            rest += item


def _refuse_object(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__}: {value!r}"[:200])


def _refuse(where: str, expected: str, got: str) -> NoReturn:
    raise DataLossError(
        "not a valid manifest of a checkpoint",
        where=where,
        expected=expected,
        got=got,
        hint="copy it again, or restore an earlier checkpoint",
    )
