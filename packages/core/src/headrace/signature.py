"""Signature: a named function of a graph, for export and serving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import InvalidArgumentError
from headrace.graph.operation import Tensor

__all__ = ["Signature"]


@dataclass(frozen=True, slots=True)
class Signature:
    """Which tensors of a graph are the inputs and outputs of one of its uses.

    Attributes:
      inputs: for each public name the tensor to feed.
      outputs: for each public name the tensor to fetch.
    Raises:
      InvalidArgumentError: something else is given in the place of a tensor.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.placeholder(hr.float32, [None])
      ...     signature = hr.Signature(inputs={"x": x}, outputs={"y": x * 2.0})
    """

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        for side, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            given: Mapping[str, object] = tensors
            wrong = {alias: value for alias, value in given.items() if not isinstance(value, Tensor)}
            for alias, value in wrong.items():
                raise InvalidArgumentError(
                    f"{alias!r} of a signature's {side} is not a tensor",
                    expected="a tensor of a graph",
                    got=f"a {type(value).__name__}",
                    hint="give placeholders as inputs and what is computed from them as outputs",
                )
