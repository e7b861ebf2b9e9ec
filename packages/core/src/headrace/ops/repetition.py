"""The same elements several times: arrays broadcast together, repeated elements, coordinate grids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from headrace import types
from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, as_array, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.ops.axes import along_last, moveaxis
from headrace.types import broadcast_shapes

__all__ = ["broadcast_arrays", "meshgrid", "repeat"]


def broadcast_arrays(*arrays: TensorLike) -> list[Tensor]:
    """The tensors, each repeated up to the shape to which all of them broadcast.

    Args:
      *arrays: any dtypes, which stay; shapes that broadcast together.
    Returns:
      One tensor for each.
    Raises:
      ShapeError: the shapes do not broadcast together.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print([x.shape.as_tuple() for x in hr.broadcast_arrays([[1], [2]], [1.0, 2.0, 3.0])])
      [(2, 3), (2, 3)]
    """
    tensors = [convert_to_tensor(array) for array in arrays]
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    if shape.is_fully_defined:
        sizes = convert_to_tensor(np.array(shape.as_tuple(), np.int64))
    elif tensors:
        sizes = reduce(lambda a, b: apply_op("BroadcastArgs", a, b), (apply_op("Shape", tensor) for tensor in tensors))
    return [tensor if _is_exactly(tensor, shape) else apply_op("BroadcastTo", tensor, sizes) for tensor in tensors]


def _is_exactly(tensor: Tensor, shape: types.Shape) -> bool:
    return shape.is_fully_defined and tensor.shape == shape


def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of every point of a grid, from those along each axis.

    Args:
      *arrays: any dtypes, vectors `[n1]`, `[n2]`, ..., or scalars.
      indexing: `"ij"` for grids of shape `[n1, n2, n3...]`, `"xy"` for the first two exchanged: `[n2, n1, n3...]`.
    Returns:
      For each vector a grid on which it varies along its own axis.
    Raises:
      InvalidArgumentError: `indexing` is something else.
      ShapeError: an array has several axes.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x, y = hr.meshgrid([1, 2, 3], [10, 20])
      >>> print(hr.Session(graph).run(x + y))
      [[11 12 13]
       [21 22 23]]
    """
    if indexing not in ("xy", "ij"):
        raise InvalidArgumentError(
            "the indexing is not known",
            expected="'xy' or 'ij'",
            got=repr(indexing),
            hint="'ij' keeps the axes in the order of the arrays, 'xy' swaps the first two",
        )
    axes = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        axes[:2] = [1, 0]
    return broadcast_arrays(*(_spread(array, axis, len(arrays)) for array, axis in zip(arrays, axes, strict=True)))


def _spread(array: TensorLike, axis: int, rank: int) -> Tensor:
    """A vector as a tensor of several axes of which one is its own."""
    tensor = convert_to_tensor(array)
    if tensor.shape.rank not in (None, 0, 1):
        raise ShapeError(
            "meshgrid takes vectors",
            expected="rank 0 or 1",
            got=str(tensor.spec),
            hint="hr.reshape(x, [-1]) makes it a vector",
        )
    result: Tensor = apply_op("Reshape", tensor, [-1 if index == axis else 1 for index in range(rank)])
    return result


def repeat(
    x: TensorLike, repeats: int | Sequence[int] | TensorLike, *, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Each element, or slice, of `x` several times in a row.

    Args:
      x: any dtype, any shape.
      repeats: how often, an integer; or one integer for each slice, `[n]`. Negative ones in a tensor count as 0.
      axis: the axis along which slices are repeated; by default `x` is flattened first.
      name: the operation's name.
    Returns:
      The shape of `x` with `sum(repeats)` (`n * repeats`) along the axis.
    Raises:
      InvalidArgumentError: a number that is known is negative.
      ShapeError: there is not one number for each slice.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.repeat([1, 2, 3], [2, 0, 1])
      >>> print(hr.Session(graph).run(y))
      [1 1 3]
    """
    tensor = convert_to_tensor(x)
    if axis is None:
        tensor, axis = apply_op("Reshape", tensor, [-1]), 0
    counts = _counts(repeats)
    rows, position = along_last(tensor, axis, "repeat")
    size: Tensor = apply_op("Shape", rows, out_type=types.int64)[-1]
    if counts.shape.dims not in (None, (), (1,)) and not counts.shape.is_compatible_with(types.Shape([rows.shape[-1]])):
        raise ShapeError(
            "repeat needs one number for each slice",
            expected=f"[], [1] or [{rows.shape[-1]}]",
            got=str(counts.shape),
            hint="one integer repeats all alike; axis says which slices are meant",
        )
    # Where element number k of the result comes from: past how many ends of runs it lies.
    ends: Tensor = apply_op("Cumsum", apply_op("BroadcastTo", counts, apply_op("ExpandDims", size, 0)), 0)
    total = apply_op("Sum", ends[-1:], 0)
    numbers = apply_op("Range", np.int64(0), total, np.int64(1))
    picks = apply_op("UpperBound", apply_op("ExpandDims", ends, 0), apply_op("ExpandDims", numbers, 0))[0]
    result: Tensor = apply_op("GatherV2", rows, picks, -1, name=name if position == -1 else None)
    return result if position == -1 else moveaxis(result, -1, position, name=name)


def _counts(repeats: TensorLike) -> Tensor:
    if isinstance(repeats, Tensor) or hasattr(repeats, "__headrace_tensor__"):
        given = convert_to_tensor(repeats)
        if not given.dtype.is_integer:
            raise _not_counts(given.dtype)
        wide: Tensor = apply_op("Cast", given, DstT=types.int64)
        clipped: Tensor = apply_op("Maximum", wide, np.int64(0))
        return clipped
    numbers = as_array(repeats, None)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise _not_counts(numbers.dtype)
    if numbers.size and numbers.min() < 0:
        raise InvalidArgumentError(
            "a number of repetitions is negative",
            expected=">= 0",
            got=str(numbers.tolist()),
            hint="0 leaves an element or slice out",
        )
    return convert_to_tensor(numbers.astype(np.int64))


def _not_counts(dtype: object) -> DTypeError:
    return DTypeError(
        "the numbers of repetitions must be integers",
        expected="an integer dtype",
        got=str(dtype),
        hint="hr.astype(repeats, hr.int64), after hr.round if they are not whole",
    )
