"""Kernels of the files family."""

from __future__ import annotations

import glob
import os
import tempfile
from pathlib import Path

import numpy as np

from headrace.errors import NotFoundError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array

__all__ = ["path_of", "unreadable"]


def path_of(filename: Array) -> Path:
    """The path that a string scalar says; bytes that are not UTF-8 stay what they are."""
    return Path(os.fsdecode(np.asarray(filename).item()))


def unreadable(path: Path, error: OSError) -> NotFoundError:
    """The error of a file that cannot be opened."""
    return NotFoundError(
        f"file '{path}' cannot be opened",
        expected="a file that this process may read and write",
        got=error.strerror or type(error).__name__,
        hint="give the path as seen by the process that runs the step",
    )


@register_kernel("ReadFile")
def _read(op: OpContext, filename: Array) -> Array:
    path = path_of(filename)
    result = np.empty((), object)
    try:
        result[()] = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    return result


@register_kernel("WriteFile")
def _write(op: OpContext, filename: Array, contents: Array) -> None:
    path = path_of(filename)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            file.write(np.asarray(contents).item())
        os.replace(file.name, path)
    except OSError as error:
        raise unreadable(path, error) from error


@register_kernel("MatchingFiles")
def _matching(op: OpContext, pattern: Array) -> Array:
    found = {os.fsencode(name) for item in np.reshape(pattern, -1).tolist() for name in glob.glob(os.fsdecode(item))}
    return np.array(sorted(found), object)
