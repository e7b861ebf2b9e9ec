"""Signature: a named function of a graph, for export and serving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.graph.operation import Tensor

__all__ = ["Signature"]


@dataclass(frozen=True, slots=True)
class Signature:
    """Which tensors of a graph are the inputs and outputs of one of its uses.

    Attributes:
      inputs: for each public name the tensor to feed.
      outputs: for each public name the tensor to fetch.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.placeholder(hr.float32, [None])
      ...     signature = hr.Signature(inputs={"x": x}, outputs={"y": x * 2.0})
    """

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
