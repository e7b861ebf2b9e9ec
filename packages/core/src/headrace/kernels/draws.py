"""What all random kernels check of their inputs."""

from __future__ import annotations

import math

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.distributions import Out
from headrace.types import Array

__all__ = ["integer_bounds", "number_of_draws", "requested_shape", "usable"]

_LARGEST_TENSOR = 2**63 - 1  # bytes


def requested_shape(op: OpContext, shape: Array) -> tuple[int, ...]:
    """Read the input that says which shape to make; raises ShapeError if it cannot be one."""
    sizes = tuple(int(size) for size in shape)
    if min(sizes, default=0) < 0:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot make a tensor with a negative size",
            expected="sizes of at least 0",
            got=str(list(sizes)),
            hint="hr.shape(x) gives the sizes of another tensor; -1 stands for no size here",
        )
    if math.prod(sizes) * op.outputs[0].dtype.size > _LARGEST_TENSOR:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot make a tensor that large",
            expected="less than 2**63 bytes",
            got=str(list(sizes)),
            hint="draw it in parts, a batch in each step",
        )
    return sizes


def usable(out: Out, shape: tuple[int, ...]) -> Out:
    """The planned buffer, unless a fed shape differs from the one it was planned for."""
    return out if out is not None and out.shape == shape else None


def integer_bounds(op: OpContext, shape: tuple[int, ...], minval: Array, maxval: Array) -> tuple[int, int]:
    """Read the bounds of random integers; raises InvalidArgumentError if there is no integer between them."""
    low, high = int(minval), int(maxval)
    if low >= high and math.prod(shape) > 0:
        raise InvalidArgumentError(
            f"{op.type} '{op.name}' has no integer to draw",
            expected="minval < maxval",
            got=f"{low} and {high}",
            hint="maxval itself is never drawn: add 1 to include it",
        )
    return low, max(high, low + 1)


def number_of_draws(op: OpContext, logits: Array, num_samples: Array) -> int:
    """Check the inputs of a draw of classes and read how many draws per row are wanted."""
    if logits.ndim != 2 or logits.shape[1] == 0 or num_samples.ndim:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot draw classes from these inputs",
            expected="logits [batch, classes] with at least one class, num_samples []",
            got=f"logits {list(logits.shape)}, num_samples {list(num_samples.shape)}",
            hint="hr.expand_dims(logits, 0) makes one row of a vector; num_samples is one number",
        )
    draws = int(num_samples)
    if draws < 0:
        raise InvalidArgumentError(
            f"{op.type} '{op.name}' cannot draw a negative number of times",
            expected=">= 0",
            got=str(draws),
            hint="hr.maximum(num_samples, 0) draws nothing instead",
        )
    return draws
