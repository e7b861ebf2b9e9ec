"""What the server needs of a loaded model; `headrace_checkpoint.load_model` gives such objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.graph.proto.types_pb2 import DataType
from headrace_serving.errors import BadRequestError

DEFAULT_SIGNATURE = "serving_default"

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


def find_signature(name: str, signatures: Mapping[str, Signature]) -> tuple[str, Signature]:
    """Return a signature by its name, and the name itself; the empty name means `serving_default`.

    Raises:
      BadRequestError: there is none of this name.
    """
    found = signatures.get(name or DEFAULT_SIGNATURE)
    if found is None:
        raise BadRequestError(
            f'Serving signature name: "{name or DEFAULT_SIGNATURE}" not found in signature def',
            expected="one of: " + ", ".join(sorted(signatures)),
            got=name or DEFAULT_SIGNATURE,
            hint="choose one by 'signature_name'; GET .../metadata describes them",
        )
    return name or DEFAULT_SIGNATURE, found


def check_shape(alias: str, tensor: Array, info: TensorInfo) -> None:
    """Check that a signature allows a tensor's shape.

    Raises:
      BadRequestError: it does not.
    """
    if not info.shape.is_compatible_with(hr.Shape(tensor.shape)):
        raise BadRequestError(
            f"Input '{alias}' has a shape that the signature does not allow",
            expected=str(info.shape),
            got=str(hr.Shape(tensor.shape)),
            hint="GET .../metadata tells the shapes that each input may have",
        )
