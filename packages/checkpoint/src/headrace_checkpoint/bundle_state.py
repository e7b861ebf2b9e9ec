"""The file `checkpoint` in a folder of TensorFlow's checkpoints: which is the newest, in protobuf's text form.

It is advice, not truth: it may name what was moved or deleted since. Relative paths are relative to its folder; an
absolute path that is gone is looked for beside the file, by its name, since folders get moved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import DataLossError, NotFoundError
from headrace_checkpoint.durable import DISK, Disk, replace_file

__all__ = ["STATE", "newest_bundle", "write_bundle_state"]

STATE = "checkpoint"

_FIELD = re.compile(
    rb'^\s*(model_checkpoint_path|all_model_checkpoint_paths)\s*:\s*"((?:[^"\\]|\\.)*)"\s*$', re.MULTILINE
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def newest_bundle(folder: str | os.PathLike[str]) -> str | None:
    """The prefix of the newest TensorFlow checkpoint in a folder, by its file `checkpoint`.

    Args:
      folder: where the file is.
    Returns:
      The prefix, or None if there is no such file.
    Raises:
      DataLossError: the file is damaged.
      NotFoundError: it names a checkpoint that is neither where it says nor beside it.
    """
    file = Path(folder) / STATE
    if not file.is_file():
        return None
    fields = _FIELD.findall(file.read_bytes())
    named = [_unescaped(value) for key, value in fields if key == b"model_checkpoint_path"]
    if len(named) != 1:
        raise DataLossError(
            "not a valid state file of checkpoints",
            where=str(file),
            expected='one line model_checkpoint_path: "..."',
            got=f"{len(named)} such lines",
            hint="name the checkpoint itself, by its prefix",
        )
    candidates = [os.path.join(folder, named[0]), os.path.join(folder, os.path.basename(named[0]))]
    found = next((prefix for prefix in candidates if os.path.isfile(f"{prefix}.index")), None)
    if found is None:
        raise NotFoundError(
            "the newest checkpoint is not where the state file says, nor beside that file",
            where=str(file),
            expected=f"{candidates[0]}.index",
            got="no such file",
            hint="name the checkpoint itself, by its prefix",
        )
    return found


def write_bundle_state(
    folder: str | os.PathLike[str], prefixes: Sequence[str | os.PathLike[str]], disk: Disk = DISK
) -> None:
    """Write the file `checkpoint`, with paths relative to it, so that the folder may be moved.

    Args:
      folder: where the checkpoints are.
      prefixes: those that are kept, the newest last; at least one.
      disk: whose system calls to use.
    Raises:
      OSError: the disk refused.

    Example:
      >>> import numpy as np, pathlib, tempfile
      >>> from headrace_checkpoint import save_bundle
      >>> folder = pathlib.Path(tempfile.mkdtemp())
      >>> save_bundle(folder / "model-1", {"w": np.zeros(2)})
      >>> write_bundle_state(folder, [folder / "model-1"])
      >>> newest_bundle(folder) == str(folder / "model-1")
      True
    """
    names = [_escaped(os.path.relpath(os.path.abspath(prefix), os.path.abspath(folder))) for prefix in prefixes]
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    replace_file(Path(folder) / STATE, ["".join(line + "\n" for line in lines).encode()], disk)


def _escaped(path: str) -> str:
    """A path between quotes in protobuf's text form, which is of bytes: those beyond ASCII by their numbers."""
    return "".join(
        f"\\{byte:03o}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte) for byte in os.fsencode(path)
    )


def _unescaped(text: bytes) -> str:
    """Undo the escapes of protobuf's text form: bytes by number, and letters."""

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1]
        if code[0] in b"01234567":
            return bytes([int(code, 8) & 255])
        if code[0] in b"x" and len(code) > 1:
            return bytes([int(code[1:], 16)])
        return _LETTERS.get(code, code)

    return os.fsdecode(_ESCAPE.sub(byte, text))
