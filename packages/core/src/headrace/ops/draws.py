"""What all random operations share: the shapes they are asked for, and numbers moved to other bounds or moments."""

from __future__ import annotations

import numpy as np

from headrace.errors import DTypeError, ShapeError
from headrace.graph.apply import TensorLike, convert_to_tensor
from headrace.graph.op_def import InferenceContext
from headrace.graph.operation import Tensor
from headrace.ops.math import add, multiply
from headrace.types import DType, DTypeLike, Shape, as_dtype

__all__ = [
    "SCALAR",
    "between",
    "check_input",
    "drawn_shape",
    "floating_type",
    "is_standard",
    "is_unit_interval",
    "scaled",
    "sizes",
    "wanted_shape",
]

SCALAR = Shape([])


def check_input(op: InferenceContext, index: int, name: str, expected: Shape) -> None:
    """Raise ShapeError if an input of this name cannot have the expected shape."""
    given = op.inputs[index].shape
    if not given.is_compatible_with(expected):
        raise ShapeError(
            f"{op.type} '{op.name}' takes its {name} in another shape",
            expected=f"{name} {expected}",
            got=f"{name} {given}",
            hint=f"hr.reshape the {name}; a plain number is a scalar, a list of numbers a vector",
        )


def wanted_shape(op: InferenceContext, index: int = 0) -> list[Shape]:
    """The shape that input `index` asks for; raises ShapeError for a negative size."""
    check_input(op, index, "shape", Shape([None]))
    value = op.constant(index)
    if value is not None and value.size and int(value.min()) < 0:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot make a tensor with a negative size",
            expected="sizes of at least 0",
            got=str(value.tolist()),
            hint="take sizes from hr.shape(x); -1 does not stand for the rest here",
        )
    return [op.constant_shape(index)]


def drawn_shape(op: InferenceContext) -> list[Shape]:
    """`[batch, draws]` from logits `[batch, classes]` and a number of draws."""
    check_input(op, 0, "logits", Shape([None, None]))
    check_input(op, 1, "num_samples", SCALAR)
    number = op.constant(1)
    draws = None if number is None else int(number)
    if draws is not None and draws < 0:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot draw a negative number of times",
            expected=">= 0",
            got=str(draws),
            hint="bound a computed num_samples with max(0, ...)",
        )
    return [Shape([op.inputs[0].shape.with_rank(2)[0], draws])]


def floating_type(dtype: DTypeLike, function: str) -> DType:
    """`dtype`, if it is one that `hr.random.<function>` can draw; raises DTypeError otherwise."""
    wanted = as_dtype(dtype)
    if not wanted.is_floating:
        raise DTypeError(
            f"hr.random.{function} draws floating point numbers",
            expected="float16, bfloat16, float32 or float64",
            got=str(wanted),
            hint="hr.random.randint or hr.random.stateless_randint draws integers",
        )
    return wanted


def sizes(shape: TensorLike) -> TensorLike:
    """A shape argument as an integer vector: an int is one dimension, and an empty list is a vector of ints too."""
    if isinstance(shape, Shape):
        shape = shape.as_tuple()
    if isinstance(shape, int):
        shape = [shape]
    return np.zeros(0, np.int32) if isinstance(shape, (list, tuple)) and not shape else shape


def between(unit: Tensor, minval: TensorLike, maxval: TensorLike, name: str | None) -> Tensor:
    """Stretch numbers in [0, 1) to [minval, maxval); nothing is added to the graph where they are these already."""
    if is_unit_interval(minval, maxval):
        return unit
    low, high = convert_to_tensor(minval, unit.dtype), convert_to_tensor(maxval, unit.dtype)
    return add(unit * (high - low), low, name=name)


def is_unit_interval(minval: TensorLike, maxval: TensorLike) -> bool:
    """True for the bounds 0 and 1, given as Python numbers."""
    return _is_number(minval, 0) and _is_number(maxval, 1)


def scaled(standard: Tensor, mean: TensorLike, stddev: TensorLike, name: str | None) -> Tensor:
    """Give standard normal numbers another mean and deviation; nothing is added where they have these already."""
    centred = _is_number(mean, 0)
    if not _is_number(stddev, 1):
        standard = multiply(standard, stddev, name=name if centred else None)
    return standard if centred else add(standard, mean, name=name)


def is_standard(mean: TensorLike, stddev: TensorLike) -> bool:
    """True for mean 0 and standard deviation 1, given as Python numbers."""
    return _is_number(mean, 0) and _is_number(stddev, 1)


def _is_number(value: TensorLike, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number
