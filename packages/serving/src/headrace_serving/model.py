"""What the server needs of a loaded model; `headrace_checkpoint.load_model` gives such objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.graph.proto.types_pb2 import DataType

Array = NDArray[np.generic]
"""A tensor's value; strings are an object array of bytes."""


class TensorInfo(Protocol):
    """An input or output of a signature."""

    @property
    def dtype(self) -> hr.DType:
        """Element type."""
        ...

    @property
    def shape(self) -> hr.Shape:
        """Static shape; unknown where anything fits."""
        ...

    @property
    def name(self) -> str:
        """Name of the graph's tensor, such as `x:0`."""
        ...


class Signature(Protocol):
    """A function of a model, called by clients. Called from many threads at once."""

    @property
    def inputs(self) -> Mapping[str, TensorInfo]:
        """The tensors that a caller gives, by alias."""
        ...

    @property
    def outputs(self) -> Mapping[str, TensorInfo]:
        """The tensors that a caller gets, by alias."""
        ...

    def __call__(self, **inputs: Array) -> Mapping[str, Array]:
        """Compute the outputs, by alias; raises a HeadraceError where the inputs cannot be right."""
        ...


class Model(Protocol):
    """A loaded model."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures by name; clients that name none get `serving_default`."""
        ...


def type_name(dtype: hr.DType) -> str:
    """Return TensorFlow's name of an element type in messages.

    Example:
      >>> import headrace as hr
      >>> type_name(hr.float32)
      'float'
    """
    return DataType.Name(dtype.number).removeprefix("DT_").lower()
