"""Functions that add summary operations to the graph that is being built: `headrace_viz.summary.scalar(...)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import headrace as hr
from headrace_viz.proto.event_pb2 import SummaryMetadata

__all__ = ["histogram", "image", "merge", "scalar", "tensor", "text"]


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


def histogram(tag: str, values: Any, *, name: str | None = None) -> hr.Tensor:
    """Add an operation that records the histogram of a tensor under a tag.

    Args:
      tag: name of the histogram, kept as it is.
      values: real numbers of any shape; the step fails if one of them is NaN or infinite.
      name: name of the operation; by default made from the tag.
    Returns:
      string `[]`, a serialised Summary; its value is written by `EventWriter.summary`.

    Example:
      >>> import headrace as hr
      >>> import headrace_viz
      >>> with hr.Graph().as_default():
      ...     print(headrace_viz.summary.histogram("weights", [1.0, 2.0]).op.type)
      HistogramSummary
    """
    summary: hr.Tensor = hr.apply_op("HistogramSummary", tag, values, name=name or _operation_name(tag))
    return summary


def image(tag: str, pictures: Any, *, max_images: int = 3, name: str | None = None) -> hr.Tensor:
    """Add an operation that records pictures under the tags `tag/image/0`, `tag/image/1` and so on.

    Args:
      tag: beginning of the tags, kept as it is.
      pictures: uint8 or floating `[batch, height, width, 1, 3 or 4]`; floating ones are scaled, see `ImageSummary`.
      max_images: how many of a batch to record; with 1 the tag is `tag/image`.
      name: name of the operation; by default made from the tag.
    Returns:
      string `[]`, a serialised Summary; its value is written by `EventWriter.summary`.
    Raises:
      ShapeError: the pictures are no batch.

    Example:
      >>> import headrace as hr
      >>> import headrace_viz
      >>> with hr.Graph().as_default():
      ...     print(headrace_viz.summary.image("digit", hr.zeros([1, 8, 8, 1])).op.type)
      ImageSummary
    """
    summary: hr.Tensor = hr.apply_op(
        "ImageSummary", tag, pictures, max_images=max_images, name=name or _operation_name(tag)
    )
    return summary


def text(tag: str, value: Any, *, name: str | None = None) -> hr.Tensor:
    """Add an operation that records text in Markdown under a tag.

    Args:
      tag: name of the text, kept as it is.
      value: string `[]`, or `[rows]` or `[rows, columns]` for a table.
      name: name of the operation; by default made from the tag.
    Returns:
      string `[]`, a serialised Summary; its value is written by `EventWriter.summary`.

    Example:
      >>> import headrace as hr
      >>> import headrace_viz
      >>> with hr.Graph().as_default():
      ...     print(headrace_viz.summary.text("note", "**good**").op.type)
      TensorSummaryV2
    """
    return tensor(tag, value, plugin="text", name=name)


def tensor(tag: str, value: Any, *, plugin: str = "", name: str | None = None) -> hr.Tensor:
    """Add an operation that records a tensor as it is under a tag.

    Args:
      tag: its name, kept as it is.
      value: numbers or strings of any shape.
      plugin: name of TensorBoard's plugin that shows it; without one it is for readers only.
      name: name of the operation; by default made from the tag.
    Returns:
      string `[]`, a serialised Summary; its value is written by `EventWriter.summary`.

    Example:
      >>> import headrace as hr
      >>> import headrace_viz
      >>> with hr.Graph().as_default():
      ...     print(headrace_viz.summary.tensor("confusion", [[3, 1], [0, 4]]).name)
      confusion:0
    """
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin)).SerializeToString()
    summary: hr.Tensor = hr.apply_op("TensorSummaryV2", tag, value, metadata, name=name or _operation_name(tag))
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
