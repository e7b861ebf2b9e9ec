"""What `headrace inspect PATH` shows of the files of this package."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.errors import DataLossError, DTypeError, NotFoundError
from headrace.graph.proto.op_def_pb2 import OpDef
from headrace_checkpoint.dtypes import dtype_name
from headrace_checkpoint.manifest import MANIFEST
from headrace_checkpoint.model_description import (
    FILE,
    VARIABLES,
    asset_path,
    assets_of,
    initializers_of,
    read_saved_model,
)
from headrace_checkpoint.proto.saved_model_pb2 import TensorInfo
from headrace_checkpoint.sources import OpenSource, open_source, source_of_step
from headrace_checkpoint.storage import storage_of
from headrace_checkpoint.store import StoredStep, list_steps, read_manifest

__all__ = ["inspect_path", "printable"]

_SHOWN = 3  # arguments of a function
_NEVER = 253_402_300_800.0  # seconds from 1970 to the year 10000, which calendars lack


def inspect_path(path: str | os.PathLike[str]) -> list[str] | None:
    """Describe a checkpoint directory, a saved step, a safetensors file, a TensorFlow checkpoint or a saved model.

    Args:
      path: a file, folder, or the prefix or any file of a TensorFlow checkpoint.
    Returns:
      Lines of text, or None if it is none of these.
    Raises:
      DataLossError: it is one of these, and damaged.
    """
    lines = _described(Path(path))
    return None if lines is None else [printable(line) for line in lines]


def printable(text: str) -> str:
    r"""A line of a terminal: in names of files of others there may be what moves its cursor, or is no text at all.

    Example:
      >>> printable("dense/kernel \x1b[2J")
      'dense/kernel \\x1b[2J'
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _described(place: Path) -> list[str] | None:
    if (place / FILE).is_file():
        return _saved_model(place)
    if (place / MANIFEST).is_file():
        return _step(place)
    if place.is_dir() and list_steps(place):
        return _directory(place)
    source = open_source(place)
    return None if source is None else _source(source)


def _saved_model(path: Path) -> list[str]:
    meta = read_saved_model(path)
    writer = meta.meta_info_def.tensorflow_version
    written = f", written by TensorFlow {writer}" if writer else ""
    tags = ", ".join(meta.meta_info_def.tags)
    lines = [f"saved model {path}: {len(meta.graph_def.node)} operations, tags {tags}{written}"]
    for name, signature in sorted(meta.signature_def.items()):
        if name.startswith("__"):
            continue  # TensorFlow's own, which nobody calls
        lines.append(f"  signature {name}")
        lines += _side("in", signature.inputs) + _side("out", signature.outputs)
    lines += [f"  initializer {name}" for name in initializers_of(meta)]
    lines += [f"  function {_function(item.signature)}" for item in meta.graph_def.library.function]
    lines += [f"  asset {asset.filename}: {_size(asset_path(path, asset.filename))}" for asset in assets_of(meta)]
    if os.path.isfile(f"{path / VARIABLES}.index"):
        variables = open_source(path / VARIABLES)
        lines += ["  " + line for line in _source(variables)] if variables is not None else []
    return lines


def _function(signature: OpDef) -> str:
    return f"{signature.name}({_arguments(signature.input_arg)}) -> ({_arguments(signature.output_arg)})"


def _arguments(arguments: Sequence[OpDef.ArgDef]) -> str:
    """The first few arguments of a function: loops and their gradients have hundreds."""
    shown = [f"{argument.name}: {dtype_name(argument.type)}" for argument in arguments[:_SHOWN]]
    left = len(arguments) - len(shown)
    return ", ".join([*shown, f"{left} more"] if left else shown)


def _size(path: Path) -> str:
    return f"{path.stat().st_size:,} bytes" if path.is_file() else "MISSING"


def _side(label: str, infos: Mapping[str, TensorInfo]) -> list[str]:
    return [f"    {label:<4}{alias}: {_type(info)} ({info.name})" for alias, info in sorted(infos.items())]


def _type(info: TensorInfo) -> str:
    sizes = ["?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim]
    shape = "<unknown>" if info.tensor_shape.unknown_rank else f"[{', '.join(sizes)}]"
    return dtype_name(info.dtype) + shape


def _directory(path: Path) -> list[str]:
    lines = [f"checkpoint directory {path}"]
    for name in list_steps(path):
        manifest = read_manifest(storage_of(path), str(name))
        metrics = ", ".join(f"{key}={value:g}" for key, value in manifest.metrics.items())
        size = sum(file.size for file in manifest.files.values())
        lines.append(
            f"  {name}  {_when(manifest.time)}  {len(manifest.tensors)} tensors  {size:,} bytes  {metrics}".rstrip()
        )
    return lines


def _step(path: Path) -> list[str]:
    step = StoredStep(path)
    manifest = step.manifest
    lines = [f"checkpoint {path}: step {manifest.step}, saved {_when(manifest.time)}"]
    lines += [f"  metric {name} = {value:g}" for name, value in manifest.metrics.items()]
    lines += [f"  object {name} = {value!r:.60}" for name, value in manifest.objects.items()]
    return lines + _table(source_of_step(step))


def _source(source: OpenSource) -> list[str]:
    lines = [f"{source.kind} {source.path}: {len(source.tensors)} tensors"]
    return lines + [f"  {note}" for note in source.notes] + _table(source)


def _table(source: OpenSource) -> list[str]:
    """One line for each tensor: name, type, size, checksum, and whether the bytes do not match it."""
    rows = []
    for name, kind in sorted(source.tensors.items()):
        rows.append((name, str(kind), *_content(source, name), source.checksums.get(name, "-")))
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1, 2, 4)]
    return [
        f"  {name:<{widths[0]}}  {kind:<{widths[1]}}  {size:>{widths[2]}}  {crc:<{widths[3]}}  {state}".rstrip()
        for name, kind, size, state, crc in rows
    ]


def _content(source: OpenSource, name: str) -> tuple[str, str]:
    """The size of a tensor's value, and what is wrong with it."""
    try:
        value = source.read(name)
    except DataLossError:
        return "", "DAMAGED"
    except (DTypeError, NotFoundError) as error:
        return "", error.what
    size = sum(map(len, value.flat)) if value.dtype == object else value.nbytes
    return f"{size:,} bytes", ""


def _when(seconds: float) -> str:
    if not 0 <= seconds < _NEVER:
        return "at no time"
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
