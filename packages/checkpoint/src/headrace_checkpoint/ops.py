"""Operations that save and restore tensors from within a graph (paper, section 4.3), in TensorFlow's checkpoint files.

They are usable on their own in any graph: `hr.apply_op("SaveV2", prefix, names, slices, tensors)`. A program that only
wants its variables saved uses `Saver`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.tensor_bundle import ArraySlice, TensorBundle, merge_bundles, save_bundle

if TYPE_CHECKING:
    from headrace.graph.op_def import InferenceContext

__all__: list[str] = []


class _Slice(NamedTuple):
    """A box of a larger tensor, as `shape_and_slices` spells it."""

    full_shape: tuple[int, ...]
    start: tuple[int, ...]
    length: tuple[int, ...]


def _parse_slice(text: str) -> _Slice | None:
    """Read `"6 4 0,2:-"`: the full shape, then start and length of each axis, `-` for a whole one; None for `""`."""
    if not text:
        return None
    *sizes, boxes = text.split(" ")
    parts = boxes.split(":")
    try:
        full_shape = tuple(int(size) for size in sizes)
        if len(parts) != len(full_shape) or min(full_shape, default=0) < 0:
            raise ValueError
        bounds = [(0, size) if part == "-" else _bounds(part) for part, size in zip(parts, full_shape, strict=True)]
        if any(
            start < 0 or length < 0 or start + length > size
            for (start, length), size in zip(bounds, full_shape, strict=True)
        ):
            raise ValueError
    except ValueError:
        raise InvalidArgumentError(
            "a slice of a tensor is spelt wrongly",
            expected="'' or such as '6 4 0,2:-', inside the shape",
            got=repr(text),
            hint="'' means the whole tensor",
        ) from None
    return _Slice(full_shape, tuple(start for start, _ in bounds), tuple(length for _, length in bounds))


def _bounds(part: str) -> tuple[int, int]:
    start, length = part.split(",")
    return int(start), int(length)


def _check_rank(op: InferenceContext, index: int, rank: int, name: str) -> None:
    shape = op.inputs[index].shape
    if shape.rank not in (None, rank):
        kind = "a scalar" if rank == 0 else "a vector"
        raise ShapeError(
            f"'{name}' of {op.type} must be {kind}",
            expected=f"rank {rank}",
            got=str(shape),
            hint=f"hr.reshape it to {kind}",
        )


def _slice_shape(spec: str) -> hr.Shape:
    """The shape of a slice that is spelt so; unknown for `""`, the whole tensor."""
    part = _parse_slice(spec)
    return hr.Shape() if part is None else hr.Shape(part.length)


def _check_vectors(op: InferenceContext, count: int, slices: str = "shape_and_slices") -> None:
    """Names and slices of `count` tensors, inputs 1 and 2 of what saves or restores several."""
    for index, name in ((1, "tensor_names"), (2, slices)):
        _check_rank(op, index, 1, name)
        size = op.inputs[index].shape[0]
        if size not in (None, count):
            raise ShapeError(
                f"'{name}' of {op.type} has the wrong length",
                expected=f"[{count}]",
                got=f"[{size}]",
                hint="give one for each tensor",
            )


_MANY = {"dtypes": hr.attr.list_of(hr.attr.any_type, minimum=1)}


@hr.register_op(
    "SaveV2",
    inputs={"prefix": "string", "tensor_names": "string", "shape_and_slices": "string", "tensors": "dtypes"},
    attrs=_MANY,
    stateful=True,
)
def _save_v2_shape(op: InferenceContext) -> list[hr.Shape]:
    """Writes tensors to a checkpoint `prefix.index`, `prefix.data-...`, each under its name; whole, or as a slice."""
    _check_rank(op, 0, 0, "prefix")
    _check_vectors(op, len(op.inputs) - 3)
    return []


@hr.register_op(
    "RestoreV2",
    inputs={"prefix": "string", "tensor_names": "string", "shape_and_slices": "string"},
    outputs={"tensors": "dtypes"},
    attrs=_MANY,
    stateful=True,
)
def _restore_v2_shape(op: InferenceContext) -> list[hr.Shape]:
    """Reads tensors, or slices of them, from a checkpoint by name."""
    count = len(op.attr("dtypes"))
    _check_rank(op, 0, 0, "prefix")
    _check_vectors(op, count)
    specs = op.constant(2)
    if specs is None:
        return [hr.Shape()] * count
    return [_slice_shape(_text(item)) for item in specs.reshape(-1).tolist()]


@hr.register_op(
    "MergeV2Checkpoints",
    inputs={"checkpoint_prefixes": "string", "destination_prefix": "string"},
    attrs={"delete_old_dirs": hr.attr.bool(True), "allow_missing_files": hr.attr.bool(False)},
    stateful=True,
)
def _merge_shape(op: InferenceContext) -> list[hr.Shape]:
    """Makes one checkpoint of several by moving their files; then removes the folders that are left empty."""
    _check_rank(op, 0, 1, "checkpoint_prefixes")
    _check_rank(op, 1, 0, "destination_prefix")
    return []


@hr.register_op(
    "ShardedFilename",
    inputs={"basename": "string", "shard": "int32", "num_shards": "int32"},
    outputs={"filename": "string"},
)
def _sharded_filename_shape(op: InferenceContext) -> list[hr.Shape]:
    """The name of one shard of several, `basename-00001-of-00003`."""
    for index, name in enumerate(("basename", "shard", "num_shards")):
        _check_rank(op, index, 0, name)
    return [hr.Shape([])]


@hr.register_op("ShardedFilespec", inputs={"basename": "string", "num_shards": "int32"}, outputs={"filename": "string"})
def _sharded_filespec_shape(op: InferenceContext) -> list[hr.Shape]:
    """The pattern that the names of all shards match, `basename-?????-of-00003`."""
    for index, name in enumerate(("basename", "num_shards")):
        _check_rank(op, index, 0, name)
    return [hr.Shape([])]


@hr.register_op(
    "Save",
    inputs={"filename": "string", "tensor_names": "string", "data": "T"},
    attrs={"T": hr.attr.list_of(hr.attr.any_type, minimum=1)},
    stateful=True,
)
def _save_shape(op: InferenceContext) -> list[hr.Shape]:
    """Writes whole tensors to a checkpoint under their names. The files are those of `SaveV2`, with this prefix."""
    _check_rank(op, 0, 0, "filename")
    _check_rank(op, 1, 1, "tensor_names")
    return []


@hr.register_op(
    "SaveSlices",
    inputs={"filename": "string", "tensor_names": "string", "shapes_and_slices": "string", "data": "T"},
    attrs={"T": hr.attr.list_of(hr.attr.any_type, minimum=1)},
    stateful=True,
)
def _save_slices_shape(op: InferenceContext) -> list[hr.Shape]:
    """Writes tensors to a checkpoint under their names, each whole or as a slice of a larger one, as `Save` does."""
    _check_rank(op, 0, 0, "filename")
    _check_vectors(op, len(op.inputs) - 3, slices="shapes_and_slices")
    return []


@hr.register_op(
    "Restore",
    inputs={"file_pattern": "string", "tensor_name": "string"},
    outputs={"tensor": "dt"},
    attrs={"dt": hr.attr.any_type, "preferred_shard": hr.attr.int(-1)},
    stateful=True,
)
def _restore_shape(op: InferenceContext) -> list[hr.Shape]:
    """Reads one tensor of a checkpoint by its name."""
    _check_rank(op, 0, 0, "file_pattern")
    _check_rank(op, 1, 0, "tensor_name")
    return [hr.Shape()]


@hr.register_op(
    "RestoreSlice",
    inputs={"file_pattern": "string", "tensor_name": "string", "shape_and_slice": "string"},
    outputs={"tensor": "dt"},
    attrs={"dt": hr.attr.any_type, "preferred_shard": hr.attr.int(-1)},
    stateful=True,
)
def _restore_slice_shape(op: InferenceContext) -> list[hr.Shape]:
    """Reads one tensor of a checkpoint, or a slice of it, by its name."""
    for index, name in enumerate(("file_pattern", "tensor_name", "shape_and_slice")):
        _check_rank(op, index, 0, name)
    spec = op.constant(2)
    return [hr.Shape() if spec is None else _slice_shape(_text(spec.item()))]


for _name in ("SaveV2", "MergeV2Checkpoints", "Save", "SaveSlices"):
    hr.no_gradient(_name, "it has no output")
for _name in ("RestoreV2", "Restore", "RestoreSlice"):
    hr.no_gradient(_name, "what a file holds does not depend on the graph")
for _name in ("ShardedFilename", "ShardedFilespec"):
    hr.no_gradient(_name, "it computes a name")


def _text(item: bytes | str) -> str:
    return item if isinstance(item, str) else os.fsdecode(item)


def _texts(items: Array) -> list[str]:
    return [_text(item) for item in items.reshape(-1).tolist()]


@hr.register_kernel("SaveV2")
@hr.register_kernel("SaveSlices")
def _save_v2(op: OpContext, prefix: Array, names: Array, slices: Array, tensors: Sequence[Array]) -> None:
    whole: dict[str, Array] = {}
    parts: dict[str, list[ArraySlice]] = {}
    for name, spec, tensor in zip(_texts(names), _texts(slices), tensors, strict=True):
        part = _parse_slice(spec)
        if part is None:
            if name in whole or name in parts:
                raise InvalidArgumentError(
                    f"tensor {name!r} is to be saved twice",
                    expected="a name for each tensor, or a slice for each part of one",
                    got=", ".join(_texts(names)),
                    hint="give each its own name",
                )
            whole[name] = tensor
        elif part.length != tensor.shape:
            raise ShapeError(
                f"a slice of {name!r} is not as spelt",
                expected=str(part.length),
                got=str(tensor.shape),
                hint="shape_and_slices gives start and length of each axis",
            )
        else:
            parts.setdefault(name, []).append(ArraySlice(part.full_shape, part.start, tensor))
    path = _text(prefix.item())
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    save_bundle(path, whole, parts)


@hr.register_kernel("Save")
def _save(op: OpContext, filename: Array, names: Array, tensors: Sequence[Array]) -> None:
    slices = np.full(names.shape, b"", object)
    _save_v2(op, filename, names, slices, tensors)


@hr.register_kernel("RestoreV2")
def _restore_v2(op: OpContext, prefix: Array, names: Array, slices: Array) -> tuple[Array, ...]:
    bundle = TensorBundle(_text(prefix.item()))
    wanted = zip(_texts(names), _texts(slices), op.attr("dtypes"), strict=True)
    return tuple(_restore_one(bundle, name, spec, dtype) for name, spec, dtype in wanted)


@hr.register_kernel("Restore")
def _restore(op: OpContext, pattern: Array, name: Array) -> Array:
    return _restore_one(TensorBundle(_text(pattern.item())), _text(name.item()), "", op.attr("dt"))


@hr.register_kernel("RestoreSlice")
def _restore_slice(op: OpContext, pattern: Array, name: Array, spec: Array) -> Array:
    bundle = TensorBundle(_text(pattern.item()))
    return _restore_one(bundle, _text(name.item()), _text(spec.item()), op.attr("dt"))


def _restore_one(bundle: TensorBundle, name: str, spec: str, dtype: hr.DType) -> Array:
    value = bundle.read(name)
    if value.dtype != dtype.array_type:
        got = bundle.entries[name].dtype_name
        raise DTypeError(
            f"tensor {name!r} in the checkpoint has another dtype",
            expected=str(dtype),
            got=got,
            hint="restore it with its own dtype and hr.astype it",
        )
    part = _parse_slice(spec)
    if part is None:
        return value.copy()  # not a view of a file that may go
    if part.full_shape != value.shape:
        raise ShapeError(
            f"tensor {name!r} in the checkpoint has another shape",
            expected=str(part.full_shape),
            got=str(value.shape),
            hint="spell the slice of the shape that was saved",
        )
    box = tuple(slice(start, start + length) for start, length in zip(part.start, part.length, strict=True))
    return value[box].copy()


@hr.register_kernel("MergeV2Checkpoints")
def _merge(op: OpContext, prefixes: Array, destination: Array) -> None:
    paths = [path for path in _texts(prefixes) if not op.attr("allow_missing_files") or os.path.exists(path + ".index")]
    target = _text(destination.item())
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    merge_bundles(paths, target)
    if op.attr("delete_old_dirs"):
        for folder in {Path(path).parent for path in paths} - {Path(target).parent}:
            if not any(folder.iterdir()):
                shutil.rmtree(folder)


@hr.register_kernel("ShardedFilename")
def _sharded_filename(op: OpContext, basename: Array, shard: Array, num_shards: Array) -> Array:
    return _file_name(f"{_text(basename.item())}-{int(shard):05d}-of-{int(num_shards):05d}")


@hr.register_kernel("ShardedFilespec")
def _sharded_filespec(op: OpContext, basename: Array, num_shards: Array) -> Array:
    return _file_name(f"{_text(basename.item())}-?????-of-{int(num_shards):05d}")


def _file_name(text: str) -> Array:
    result = np.empty((), object)
    result[()] = os.fsencode(text)
    return result
