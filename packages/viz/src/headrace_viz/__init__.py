"""Write scalars and graphs as event files that TensorBoard reads."""

from __future__ import annotations

from headrace_viz import summary
from headrace_viz.callback import TensorBoard
from headrace_viz.writer import EventWriter

__all__ = ["EventWriter", "TensorBoard", "summary"]
