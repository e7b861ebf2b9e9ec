"""Operations that count: evenly spaced numbers."""

from __future__ import annotations

import math

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.promotion import promoted
from headrace.ops.shapes import check_scalar, checked_sizes, scalar_of
from headrace.types import Array, DTypeLike, Shape, as_dtype

__all__ = ["arange", "lin_space_length", "linspace", "range_length"]

_RANGE_TYPES = (
    types.bfloat16, types.float16, types.float32, types.float64, types.int8, types.int16, types.int32, types.int64,
    types.uint16, types.uint32, types.uint64,
)  # fmt: skip


@register_op(
    "Range",
    inputs={"start": "Tidx", "limit": "Tidx", "delta": "Tidx"},
    outputs={"output": "Tidx"},
    attrs={"Tidx": attr.type(*_RANGE_TYPES, default=types.int32)},
)
def _range_shape(op: InferenceContext) -> list[Shape]:
    """The numbers start, start + delta, ... before limit."""
    for index, name in enumerate(("start", "limit", "delta")):
        check_scalar(op.inputs[index].shape, name)
    values = [op.constant(index) for index in range(3)]
    known = [value for value in values if value is not None]
    return [Shape([range_length(*known) if len(known) == 3 else None])]


def range_length(start: Array, limit: Array, delta: Array) -> int:
    """The number of elements of a range, exact in Python integers: `limit - start` may exceed the dtype.

    Raises:
      InvalidArgumentError: delta is zero, leads away from limit, or a number is not finite.
    """
    first, last, step = (np.asarray(value).reshape(())[()] for value in (start, limit, delta))
    described = f"start {first}, limit {last}, delta {step}"
    if not step:
        raise InvalidArgumentError(
            "a range needs a step", expected="delta != 0", got=described, hint="hr.full([n], start) repeats one number"
        )
    if (step > 0 and first > last) or (step < 0 and first < last):
        raise InvalidArgumentError(
            "the step of a range leads away from its limit",
            expected="start <= limit with a positive delta, start >= limit with a negative one",
            got=described,
            hint="change the sign of the step, or swap the two ends",
        )
    if np.asarray(start).dtype.kind in "iu":
        return -((int(first) - int(last)) // int(step))
    distance = (float(last) - float(first)) / float(step)
    if not math.isfinite(distance) or distance > 2**59:
        raise InvalidArgumentError(
            "a range needs finite numbers",
            expected="a finite number of elements",
            got=described,
            hint="look for nan and infinity, or take a larger step",
        )
    return math.ceil(distance)


@register_op(
    "LinSpace",
    inputs={"start": "T", "stop": "T", "num": "Tidx"},
    outputs={"output": "T"},
    attrs={"T": attr.floating, "Tidx": attr.index_type},
)
def _lin_space_shape(op: InferenceContext) -> list[Shape]:
    """`num` evenly spaced numbers from start to stop, both included."""
    for index, name in enumerate(("start", "stop", "num")):
        check_scalar(op.inputs[index].shape, name)
    count = op.constant(2)
    return [Shape([None if count is None else lin_space_length(count)])]


def lin_space_length(count: Array) -> int:
    """The number of elements that `LinSpace` was asked for, at least 1."""
    number = scalar_of(count, "num")
    if number < 1:
        raise InvalidArgumentError(
            "linspace needs a number of elements",
            expected="num >= 1",
            got=str(number),
            hint="hr.zeros([0]) is the vector of no elements",
        )
    return checked_sizes([number])[0]


def arange(
    start: TensorLike,
    stop: TensorLike | None = None,
    step: TensorLike = 1,
    *,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The numbers start, start + step, ... before stop; with one number, 0, 1, ... before it.

    Args:
      start: the first number, or the limit if `stop` is not given; a scalar.
      stop: the limit, which is not included; a scalar.
      step: the distance of neighbours; a scalar.
      dtype: the element type; by default the one in which the three meet.
      name: the operation's name.
    Returns:
      A vector `[ceil((stop - start) / step)]`; empty where stop lies behind start, as in NumPy.
    Raises:
      InvalidArgumentError: the step is zero, or, where the bounds are not Python numbers, leads away from stop.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.arange(2, 11, 3)
      >>> print(hr.Session(graph).run(x))
      [2 5 8]
    """
    first, last = (0, start) if stop is None else (start, stop)
    if all(isinstance(item, (int, float)) for item in (first, last, step)) and step and (last - first) / step < 0:
        last = first  # NumPy's empty range; the operation itself refuses it
    bounds = promoted(first, last, step)
    if dtype is not None:
        bounds = [
            bound if bound.dtype is as_dtype(dtype) else apply_op("Cast", bound, DstT=as_dtype(dtype))
            for bound in bounds
        ]
    result: Tensor = apply_op("Range", *bounds, name=name)
    return result


def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: TensorLike,
    *,
    dtype: DTypeLike | None = None,
    endpoint: bool = True,
    name: str | None = None,
) -> Tensor:
    """`num` evenly spaced numbers from start to stop.

    Args:
      start: a numeric scalar.
      stop: a numeric scalar.
      num: an integer scalar >= 1; as a Python number 0 too.
      dtype: a floating dtype; by default the one in which the two meet, float32 of integers.
      endpoint: whether the last number is stop, or the one before it of num + 1 numbers.
      name: the operation's name.
    Returns:
      A vector `[num]`.
    Raises:
      InvalidArgumentError: num is negative, or, where it is computed, less than 1.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.linspace(0.0, 1.0, 5)
      >>> print(hr.Session(graph).run(x))
      [0.   0.25 0.5  0.75 1.  ]
    """
    first, last = promoted(start, stop)
    wanted = as_dtype(dtype) if dtype is not None else first.dtype if first.dtype.is_floating else types.float32
    first, last = (bound if bound.dtype is wanted else apply_op("Cast", bound, DstT=wanted) for bound in (first, last))
    if isinstance(num, int) and num == 0:
        empty: Tensor = apply_op("Fill", [0], apply_op("ZerosLike", first), name=name)
        return empty
    if not endpoint:
        step = apply_op("RealDiv", apply_op("Sub", last, first), apply_op("Cast", num, DstT=wanted))
        last = apply_op("Sub", last, step)
    result: Tensor = apply_op("LinSpace", first, last, num, name=name)
    return result
