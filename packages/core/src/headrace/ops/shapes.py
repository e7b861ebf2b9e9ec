"""Axes and sizes: the checks that the shape functions and the kernels of many operations share.

A shape function that knows the values and a kernel that sees them must refuse the same inputs with the same words, so
both call these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.types import Array, Shape, int32, int64

__all__ = [
    "check_per_axis",
    "check_scalar",
    "checked_sizes",
    "normalize_axes",
    "normalize_axis",
    "reshaped",
    "scalar_of",
    "shape_tensor",
    "static_axis",
]

_MAX_ELEMENTS = 2**63 - 1


def check_per_axis(given: Shape, rank: int | None, what: str) -> int | None:
    """The length of a vector that must have one number for each axis, or None where neither it nor the rank is known.

    Raises:
      ShapeError: it is not a vector, or has another length.
    """
    if not given.is_compatible_with(Shape([rank])):
        axes = "each axis" if rank is None else f"each of {rank} axes"
        raise ShapeError(
            f"{what} must have one number for each axis",
            expected=f"one number for {axes}",
            got=str(given),
            hint="count unchanged axes too: 1 in multiples, 0 in begin, -1 in size, their place in perm",
        )
    return rank if given.dims is None else given.merge(Shape([rank]))[0]


def _not_scalar(what: str, got: str) -> ShapeError:
    hint = f"pick one element, as in {what}[0]; hr.reshape({what}, []) if there is no other"
    return ShapeError(f"{what} must be a scalar", expected="shape []", got=got, hint=hint)


def check_scalar(given: Shape, what: str) -> None:
    """Raise ShapeError unless a shape is that of a scalar, or not known."""
    if given.rank not in (None, 0):
        raise _not_scalar(what, str(given))


def scalar_of(value: Array, what: str) -> int:
    """The integer in an array that must hold a single one.

    Raises:
      ShapeError: it holds several, or none.
    """
    value = np.asarray(value)
    if value.size != 1 or value.ndim > 1:
        raise _not_scalar(what, str(list(value.shape)))
    return int(value.reshape(())[()])


def normalize_axis(axis: SupportsIndex, rank: int, *, what: str = "axis") -> int:
    """`axis` as a number in `[0, rank)`; negative ones count from the end.

    Raises:
      ShapeError: it is out of range.
    """
    number = axis.__index__()
    if not -rank <= number < rank:
        raise ShapeError(
            f"{what} is out of range",
            expected=f"{-rank} <= {what} < {rank}",
            got=str(number),
            hint="count from 0, or from the end with -1 for the last; hr.expand_dims adds an axis",
        )
    return number + rank if number < 0 else number


def normalize_axes(axes: Iterable[SupportsIndex], rank: int, *, what: str = "axis") -> tuple[int, ...]:
    """Several different axes, each as `normalize_axis`.

    Raises:
      ShapeError: one is out of range, or two are the same.
    """
    given = tuple(axes)
    numbers = tuple(normalize_axis(axis, rank, what=what) for axis in given)
    if len(set(numbers)) != len(numbers):
        raise ShapeError(
            f"{what} is given twice",
            expected="different axes",
            got=str([axis.__index__() for axis in given]),
            hint=f"change or drop one; a negative one is the same as that number plus {rank}",
        )
    return numbers


def static_axis(value: Array | None, rank: int | None, what: str = "axis") -> int | None:
    """The axis that a constant input names, or None where the value or the rank is not known statically."""
    if value is None:
        return None
    axis = scalar_of(value, what)
    return None if rank is None else normalize_axis(axis, rank, what=what)


def checked_sizes(sizes: Array | Sequence[int]) -> tuple[int, ...]:
    """A vector of sizes (or, as in TensorFlow, a single size) as a tuple.

    Raises:
      ShapeError: it is not a vector, a size is negative, or there are more elements than memory can number.
    """
    array = np.asarray(sizes)
    if array.ndim > 1:
        raise ShapeError(
            "a shape must be a vector",
            expected="shape [rank]",
            got=str(list(array.shape)),
            hint="list the sizes of the axes; hr.shape(x) gives those of a tensor x",
        )
    numbers = tuple(int(size) for size in array.reshape(-1))
    if any(size < 0 for size in numbers):
        raise ShapeError(
            "a size is negative",
            expected="sizes >= 0",
            got=str(list(numbers)),
            hint="only reshaping fills in a -1; elsewhere write the size, or take it from hr.shape(x)",
        )
    total = 1
    for size in numbers:
        total *= max(size, 1)
    if total > _MAX_ELEMENTS // 16:
        raise ShapeError(
            "the shape has too many elements",
            expected="fewer than 2**59 elements",
            got=str(list(numbers)),
            hint="look for a size that is wrong; an hr.SparseTensor holds few elements of a large shape",
        )
    return numbers


def reshaped(shape: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape that elements of `shape` take under `sizes`, of which one may be -1: what is left over.

    Where `sizes` contains a zero, the -1 counts the non-zero sizes of `shape` only, as in TensorFlow.

    Raises:
      ShapeError: the numbers of elements differ, or two sizes are negative.
    """
    wanted = [int(size) for size in sizes]
    unknown = [index for index, size in enumerate(wanted) if size == -1]
    if len(unknown) > 1 or any(size < -1 for size in wanted):
        raise ShapeError(
            "a shape may have one -1 and no other negative size",
            expected="sizes >= 0",
            got=str(wanted),
            hint="write -1 for one axis, and the sizes of the others, which hr.shape(x) gives in the step",
        )
    if unknown:
        known = [size for size in wanted if size != -1]
        counted = [size for size in shape if size or 0 not in known]
        divisor = _product(size for size in known if size)
        wanted[unknown[0]] = _product(counted) // divisor
    if _product(wanted) != _product(shape):
        raise ShapeError(
            "the number of elements differs",
            expected=f"{_product(shape)} elements, as {list(shape)} has",
            got=f"shape {[int(size) for size in sizes]}",
            hint="write -1 for one size to take what is left over; hr.tile repeats elements, hr.pad adds some",
        )
    return checked_sizes(wanted)


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def shape_tensor(shape: TensorLike) -> Tensor:
    """A vector of sizes from what a user may write.

    Args:
      shape: an int, a `Shape`, an integer tensor, or a sequence of ints and scalar tensors.
    Returns:
      An int32 or int64 vector.
    Raises:
      InvalidArgumentError: a size is not an integer.
    """
    if isinstance(shape, Shape):
        return convert_to_tensor(shape.as_tuple(), int32)
    if isinstance(shape, (list, tuple)) and not shape:
        return convert_to_tensor([], int32)
    tensor = _mixed(shape) if isinstance(shape, (list, tuple)) else convert_to_tensor(shape)
    if not tensor.dtype.is_integer:
        raise InvalidArgumentError(
            "a size must be an integer",
            expected="int32 or int64",
            got=repr(shape),
            hint="write n // 2 rather than n / 2, or convert with int(n) or hr.astype(n, hr.int32)",
        )
    if tensor.shape.rank == 0:
        vector: Tensor = apply_op("ExpandDims", tensor, 0)
        return vector
    return tensor


def _mixed(sizes: Sequence[TensorLike]) -> Tensor:
    """A vector from ints and scalar tensors, int64 if one of the tensors is."""
    tensors = [size for size in sizes if isinstance(size, Tensor)]
    if not tensors:
        return convert_to_tensor(sizes)
    dtype = int64 if any(tensor.dtype is int64 for tensor in tensors) else tensors[0].dtype
    parts = [
        int(size)
        if isinstance(size, np.integer)
        else apply_op("Cast", size, DstT=dtype)
        if isinstance(size, Tensor) and size.dtype is not dtype
        else size
        for size in sizes
    ]
    return convert_to_tensor(parts, dtype)
