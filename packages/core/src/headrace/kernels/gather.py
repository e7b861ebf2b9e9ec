"""NumPy kernels that read and write elements by their indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headrace.interfaces import OpContext, VariableStorage
from headrace.kernels.memo import memoized
from headrace.kernels.registry import register_kernel
from headrace.kernels.state import check_indices
from headrace.ops.gather import check_index_depth, check_rows, check_updates, gathered_sizes, inverted
from headrace.ops.shapes import checked_sizes, scalar_of
from headrace.types import Array, Shape, string


@register_kernel("Gather", takes_out=True)
def _first_gather(op: OpContext, params: Array, indices: Array, out: Array | None = None) -> Array:
    check_rows(Shape(params.shape))
    check_indices(indices, params.shape[0])
    return np.take(params, indices, 0, out, "clip")  # as below


@register_kernel("GatherV2", takes_out=True)
def _gather(op: OpContext, params: Array, indices: Array, axis: Array, out: Array | None = None) -> Array:
    params, indices = np.asarray(params), np.asarray(indices)
    where = (params.shape, indices.shape, scalar_of(axis, "axis"), op.attr("batch_dims"))
    number, batch, sizes = memoized(gathered_sizes, *where)
    check_indices(indices, params.shape[number])
    if not batch:
        return np.take(params, indices, number, out, "clip")  # the indices are checked; "raise" would copy to a buffer
    lead = params.shape[:batch]
    count = int(np.prod(lead))
    outer, inner = params.shape[batch:number], params.shape[number + 1 :]
    matrix = params.reshape(count, int(np.prod(outer)), params.shape[number], int(np.prod(inner)))
    picks = indices.reshape(count, 1, int(np.prod(indices.shape[batch:])))
    batches, columns = np.arange(count)[:, None, None], np.arange(matrix.shape[1])[None, :, None]
    result = matrix[batches, columns, picks].reshape([size or 0 for size in sizes])
    if out is None:
        return result
    out[...] = result
    return out


@register_kernel("GatherNd")
def _gather_nd(op: OpContext, params: Array, indices: Array) -> Array:
    params, indices = np.asarray(params), np.asarray(indices)
    depth = check_index_depth(Shape(indices.shape), Shape(params.shape)) or 0
    flat, valid = _flat_indices(indices, params.shape[:depth], ignore=_ignores(op))
    rows = params.reshape(_count(params.shape[:depth]), *params.shape[depth:])
    if not rows.shape[0]:
        taken = np.full((flat.size, *rows.shape[1:]), _zero(op, "Tparams"), params.dtype)
    else:
        taken = rows[np.where(valid, flat, 0)]
        taken[~valid] = _zero(op, "Tparams")
    return taken.reshape(indices.shape[:-1] + params.shape[depth:])


@register_kernel("ResourceGatherNd")
def _resource_gather_nd(op: OpContext, variable: VariableStorage, indices: Array) -> Array:
    params, indices = variable.read(), np.asarray(indices)
    depth = check_index_depth(Shape(indices.shape), Shape(params.shape)) or 0
    flat, _ = _flat_indices(indices, params.shape[:depth])
    rows = params.reshape(_count(params.shape[:depth]), *params.shape[depth:])
    return np.take(rows, flat, axis=0).reshape(indices.shape[:-1] + params.shape[depth:])


def _ignores(op: OpContext) -> bool:
    return bool(op.attr("bad_indices_policy") == "IGNORE")


def _zero(op: OpContext, name: str) -> object:
    return b"" if op.attr(name) is string else 0


def _count(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _flat_indices(indices: Array, sizes: Sequence[int], *, ignore: bool = False) -> tuple[Array, Array]:
    """The number of the row that each index names, and whether there is such a row.

    Raises:
      OutOfRangeError: there is none, and that is not to be ignored.
    """
    coordinates = indices.reshape(_count(indices.shape[:-1]), indices.shape[-1])
    flat = np.zeros(len(coordinates), np.int64)
    valid = np.ones(len(coordinates), bool)
    for column, size in enumerate(sizes):
        values = coordinates[:, column].astype(np.int64)
        if ignore:
            valid &= (values >= 0) & (values < size)
        else:
            check_indices(values, size)
        flat = flat * size + values
    return flat, valid


@register_kernel("ScatterNd", takes_out=True)
def _scatter_nd(op: OpContext, indices: Array, updates: Array, shape: Array, out: Array | None = None) -> Array:
    sizes = checked_sizes(shape)
    indices, updates = np.asarray(indices), np.asarray(updates)
    check_updates(Shape(indices.shape), Shape(updates.shape), Shape(sizes))
    flat, valid = _flat_indices(indices, sizes[: indices.shape[-1]], ignore=_ignores(op))
    if out is None:
        out = np.empty(sizes, updates.dtype)
    out[...] = _zero(op, "T")
    _write(out, flat, valid, updates, indices.shape[-1], _add_rows)
    return out


@register_kernel("TensorScatterUpdate", takes_out=True)
def _tensor_scatter_update(
    op: OpContext, tensor: Array, indices: Array, updates: Array, out: Array | None = None
) -> Array:
    return _tensor_scatter(op, tensor, indices, updates, out, _replace_rows)


@register_kernel("TensorScatterAdd", takes_out=True)
def _tensor_scatter_add(
    op: OpContext, tensor: Array, indices: Array, updates: Array, out: Array | None = None
) -> Array:
    return _tensor_scatter(op, tensor, indices, updates, out, _add_rows)


@register_kernel("TensorScatterSub", takes_out=True)
def _tensor_scatter_sub(
    op: OpContext, tensor: Array, indices: Array, updates: Array, out: Array | None = None
) -> Array:
    return _tensor_scatter(op, tensor, indices, updates, out, np.subtract.at)


@register_kernel("TensorScatterMax", takes_out=True)
def _tensor_scatter_max(
    op: OpContext, tensor: Array, indices: Array, updates: Array, out: Array | None = None
) -> Array:
    return _tensor_scatter(op, tensor, indices, updates, out, np.maximum.at)


@register_kernel("TensorScatterMin", takes_out=True)
def _tensor_scatter_min(
    op: OpContext, tensor: Array, indices: Array, updates: Array, out: Array | None = None
) -> Array:
    return _tensor_scatter(op, tensor, indices, updates, out, np.minimum.at)


Change = Callable[[Array, Array, Array], None]


def _tensor_scatter(
    op: OpContext, tensor: Array, indices: Array, updates: Array, out: Array | None, change: Change
) -> Array:
    tensor, indices, updates = np.asarray(tensor), np.asarray(indices), np.asarray(updates)
    check_updates(Shape(indices.shape), Shape(updates.shape), Shape(tensor.shape))
    flat, valid = _flat_indices(indices, tensor.shape[: indices.shape[-1]], ignore=_ignores(op))
    if out is None:
        out = np.empty(tensor.shape, tensor.dtype)
    out[...] = tensor
    _write(out, flat, valid, updates, indices.shape[-1], change)
    return out


def _write(target: Array, flat: Array, valid: Array, updates: Array, depth: int, change: Change) -> None:
    """Change the rows of `target`, which is contiguous, in the order of the indices."""
    rows = target.reshape(_count(target.shape[:depth]), *target.shape[depth:])
    change(rows, flat[valid], updates.reshape(flat.size, *target.shape[depth:])[valid])


def _add_rows(rows: Array, flat: Array, updates: Array) -> None:
    """`np.add.at` adds row after row, in order; where no row is named twice the much faster `+=` does the same."""
    if (flat.size and np.bincount(flat).max() > 1) or rows.dtype.kind not in "iufc":
        np.add.at(rows, flat, updates)
    else:
        rows[flat] += updates


def _replace_rows(rows: Array, flat: Array, updates: Array) -> None:
    """NumPy promises no order for repeated indices, so only the last of each is written."""
    _, positions = np.unique(flat[::-1], return_index=True)
    last = flat.size - 1 - positions
    rows[flat[last]] = updates[last]


@register_kernel("InvertPermutation")
def _invert_permutation(op: OpContext, x: Array) -> Array:
    return inverted(x)
