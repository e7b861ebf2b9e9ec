"""NumPy kernels of the sparse family. Elements are put in order by their columns, so sizes may be as large as int64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.shapes import checked_sizes, normalize_axes, normalize_axis
from headrace.types import Array, bfloat16, float16

_NARROW = (float16.array_type, bfloat16.array_type)
_FITTING = "let -1 stand for one size; the others must divide the number of elements"


def _check(indices: Array, values: Array | None, shape: Array) -> tuple[int, ...]:
    """The shape; raises unless the parts fit together and every index is inside it."""
    matrix, vector = np.shape(indices), np.shape(shape)
    if len(matrix) != 2 or vector != matrix[1:] or (values is not None and np.shape(values) != matrix[:1]):
        raise ShapeError(
            "the parts of the sparse tensor do not fit together",
            expected="indices [m, n], values [m], shape [n]",
            got=f"{list(matrix)}, {'none' if values is None else list(np.shape(values))}, {list(vector)}",
            hint="hr.sparse.from_dense makes parts that fit; the indices of a vector need the shape [m, 1]",
        )
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise InvalidArgumentError(
            "a size is negative",
            expected="sizes >= 0",
            got=str(list(sizes)),
            hint="state every size: only hr.sparse.reshape finds one from -1",
        )
    wrong = ((indices < 0) | (indices >= np.asarray(shape))).any(axis=1)
    if wrong.any():
        raise OutOfRangeError(
            "an index is out of range",
            expected=f"indices inside {list(sizes)}",
            got=str(indices[wrong][0].tolist()),
            hint="enlarge the shape to hold it; indices count from 0, and -1 is not the last",
        )
    return sizes


def _order(indices: Array) -> Array:
    """The permutation into row-major order that leaves equal indices as they are."""
    if not indices.shape[1]:
        return np.arange(len(indices))
    return np.lexsort(indices.T[::-1])


def _starts(indices: Array) -> Array:
    """Whether each of the sorted indices differs from the one before it."""
    return np.concatenate([np.ones(min(len(indices), 1), bool), (indices[1:] != indices[:-1]).any(axis=1)])


def _is_ordered(indices: Array) -> bool:
    """True if no index is before its predecessor."""
    return bool(np.array_equal(_order(indices), np.arange(len(indices))))


def _wide(values: Array) -> Array:
    return values.astype(np.float32) if values.dtype in _NARROW else values


def _places(indices: Array) -> tuple[Array, ...]:
    """The index of elements in an array that has one more axis in front, of length 1: so there is one where n is 0."""
    return (np.zeros(len(indices), np.int64), *indices.T)


def _add_to(total: Array, indices: Array, values: Array) -> None:
    np.add.at(total[None], _places(indices), _wide(values))


@register_kernel("SparseToDense")
def _to_dense(op: OpContext, indices: Array, shape: Array, values: Array, default: Array) -> Array:
    sizes = checked_sizes(shape)
    matrix = np.reshape(indices, (-1, 1)) if np.ndim(indices) < 2 else indices
    _check(matrix, np.broadcast_to(values, len(matrix)) if not np.ndim(values) else values, shape)
    order = _order(matrix)
    if op.attr("validate_indices"):
        if not np.array_equal(order, np.arange(len(matrix))):
            raise InvalidArgumentError(
                "the indices are out of order", expected="row-major order", got=f"{matrix[:8].tolist()}",
                hint="hr.sparse.reorder",
            )  # fmt: skip
        if not _starts(matrix).all():
            repeated = matrix[~_starts(matrix)][0].tolist()
            raise InvalidArgumentError(
                "an index is repeated",
                expected="different indices",
                got=str(repeated),
                hint="hr.sparse.to_dense(x, validate=False) keeps the last; hr.scatter_nd adds them up",
            )
    dense = np.empty(sizes, np.asarray(values).dtype)
    dense[...] = np.asarray(default)[()]
    last = order[np.concatenate([_starts(matrix[order])[1:], np.ones(min(len(order), 1), bool)])]
    dense[None][_places(matrix[last])] = values if not np.ndim(values) else values[last]
    return dense


@register_kernel("SparseTensorDenseMatMul")
def _matmul(op: OpContext, indices: Array, values: Array, shape: Array, b: Array) -> Array:
    sizes = _check(indices, values, shape)
    rows, columns = indices.T
    if op.attr("adjoint_a"):
        rows, columns, sizes, values = columns, rows, sizes[::-1], np.conj(values)
    if op.attr("adjoint_b"):
        b = np.conj(b.T)
    if len(b) != sizes[1]:
        raise ShapeError(
            "the matrices do not fit",
            expected=f"{sizes[1]} rows",
            got=f"{len(b)} rows",
            hint="adjoint_a=True or adjoint_b=True in hr.sparse.matmul turns one of them",
        )
    checked_sizes([sizes[0], b.shape[1]])
    wide = _wide(b)
    total = np.zeros((sizes[0], b.shape[1]), wide.dtype)
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(_starts(rows[order, None]))
    if len(starts):
        terms = _wide(values)[order, None] * wide[columns[order]]
        total[rows[order][starts]] = np.add.reduceat(terms, starts, axis=0, dtype=wide.dtype)
    return total.astype(b.dtype)


@register_kernel("SparseReorder")
def _reorder(op: OpContext, indices: Array, values: Array, shape: Array) -> tuple[Array, Array]:
    _check(indices, values, shape)
    order = _order(indices)
    return indices[order], values[order]


@register_kernel("SparseAdd")
def _add(op: OpContext, *inputs: Any) -> tuple[Array, Array, Array]:
    *parts, threshold = inputs
    first, second = parts[:3], parts[3:]
    sizes = _check(*first)
    if _check(*second) != sizes:
        raise ShapeError(
            "sparse tensors of different shapes cannot be added",
            expected=str(list(sizes)),
            got=f"{second[2].tolist()}",
            hint="hr.sparse.reshape one of them, or make the smaller one with the larger shape",
        )
    indices = np.concatenate([first[0], second[0]])
    order = _order(indices)
    indices, values = indices[order], np.concatenate([first[1], second[1]])[order]
    starts = np.flatnonzero(_starts(indices))
    several = np.diff(np.append(starts, len(indices))) > 1
    if len(starts):
        indices, values = indices[starts], np.add.reduceat(values, starts, dtype=values.dtype)
    kept = ~(several & np.less(np.abs(values), threshold))
    return indices[kept], values[kept], first[2].copy()


@register_kernel("SparseReshape")
def _reshape(op: OpContext, indices: Array, shape: Array, wanted: Array) -> tuple[Array, Array]:
    sizes = checked_sizes(np.asarray(_check(indices, None, shape)))
    target = [int(size) for size in wanted]
    if target.count(-1) > 1 or any(size < -1 for size in target):
        raise ShapeError(
            "a shape may have one -1",
            expected="sizes >= 0 and at most one -1",
            got=str(target),
            hint="leave only one size to be found, as in hr.sparse.reshape(x, [-1, 3])",
        )
    total = int(np.prod(sizes, dtype=object))
    if -1 in target:
        others = int(np.prod([size for size in target if size != -1], dtype=object))
        if not others or total % others:
            raise ShapeError(
                "the elements do not fit the shape", expected=f"{total} elements", got=str(target), hint=_FITTING
            )
        target[target.index(-1)] = total // others
    if int(np.prod(target, dtype=object)) != total:
        raise ShapeError(
            "the elements do not fit the shape", expected=f"{total} elements", got=str(target), hint=_FITTING
        )
    flat = np.zeros(len(indices), np.int64)
    for axis, size in enumerate(sizes):
        flat = flat * size + indices[:, axis]
    moved = np.empty((len(indices), len(target)), np.int64)
    for axis in reversed(range(len(target))):
        flat, moved[:, axis] = np.divmod(flat, max(target[axis], 1))
    return moved, np.array(target, np.int64)


@register_kernel("SparseConcat")
def _concat(
    op: OpContext, indices: list[Array], values: list[Array], shapes: list[Array]
) -> tuple[Array, Array, Array]:
    sizes = [_check(*part) for part in zip(indices, values, shapes, strict=True)]
    axis = normalize_axis(op.attr("concat_dim"), len(sizes[0]), what="concat_dim")
    for size in sizes:
        if size[:axis] + size[axis + 1 :] != sizes[0][:axis] + sizes[0][axis + 1 :] or len(size) != len(sizes[0]):
            raise ShapeError(
                "the shapes differ beside the axis",
                expected=str(list(sizes[0])),
                got=str(list(size)),
                hint="hr.sparse.reshape one of them, or concatenate along the axis in which they differ",
            )
    total = sum(size[axis] for size in sizes)
    if total >= 2**63:
        raise ShapeError(
            "the whole is too large",
            expected="a size below 2**63",
            got=str(total),
            hint="concatenate fewer parts, or make them with smaller shapes",
        )
    moved, offset = [], 0
    for part, size in zip(indices, sizes, strict=True):
        shifted = part.copy()
        shifted[:, axis] += offset
        offset += size[axis]
        moved.append(shifted)
    merged = np.concatenate(moved)
    order = _order(merged)
    shape = shapes[0].copy()
    shape[axis] = total
    return merged[order], np.concatenate(values)[order], shape


def _box(
    indices: Array, values: Array, sizes: Sequence[int], start: Sequence[int], size: Sequence[int]
) -> tuple[Array, Array, Array]:
    """What lies in the box from `start` on, cut off at the shape."""
    length = [min(count, max(whole - first, 0)) for count, whole, first in zip(size, sizes, start, strict=True)]
    low = np.array(start, np.int64)
    inside = ((indices >= low) & (indices - low < np.array(length, np.int64))).all(axis=1)
    return indices[inside] - low, values[inside], np.array(length, np.int64)


@register_kernel("SparseSlice")
def _slice(
    op: OpContext, indices: Array, values: Array, shape: Array, start: Array, size: Array
) -> tuple[Array, Array, Array]:
    sizes = _check(indices, values, shape)
    if np.less(start, 0).any() or np.less(size, 0).any():
        raise InvalidArgumentError(
            "a box begins or ends below 0",
            expected=">= 0",
            got=f"{start}, {size}",
            hint="count from the beginning; a size beyond the end takes the rest, and -1 does not",
        )
    return _box(indices, values, sizes, [int(item) for item in start], [int(item) for item in size])


@register_kernel("SparseReduceSum")
def _reduce_sum(op: OpContext, indices: Array, values: Array, shape: Array, axes: Array) -> Array:
    sizes = _check(indices, values, shape)
    summed = set(normalize_axes(np.reshape(axes, -1), len(sizes)))
    kept = [axis for axis in range(len(sizes)) if axis not in summed]
    total = np.zeros(checked_sizes([sizes[axis] for axis in kept]), _wide(values).dtype)
    _add_to(total, indices[:, kept], values)
    result = total.astype(values.dtype)
    if op.attr("keep_dims"):
        return result.reshape([1 if axis in summed else size for axis, size in enumerate(sizes)])
    return result


@register_kernel("SparseFillEmptyRows")
def _fill_empty_rows(
    op: OpContext, indices: Array, values: Array, shape: Array, default: Array
) -> tuple[Array, Array, Array, Array]:
    sizes = _check(indices, values, shape)
    checked_sizes([sizes[0], len(sizes)])
    empty = np.bincount(indices[:, 0], minlength=sizes[0]) == 0
    added = np.zeros((int(empty.sum()), len(sizes)), np.int64)
    added[:, 0] = np.flatnonzero(empty)
    rows = np.concatenate([indices, added])
    order = np.argsort(rows[:, 0], kind="stable")
    extended = np.concatenate([values, np.full(len(added), np.asarray(default)[()], values.dtype)])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return rows[order], extended[order], empty, places[: len(indices)]


@register_kernel("SparseFillEmptyRowsGrad")
def _fill_empty_rows_grad(op: OpContext, places: Array, grad: Array) -> tuple[Array, Array]:
    if places.size and (int(places.min()) < 0 or int(places.max()) >= len(grad)):
        raise OutOfRangeError(
            "an index is out of range",
            expected=f"0 <= index < {len(grad)}",
            got=f"{places.tolist()}",
            hint="pass the map and the gradient that belong to the same hr.sparse.fill_empty_rows",
        )
    rest = np.ones(len(grad), bool)
    rest[places] = False
    wide = _wide(grad)
    return grad[places], np.asarray(wide[rest].sum(dtype=wide.dtype)).astype(grad.dtype)


@register_kernel("SparseSoftmax")
def _softmax(op: OpContext, indices: Array, values: Array, shape: Array) -> Array:
    _check(indices, values, shape)
    if not _is_ordered(indices):
        raise InvalidArgumentError(
            "the indices are out of order", expected="row-major order", got=f"{indices[:8].tolist()}",
            hint="hr.sparse.reorder",
        )  # fmt: skip
    if not len(values):
        return values.copy()
    first = _starts(indices[:, :-1])
    starts, row = np.flatnonzero(first), np.cumsum(first) - 1
    wide = _wide(values)
    powers = np.exp(wide - np.maximum.reduceat(wide, starts)[row])
    return np.asarray(powers / np.add.reduceat(powers, starts)[row]).astype(values.dtype)


@register_kernel("SparseTensorDenseAdd")
def _dense_add(op: OpContext, indices: Array, values: Array, shape: Array, b: Array) -> Array:
    if _check(indices, values, shape) != b.shape:
        raise ShapeError(
            "the shapes differ",
            expected=f"{shape.tolist()}",
            got=str(list(b.shape)),
            hint="hr.broadcast_to the dense one first: hr.sparse.add spreads neither",
        )
    total = _wide(b).copy()
    _add_to(total, indices, values)
    return total.astype(b.dtype)


@register_kernel("SparseDenseCwiseMul")
def _dense_multiply(op: OpContext, indices: Array, values: Array, shape: Array, dense: Array) -> Array:
    sizes = _check(indices, values, shape)
    lead = len(sizes) - dense.ndim
    if lead < 0 or any(size not in (1, whole) for size, whole in zip(dense.shape, sizes[lead:], strict=True)):
        raise ShapeError(
            "only the dense side is broadcast",
            expected=str(list(sizes)),
            got=str(list(dense.shape)),
            hint="hr.sparse.to_dense(x) * dense spreads both",
        )
    places = tuple(indices[:, lead + axis] % size for axis, size in enumerate(dense.shape))
    return np.asarray(np.ascontiguousarray(values) * dense[places])  # strided products may round otherwise


@register_kernel("SparseSplit")
def _split(op: OpContext, split_dim: Array, indices: Array, values: Array, shape: Array) -> tuple[Array, ...]:
    sizes = _check(indices, values, shape)
    axis = normalize_axis(int(np.reshape(split_dim, ())), len(sizes), what="split_dim")
    number = op.attr("num_split")
    if sizes[axis] < number:
        raise InvalidArgumentError(
            "there are too many parts",
            expected=f"at most {sizes[axis]}",
            got=str(number),
            hint="split into fewer parts, or along a longer axis",
        )
    length, longer = divmod(sizes[axis], number)
    parts, start = [], 0
    for position in range(number):
        begin, size = [0] * len(sizes), list(sizes)
        begin[axis], size[axis] = start, length + (position < longer)
        parts.append(_box(indices, values, sizes, begin, size))
        start += size[axis]
    return tuple(item for group in zip(*parts, strict=True) for item in group)
