"""Targets: the files that tensors can be written to besides a directory of steps."""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import replace_file
from headrace_checkpoint.safetensors import save_safetensors
from headrace_checkpoint.shards import split_by_size
from headrace_checkpoint.tensor_bundle import save_bundle

__all__ = ["FORMATS", "format_of", "save_indexed_safetensors", "write_tensors"]

INDEX_SUFFIX = ".safetensors.index.json"
_COPIED = 8 << 20  # bytes at a time
_MAX_NAME = 65_000  # bytes of a name; zip files count those of names in 16 bits


_PREFIX = re.compile(r"[^.]*|.*\.ckpt(-\d+)?")
"""What prefixes of TensorFlow's checkpoints look like: they have no ending, or its own."""


def format_of(path: str | os.PathLike[str]) -> str:
    """The format that a path's name asks for: one of `FORMATS`.

    Raises:
      InvalidArgumentError: the name has an ending that is none of these formats'.
    """
    name = Path(path).name
    if name.endswith(INDEX_SUFFIX):
        return "index"
    for ending, form in {".safetensors": "safetensors", ".npz": "npz"}.items():
        if name.endswith(ending):
            return form
    if _PREFIX.fullmatch(name) is None:
        raise InvalidArgumentError(
            "no format of tensors has this ending",
            expected=f".safetensors, {INDEX_SUFFIX}, .npz, or for TensorFlow a prefix without an ending or with .ckpt",
            got=name,
            hint=f"give the file another name, or say the format: {', '.join(FORMATS)}",
        )
    return "tensorflow"


def write_tensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], *, form: str | None = None, shard_bytes: int = 5 * 10**9
) -> None:
    """Write tensors to one file, or one set of files, of another program's format.

    Args:
      path: the file, or the prefix of a TensorFlow checkpoint.
      arrays: name to array.
      form: one of `FORMATS`; None: what the path's name asks for.
      shard_bytes: the size of the files of an index.
    Raises:
      InvalidArgumentError: there is no such format, or the path's name asks for none.
      DTypeError: an array that the format cannot hold.
      OSError: the disk refused.
    """
    chosen = format_of(path) if form is None else form
    if chosen not in FORMATS:
        raise InvalidArgumentError(
            "there is no such format of tensors", expected=", ".join(FORMATS), got=chosen, hint="name one of these"
        )
    if chosen == "index":
        save_indexed_safetensors(path, arrays, shard_bytes)
    else:
        FORMATS[chosen](Path(path), arrays)


def save_indexed_safetensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], shard_bytes: int = 5 * 10**9
) -> None:
    """Write several safetensors files and, last, the index that names them, as Hugging Face's libraries do.

    Args:
      path: the index, `NAME.safetensors.index.json`; the files are `NAME-00001-of-00002.safetensors` and so on.
      arrays: name to array; a file ends before it would exceed `shard_bytes`.
      shard_bytes: their size.
    Raises:
      InvalidArgumentError: the path has another ending, or no room is left in a file.
      DTypeError: an array's dtype has no form in the format.
      OSError: the disk refused.

    Example:
      >>> import numpy as np, pathlib, tempfile
      >>> folder = pathlib.Path(tempfile.mkdtemp())
      >>> arrays = {"a": np.zeros(3), "b": np.zeros(3)}
      >>> save_indexed_safetensors(folder / "model.safetensors.index.json", arrays, shard_bytes=30)
      >>> sorted(file.name for file in folder.iterdir())[:2]
      ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    """
    index = Path(path)
    if not index.name.endswith(INDEX_SUFFIX):
        raise InvalidArgumentError(
            "an index of safetensors files has another name",
            expected=f"NAME{INDEX_SUFFIX}",
            got=index.name,
            hint=f"model{INDEX_SUFFIX}",
        )
    stem = index.name.removesuffix(INDEX_SUFFIX)
    groups = split_by_size({name: array.nbytes for name, array in arrays.items()}, shard_bytes)
    files: dict[str, str] = {}
    for number, group in enumerate(groups, 1):
        file = f"{stem}-{number:05d}-of-{len(groups):05d}.safetensors"
        save_safetensors(index.with_name(file), {name: arrays[name] for name in group})
        files |= dict.fromkeys(group, file)
    content = {"metadata": {"total_size": sum(array.nbytes for array in arrays.values())}, "weight_map": files}
    replace_file(index, [(json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()])


def _save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    plain = {_member(name): _plain(name, array) for name, array in arrays.items()}
    with tempfile.TemporaryFile(dir=path.parent) as file:
        # Not `numpy.savez`, which takes "file" and "allow_pickle" for its own arguments.
        try:
            with zipfile.ZipFile(file, "w") as archive:
                for member, array in plain.items():
                    with archive.open(member, "w", force_zip64=True) as stream:
                        np.lib.format.write_array(stream, array, allow_pickle=False)
        except OSError as error:
            error.filename = str(path)  # the file that the disk had no room for has no name
            raise
        file.seek(0)
        replace_file(path, iter(lambda: file.read(_COPIED), b""))


def _member(name: str) -> str:
    """The name of an array's file in the archive."""
    if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name) or len(name.encode()) > _MAX_NAME:
        raise InvalidArgumentError(
            "an array of an .npz file cannot have this name",
            expected=f"text in Unicode without zero bytes, of at most {_MAX_NAME} bytes",
            got=repr(name)[:80],
            hint="choose another name, or write a .safetensors file",
        )
    return f"{name}.npy"


def _plain(name: str, array: Array) -> Array:
    """An array that `np.load` gives back as it is."""
    if array.dtype.kind == "O":
        if any(item.endswith(b"\0") for item in array.flat):
            raise DTypeError(
                f"array {name!r} has strings that NumPy would cut",
                expected="strings that do not end with a zero byte",
                got="some that do",
                hint="safetensors files of this package and TensorFlow's checkpoints hold them",
            )
        return array.astype("S")
    if array.dtype.kind == "V":
        raise DTypeError(
            f"array {name!r} has a dtype that .npz files do not name",
            expected="a dtype of NumPy's own",
            got=array.dtype.name,
            hint="write a .safetensors file instead",
        )
    return array


FORMATS: dict[str, Callable[[Path, Mapping[str, Array]], None]] = {
    "safetensors": save_safetensors,
    "index": save_indexed_safetensors,
    "npz": _save_npz,
    "tensorflow": save_bundle,
}
"""The formats by name: one file, or the prefix of TensorFlow's."""
