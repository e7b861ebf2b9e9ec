"""The different elements of a tensor, in the order in which they first appear."""

from __future__ import annotations

from typing import NamedTuple

from headrace import types
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor

__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAll(NamedTuple):
    """What `unique_all` gives.

    Attributes:
      values: the different elements `[m]`.
      indices: where each first appears in the flattened tensor, int64 `[m]`.
      inverse_indices: for each element of the tensor which of the values it is, int64 in the tensor's shape.
      counts: how often each value appears, int64 `[m]`.
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives; see `UniqueAll`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives; see `UniqueAll`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: TensorLike, *, name: str | None = None) -> UniqueAll:
    """The different elements of `x`, where they stand and how many there are of each.

    Args:
      x: any dtype and shape; each NaN is different from every other, signed zeros are equal.
      name: the operation's name.
    Returns:
      `(values, indices, inverse_indices, counts)`, see `UniqueAll`; the values stand in the order in which they first
      appear.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     found = hr.unique_all([5, 3, 5, 1])
      >>> print(*hr.Session(graph).run(found))
      [5 3 1] [0 1 3] [0 1 0 2] [2 1 1]
    """
    tensor = convert_to_tensor(x)
    values, places, counts = _with_counts(tensor, name)
    numbers = apply_op("Range", apply_op("ZerosLike", size := _size(tensor)), size, apply_op("OnesLike", size))
    first = apply_op("UnsortedSegmentMin", numbers, places, _size(values))
    return UniqueAll(values, first, _shaped(places, tensor), counts)


def unique_counts(x: TensorLike, *, name: str | None = None) -> UniqueCounts:
    """The different elements of `x` and how many there are of each; see `unique_all`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     found = hr.unique_counts([5, 3, 5, 1])
      >>> print(*hr.Session(graph).run(found))
      [5 3 1] [2 1 1]
    """
    values, _, counts = _with_counts(convert_to_tensor(x), name)
    return UniqueCounts(values, counts)


def unique_inverse(x: TensorLike, *, name: str | None = None) -> UniqueInverse:
    """The different elements of `x`, and for each element which of them it is; see `unique_all`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     found = hr.unique_inverse([[5, 3], [5, 1]])
      ...     again = hr.take(found.values, found.inverse_indices)
      >>> print(hr.Session(graph).run(again))
      [[5 3]
       [5 1]]
    """
    tensor = convert_to_tensor(x)
    values, places = apply_op("Unique", _flat(tensor), out_idx=types.int64, name=name)
    return UniqueInverse(values, _shaped(places, tensor))


def unique_values(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The different elements of `x`; see `unique_all`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     values = hr.unique_values([5, 3, 5, 1])
      >>> print(hr.Session(graph).run(values))
      [5 3 1]
    """
    values: Tensor = apply_op("Unique", _flat(convert_to_tensor(x)), name=name)[0]
    return values


def _with_counts(tensor: Tensor, name: str | None) -> tuple[Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor] = apply_op("UniqueWithCounts", _flat(tensor), out_idx=types.int64, name=name)
    return found


def _flat(tensor: Tensor) -> Tensor:
    result: Tensor = tensor if tensor.shape.rank == 1 else apply_op("Reshape", tensor, [-1])
    return result


def _shaped(places: Tensor, tensor: Tensor) -> Tensor:
    result: Tensor = places if tensor.shape.rank == 1 else apply_op("Reshape", places, apply_op("Shape", tensor))
    return result


def _size(tensor: Tensor) -> Tensor:
    result: Tensor = apply_op("Size", tensor, out_type=types.int64)
    return result
