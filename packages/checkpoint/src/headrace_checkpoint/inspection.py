"""What `headrace inspect PATH` shows of the files of this package."""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace_checkpoint.dtypes import dtype_name
from headrace_checkpoint.manifest import MANIFEST
from headrace_checkpoint.proto.saved_model_pb2 import TensorInfo
from headrace_checkpoint.safetensors import SafetensorsFile
from headrace_checkpoint.saved_model import FILE, VARIABLES, read_saved_model
from headrace_checkpoint.store import StoredStep, list_steps, read_manifest
from headrace_checkpoint.tensor_bundle import TensorBundle

__all__ = ["inspect_path"]

_MEMBER = re.compile(r"\.index\Z|\.data-\d{5}-of-\d{5}\Z")


def inspect_path(path: str | os.PathLike[str]) -> list[str] | None:
    """Describe a checkpoint directory, a saved step, a safetensors file, a TensorFlow checkpoint or a saved model.

    Args:
      path: a file, folder, or the prefix or any file of a TensorFlow checkpoint.
    Returns:
      Lines of text, or None if it is none of these.
    Raises:
      DataLossError: it is one of these, and damaged.
    """
    place = Path(path)
    if (place / FILE).is_file():
        return _saved_model(place)
    if (place / MANIFEST).is_file():
        return _step(place)
    if place.is_dir() and list_steps(place):
        return _directory(place)
    if place.is_file() and place.suffix == ".safetensors":
        return _safetensors(place)
    prefix = _MEMBER.sub("", os.fspath(path))
    return _bundle(prefix) if os.path.isfile(f"{prefix}.index") else None


def _saved_model(path: Path) -> list[str]:
    meta = read_saved_model(path)
    lines = [f"saved model {path}: {len(meta.graph_def.node)} operations, tags {', '.join(meta.meta_info_def.tags)}"]
    for name, signature in sorted(meta.signature_def.items()):
        lines.append(f"  signature {name}")
        lines += _side("in", signature.inputs) + _side("out", signature.outputs)
    if os.path.isfile(f"{path / VARIABLES}.index"):
        lines += ["  " + line for line in _bundle(os.fspath(path / VARIABLES))]
    return lines


def _side(label: str, infos: Mapping[str, TensorInfo]) -> list[str]:
    return [f"    {label:<4}{alias}: {_type(info)} ({info.name})" for alias, info in sorted(infos.items())]


def _type(info: TensorInfo) -> str:
    sizes = ["?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim]
    shape = "<unknown>" if info.tensor_shape.unknown_rank else f"[{', '.join(sizes)}]"
    return dtype_name(info.dtype) + shape


def _directory(path: Path) -> list[str]:
    lines = [f"checkpoint directory {path}"]
    for name in list_steps(path):
        manifest = read_manifest(path / str(name))
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
    arrays = {name: (tensor.dtype, tensor.shape, tensor.chunks[0].crc32c) for name, tensor in manifest.tensors.items()}
    return lines + _table((name, *facts) for name, facts in arrays.items())


def _safetensors(path: Path) -> list[str]:
    with SafetensorsFile(path) as file:
        lines = [f"safetensors file {path}: {len(file)} tensors, {file.size:,} bytes"]
        lines += [f"  metadata {key} = {value:.60}" for key, value in file.metadata.items()]
        entries = list(file.entries.values())
    return lines + _table(
        (e.name, e.value_dtype, e.value_shape, "-" if e.crc32c is None else f"{e.crc32c:08x}") for e in entries
    )


def _bundle(prefix: str) -> list[str]:
    bundle = TensorBundle(prefix)
    lines = [f"TensorFlow checkpoint {prefix}: {len(bundle)} tensors, {bundle.num_shards} shards"]
    return lines + _table(
        (name, e.dtype_name, e.shape, f"{len(e.slices)} slices" if e.slices else f"{e.crc32c:08x}")
        for name, e in bundle.entries.items()
    )


def _table(rows: Iterable[tuple[str, str, tuple[int, ...], str]]) -> list[str]:
    """One line for each tensor: name, type, number of elements, checksum."""
    table = [(name, dtype + str(list(shape)), f"{math.prod(shape):,}", crc) for name, dtype, shape, crc in sorted(rows)]
    widths = [max((len(row[column]) for row in table), default=0) for column in range(3)]
    return [
        f"  {name:<{widths[0]}}  {kind:<{widths[1]}}  {count:>{widths[2]}}  {crc}" for name, kind, count, crc in table
    ]


def _when(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
