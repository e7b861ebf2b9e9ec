"""Where in the user's program something was created: the innermost line that is not ours."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import FrameType

__all__ = ["SourceLine", "user_line"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's program; printed as `file.py:12`, or `model/saved_model.pb, node 'x'`.

    Attributes:
      filename: the path of the file.
      line: the number of the line, from 1; 0 where it is not known.
      node: in a graph file, the name of the operation there.
    """

    filename: str
    line: int
    node: str = ""

    def __str__(self) -> str:
        if self.node:
            return f"{self.filename}, node '{self.node}'"
        return f"{os.path.basename(self.filename)}:{self.line}"


UNKNOWN_LINE = SourceLine("<unknown>", 0)


def _is_ours(frame: FrameType) -> bool:
    """True for frames of this package and its siblings (`headrace`, `headrace_checkpoint`, ...)."""
    module: str = frame.f_globals.get("__name__", "")
    root = module.partition(".")[0]
    return root == "headrace" or root.startswith("headrace_")


def user_line() -> SourceLine:
    """The innermost line on the call stack that lies outside the Headrace packages."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return UNKNOWN_LINE if frame is None else SourceLine(frame.f_code.co_filename, frame.f_lineno)
