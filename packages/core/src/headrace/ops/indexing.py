"""What `x[...]` means."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, UnimplementedError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.graph.operators import overload_operator
from headrace.ops.selection import boolean_mask

__all__ = ["getitem"]

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@overload_operator("getitem")
def getitem(x: TensorLike, key: Any, *, name: str | None = None) -> Tensor:
    """`x[key]` as in NumPy.

    Args:
      x: any dtype and shape.
      key: an int, slice, None (a new axis), Ellipsis or scalar integer tensor, or a tuple of these; bounds may be
        tensors. Beside slices, one list of ints or integer array or tensor picks rows along its axis. A bool array or
        tensor alone picks the elements (or rows) where it is true.
      name: the operation's name.
    Raises:
      ShapeError: more indices than axes, or one that is out of range.
      InvalidArgumentError: an index of another type.
      UnimplementedError: several lists of indices, or slices between a list and an int: use `hr.gather_nd`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.reshape(hr.arange(6), [2, 3])
      ...     y = x[::-1, None, 1:]
      >>> print(hr.Session(graph).run(y))
      [[[4 5]]
      <BLANKLINE>
       [[1 2]]]
    """
    tensor = convert_to_tensor(x)
    parts = [_as_tensor(part) for part in (key if isinstance(key, tuple) else (key,))]
    lists = [index for index, part in enumerate(parts) if _is_list(part)]
    if not lists:
        return _strided_slice(tensor, parts, name)
    chosen = parts[lists[0]]
    if _is_mask(chosen):
        return _masked(tensor, parts, chosen, name)
    picking = [index for index, part in enumerate(parts) if _is_single(part) or index in lists]
    if len(lists) > 1 or picking != list(range(picking[0], picking[-1] + 1)):
        raise UnimplementedError(
            "this combination of indices is not supported",
            expected="one list of indices, with ints only next to it, and slices",
            got=repr(key),
            hint="hr.gather_nd picks elements by several indices at once",
        )
    return _gathered(tensor, parts, lists[0], chosen, name)


def _as_tensor(part: Any) -> Any:
    """A list that holds tensors, or a variable, becomes one tensor; everything else stays."""
    symbolic = hasattr(part, "__headrace_tensor__") or (
        isinstance(part, list) and any(isinstance(item, Tensor) for item in part)
    )
    return convert_to_tensor(part) if symbolic else part


def _is_list(part: Any) -> bool:
    if isinstance(part, (list, np.ndarray)):
        return np.ndim(part) > 0 or _is_mask(part)
    return isinstance(part, Tensor) and (part.shape.rank != 0 or part.dtype is types.bool)


def _is_mask(part: Any) -> bool:
    return (part.dtype is types.bool) if isinstance(part, Tensor) else np.asarray(part).dtype == np.bool_


def _is_single(part: Any) -> bool:
    return part is not None and part is not Ellipsis and not isinstance(part, slice) and not _is_list(part)


def _masked(tensor: Tensor, parts: Sequence[Any], mask: Any, name: str | None) -> Tensor:
    if len(parts) > 1:
        raise UnimplementedError(
            "a bool mask beside other indices is not supported",
            expected="x[mask]",
            got=f"{len(parts)} indices",
            hint="index twice, or use hr.boolean_mask(x, mask, axis=...)",
        )
    return boolean_mask(tensor, mask, name=name)


def _gathered(tensor: Tensor, parts: Sequence[Any], position: int, indices: Any, name: str | None) -> Tensor:
    """Take ints and slices first, with the listed axis whole, then the rows along that axis."""
    sliced = _strided_slice(tensor, [*parts[:position], slice(None), *parts[position + 1 :]], None)
    before, after = (
        [part for part in side if not _is_single(part)] for side in (parts[:position], parts[position + 1 :])
    )
    axis = -1 - len(after) if any(part is Ellipsis for part in before) else len(before)
    chosen = _from_start(sliced, axis, indices)
    result: Tensor = apply_op("GatherV2", sliced, chosen, axis, name=name)
    return result


def _from_start(tensor: Tensor, axis: int, indices: Any) -> Tensor:
    """Indices without negative ones, which count from the end; those of a tensor are taken as they are."""
    if isinstance(indices, Tensor):
        return indices
    numbers = np.asarray(indices)
    if numbers.dtype.kind not in "iu":
        raise _wrong_index(indices)
    chosen = convert_to_tensor(numbers.astype(np.int32) if isinstance(indices, list) else numbers)
    if not numbers.size or numbers.min() >= 0:
        return chosen
    size: Tensor = apply_op("Shape", tensor, out_type=chosen.dtype)[axis]
    moved = np.where(numbers < 0, 1, 0).astype(chosen.dtype.array_type)
    result: Tensor = apply_op("AddV2", chosen, apply_op("Mul", size, moved))
    return result


def _strided_slice(tensor: Tensor, parts: Sequence[Any], name: str | None) -> Tensor:
    """One `StridedSlice` for any number of ints, slices, new axes and an ellipsis."""
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks = dict.fromkeys(_MASKS, 0)
    for position, part in enumerate(parts):
        bit = 1 << position
        first, last, step = 0, 0, 1
        if part is None:
            masks["new_axis_mask"] |= bit
        elif part is Ellipsis:
            masks["ellipsis_mask"] |= bit
        elif isinstance(part, slice):
            first, last, step = (_bound(part.start, 0), _bound(part.stop, 0), _bound(part.step, 1))
            masks["begin_mask"] |= bit if part.start is None else 0
            masks["end_mask"] |= bit if part.stop is None else 0
        else:
            first = _bound(part, None)
            masks["shrink_axis_mask"] |= bit
        begin.append(first)
        end.append(last)
        strides.append(step)
    vectors = _index_vectors(begin, end, strides)
    result: Tensor = apply_op("StridedSlice", tensor, *vectors, **masks, name=name)
    return result


def _bound(value: Any, default: int | None) -> Any:
    """A bound of a slice: an int or a scalar integer tensor."""
    if value is None and default is not None:
        return default
    if isinstance(value, Tensor):
        if not value.dtype.is_integer or value.shape.rank not in (0, None):
            raise _wrong_index(value)
        return value
    if isinstance(value, (bool, np.bool_)):
        raise _wrong_index(value)
    try:
        return operator.index(value)
    except TypeError:
        raise _wrong_index(value) from None


def _wrong_index(value: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a tensor cannot be indexed by this",
        expected="an int, slice, None, Ellipsis, integer or bool tensor, or a list of ints",
        got=repr(value),
        hint="hr.gather picks rows, hr.where chooses between tensors",
    )


def _index_vectors(*lists: Sequence[Any]) -> list[Tensor]:
    """begin, end and strides as vectors of one dtype: int64 as soon as one bound is or needs it."""
    wide = any(
        item.dtype is not types.int32 if isinstance(item, Tensor) else not -(2**31) <= item < 2**31
        for items in lists
        for item in items
    )
    dtype = types.int64 if wide else types.int32
    return [
        convert_to_tensor([_as_index(item, dtype) for item in items] or np.zeros(0, np.int32), dtype) for items in lists
    ]


def _as_index(item: Any, dtype: types.DType) -> Any:
    if isinstance(item, Tensor) and item.dtype is not dtype:
        return apply_op("Cast", item, DstT=dtype)
    return item
