"""NumPy kernels of the ragged family."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.ragged import check_default, check_wanted
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, Shape

__all__ = ["check_splits"]


def _broken(what: str, got: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        what,
        expected="splits that ascend from 0 to the number of values",
        got=str(got),
        hint="row i holds the values splits[i] to splits[i + 1] - 1",
    )


def check_splits(splits: Array, count: int) -> None:
    """Raise InvalidArgumentError unless `splits` divide `count` values."""
    if not splits.size or splits[0] != 0:
        raise _broken("the rows of a ragged tensor do not begin at 0", splits[:8].tolist())
    if np.any(splits[1:] < splits[:-1]):
        raise _broken("the rows of a ragged tensor are out of order", splits[:8].tolist())
    if splits[-1] != count:
        raise _broken(f"the rows of a ragged tensor do not hold its {count} values", f"{int(splits[-1])} at the end")


def _check_nested(nested: Sequence[Array], values: Array) -> None:
    for outer, inner in pairwise(nested):
        check_splits(outer, inner.size - 1)
    check_splits(nested[-1], len(values))


def _places(lengths: Array) -> Array:
    """For each value its number within its row, where the rows have these lengths."""
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(int(lengths.sum())) - np.repeat(starts, lengths))


@register_kernel("RaggedRange")
def _range(op: OpContext, starts: Array, limits: Array, deltas: Array) -> tuple[Array, Array]:
    given = [starts, limits, deltas]
    sizes = {item.shape for item in given if item.ndim}
    if len(sizes) > 1:
        raise ShapeError(
            "starts, limits and deltas are of different lengths",
            expected="vectors of one length, or scalars",
            got=", ".join(str(list(item.shape)) for item in given),
            hint="give one of each for every row",
        )
    if not np.all(deltas):
        raise InvalidArgumentError(
            "a row has no step", expected="deltas other than 0", got="0", hint="a step of 1 is the default of hr.arange"
        )
    rows = [np.broadcast_to(item, sizes.copy().pop() if sizes else (1,)) for item in given]
    pieces = [_row(*bounds) for bounds in zip(*rows, strict=True)]
    splits = np.cumsum([0, *map(len, pieces)])
    values = np.concatenate([np.empty(0, starts.dtype), *pieces])
    return splits.astype(op.attr("Tsplits").array_type), values


def _row(start: Any, limit: Any, delta: Any) -> Array:
    """`start`, `start + delta`, ... below `limit`, each from the one before it, as TensorFlow adds."""
    if start.dtype.kind in "iu":
        size = len(range(int(start), int(limit), int(delta)))
    else:
        size = max(0, int(np.ceil((float(limit) - float(start)) / float(delta))))
    steps = np.full(checked_sizes([size])[0], delta)
    steps[:1] = start
    return np.asarray(np.add.accumulate(steps, dtype=steps.dtype))


@register_kernel("RaggedTensorToTensor")
def _to_tensor(op: OpContext, shape: Array, values: Array, default: Array, partitions: Sequence[Array]) -> Array:
    check_default(Shape(values.shape), Shape(np.shape(default)))
    first, *divisions = _divisions(op.attr("row_partition_types"), partitions)
    rank = len(divisions) + values.ndim
    wanted = [int(size) for size in shape] if shape.ndim else [-1] * rank
    fits = Shape([*[None] * (len(divisions) + 1), *values.shape[1:]])
    check_wanted(Shape([None if size < 0 else size for size in wanted]), fits)
    sizes = [first if wanted[0] < 0 else wanted[0]]
    targets = np.arange(first)
    targets[sizes[0] :] = -1
    for rows, size in zip(divisions, wanted[1:], strict=False):
        lengths = np.bincount(rows, minlength=len(targets))
        sizes.append(int(lengths.max(initial=0)) if size < 0 else size)
        places, parents = _places(lengths), targets[rows]
        targets = np.where((parents >= 0) & (places < sizes[-1]), parents * sizes[-1] + places, -1)
    if len(targets) != len(values):
        raise _broken(f"the rows of a ragged tensor do not hold its {len(values)} values", f"{len(targets)} at the end")
    inner = values.shape[1:]
    result = np.empty(checked_sizes([*sizes, *inner]), values.dtype).reshape(-1, *inner)
    result[...] = default
    kept = targets >= 0
    result[targets[kept]] = values[kept]
    return result.reshape(*sizes, *inner)


def _divisions(types: Sequence[str], partitions: Sequence[Array]) -> list[Any]:
    """The number of outermost rows, then for each division the row of each value."""
    if types[0] == "ROW_SPLITS":
        if not all(item.size for item in partitions):
            raise _broken("the rows of a ragged tensor do not begin at 0", "no splits")
        for item, inner in zip(partitions, [*(part.size - 1 for part in partitions[1:]), None], strict=True):
            check_splits(item, int(item[-1]) if inner is None else inner)
        return [partitions[0].size - 1, *(np.repeat(np.arange(s.size - 1), np.diff(s)) for s in partitions)]
    rows = int(partitions[0])
    for item, above in zip(partitions[1:], [rows, *(part.size for part in partitions[1:])], strict=False):
        if item.size and (item[0] < 0 or item[-1] >= above or np.any(item[1:] < item[:-1])):
            raise InvalidArgumentError(
                "the row numbers of a ragged tensor are out of order",
                expected=f"numbers that ascend from 0 to {above - 1} at most",
                got=str(item[:8].tolist()),
                hint="VALUE_ROWIDS gives for each value the number of its row",
            )
    return [rows, *partitions[1:]]


@register_kernel("RaggedTensorToSparse")
def _to_sparse(op: OpContext, nested: Sequence[Array], values: Array) -> tuple[Array, Array, Array]:
    _check_nested(nested, values)
    columns: list[Array] = [np.arange(nested[0].size - 1)]
    shape = [nested[0].size - 1]
    for splits in nested:
        lengths = np.diff(splits)
        columns = [*(np.repeat(column, lengths) for column in columns), _places(lengths)]
        shape.append(int(lengths.max(initial=0)))
    inner = values.shape[1:]
    size = int(np.prod(inner, dtype=np.int64))
    columns = [np.repeat(column, size) for column in columns]
    columns += [np.tile(axis.reshape(-1), len(values)) for axis in np.indices(inner)]
    indices = np.stack(columns, axis=1).astype(np.int64)
    return indices, values.flatten(), np.array([*shape, *inner], np.int64)


@register_kernel("RaggedGather")
def _gather(op: OpContext, nested: Sequence[Array], values: Array, indices: Array) -> tuple[Array, ...]:
    _check_nested(nested, values)
    rows = nested[0].size - 1
    wrong = indices[(indices < 0) | (indices >= rows)]
    if wrong.size:
        raise OutOfRangeError(
            "an index is out of range",
            expected=f"0 <= index < {rows}",
            got=str(int(wrong[0])),
            hint="count the rows from 0; -1 is not the last row",
        )
    dtype = op.attr("Tsplits").array_type
    dense = [np.prod(indices.shape[:axis], dtype=np.int64) for axis in range(1, indices.ndim)]
    made = [np.arange(count + 1) * size for count, size in zip(dense, indices.shape[1:], strict=True)]
    chosen = indices.reshape(-1).astype(np.int64)
    for splits in nested:
        lengths = np.diff(splits)[chosen]
        made.append(np.concatenate([[0], np.cumsum(lengths)]))
        chosen = np.repeat(splits[chosen], lengths) + _places(lengths)
    if not indices.ndim:
        del made[0]  # one row: its division is that of the whole result
    return *(splits.astype(dtype) for splits in made), values[chosen]
