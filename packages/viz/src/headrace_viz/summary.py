"""Functions that add summary operations to the graph that is being built: `headrace_viz.summary.scalar(...)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import headrace as hr

__all__ = ["merge", "scalar"]


def scalar(tag: str, value: Any, *, name: str | None = None) -> hr.Tensor:
    """Add an operation that records a number under a tag.

    Args:
      tag: name of the curve, kept as it is; `/` groups curves.
      value: real number `[]`: a tensor, or what can be made one.
      name: name of the operation; by default the tag with `_` for each character that a name may not have.
    Returns:
      string `[]`, a serialised Summary; its value is written by `EventWriter.summary`.
    Raises:
      DTypeError: the value is not a real number.
      ShapeError: the value is no scalar.

    Example:
      >>> import tempfile
      >>> import headrace as hr
      >>> import headrace_viz
      >>> with hr.Graph().as_default() as graph:
      ...     summary = headrace_viz.summary.scalar("loss", hr.constant(0.5))
      >>> with tempfile.TemporaryDirectory() as logdir, headrace_viz.EventWriter(logdir) as writer:
      ...     with hr.Session(graph) as session:
      ...         writer.summary(session.run(summary), step=1)
    """
    summary: hr.Tensor = hr.apply_op("ScalarSummary", tag, value, name=name or _operation_name(tag))
    return summary


def merge(summaries: Sequence[hr.Tensor], *, name: str | None = None) -> hr.Tensor:
    """Add an operation that joins summaries, so that one fetch gives them all.

    Args:
      summaries: string tensors of serialised Summaries, at least one; no tag may repeat.
      name: name of the operation.
    Returns:
      string `[]`, a serialised Summary.

    Example:
      >>> import headrace as hr
      >>> import headrace_viz
      >>> with hr.Graph().as_default() as graph:
      ...     curves = [headrace_viz.summary.scalar(tag, 1.0) for tag in ("a", "b")]
      ...     print(headrace_viz.summary.merge(curves, name="all").name)
      all:0
    """
    summary: hr.Tensor = hr.apply_op("MergeSummary", list(summaries), name=name)
    return summary


def _operation_name(tag: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-/]", "_", tag).lstrip("_-./") or "ScalarSummary"
