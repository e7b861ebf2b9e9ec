"""Operations that read and write elements by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace import types
from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import checked_sizes, normalize_axis, scalar_of, shape_tensor
from headrace.types import Array, Shape

__all__ = [
    "check_index_depth",
    "check_rows",
    "check_updates",
    "gather",
    "gather_nd",
    "gathered_sizes",
    "invert_permutation",
    "inverted",
    "scatter_nd",
    "tensor_scatter_add",
    "tensor_scatter_update",
]

_INDEX = attr.type(types.int16, types.int32, types.int64)
_POLICY = attr.string("", allowed=["", "DEFAULT", "ERROR", "IGNORE"])


@register_op(
    "GatherV2",
    inputs={"params": "Tparams", "indices": "Tindices", "axis": "Taxis"},
    outputs={"output": "Tparams"},
    attrs={
        "batch_dims": attr.int(0),
        "Tparams": attr.any_type,
        "Tindices": _INDEX,
        "Taxis": attr.type(types.int32, types.int64),
    },
)
def _gather_shape(op: InferenceContext) -> list[Shape]:
    """The slices of the input along an axis that the indices name, in their order."""
    params, indices = op.inputs[0].shape, op.inputs[1].shape
    axis = op.constant(2)
    if params.dims is None or indices.dims is None:
        return [Shape()]
    if axis is None:
        batch = gather_batch_dims(op.attr("batch_dims"), indices.dims, params.dims)
        return [Shape([None] * (len(params.dims) - 1 + len(indices.dims) - batch))]
    return [Shape(gathered_sizes(params.dims, indices.dims, scalar_of(axis, "axis"), op.attr("batch_dims"))[2])]


@register_op(
    "Gather",
    inputs={"params": "Tparams", "indices": "Tindices"},
    outputs={"output": "Tparams"},
    attrs={"validate_indices": attr.bool(True), "Tparams": attr.any_type, "Tindices": _INDEX},
)
def _first_gather_shape(op: InferenceContext) -> list[Shape]:
    """`GatherV2` along axis 0, as early graphs of TensorFlow 1 write it; indices are always checked."""
    params, indices = op.inputs[0].shape, op.inputs[1].shape
    check_rows(params)
    return [Shape() if params.dims is None or indices.dims is None else Shape((*indices.dims, *params.dims[1:]))]


def check_rows(params: Shape) -> None:
    """Raise ShapeError if there are no rows to choose from."""
    if params.rank == 0:
        raise ShapeError(
            "a scalar has no rows", expected="rank >= 1", got="[]", hint="hr.expand_dims(x, 0) makes it one row"
        )


def gathered_sizes(
    params: Sequence[int | None], indices: Sequence[int | None], axis: int, batch_dims: int
) -> tuple[int, int, list[int | None]]:
    """The axis and the number of batch axes, neither negative, and the shape of a gather.

    Raises:
      ShapeError: one is out of range, or the batch axes of the inputs differ.
    """
    batch = gather_batch_dims(batch_dims, indices, params)
    number = normalize_axis(axis, len(params))
    if number < batch:
        raise ShapeError(
            "the axis of a gather is a batch axis",
            expected=f"axis >= batch_dims = {batch}",
            got=str(axis),
            hint="choose a later axis, or lower batch_dims",
        )
    lead = Shape(params[:batch])
    if not lead.is_compatible_with(Shape(indices[:batch])):
        raise ShapeError(
            "the batch axes of params and indices differ",
            expected=f"indices that begin with {lead}",
            got=str(Shape(indices)),
            hint="hr.broadcast_to makes them equal, or gather without batch axes, batch_dims=0",
        )
    merged = lead.merge(Shape(indices[:batch]))
    return number, batch, [*merged, *params[batch:number], *indices[batch:], *params[number + 1 :]]


def gather_batch_dims(batch_dims: int, indices: Sequence[int | None], params: Sequence[int | None]) -> int:
    """The number of batch axes; negative ones count from the rank of the indices."""
    limit = min(len(indices), len(params) - 1)
    number = batch_dims + len(indices) if batch_dims < 0 else batch_dims
    if not 0 <= number <= limit:
        raise ShapeError(
            "batch_dims is out of range",
            expected=f"at most {limit}",
            got=str(batch_dims),
            hint="batch_dims=0 gathers without batch axes; hr.expand_dims adds one",
        )
    return number


@register_op(
    "GatherNd",
    inputs={"params": "Tparams", "indices": "Tindices"},
    outputs={"output": "Tparams"},
    attrs={"Tindices": _INDEX, "bad_indices_policy": _POLICY},
)
def _gather_nd_shape(op: InferenceContext) -> list[Shape]:
    """The elements, or slices, that the last axis of the indices names: `params[indices[..., 0], ...]`."""
    params, indices = op.inputs[0].shape, op.inputs[1].shape
    depth = check_index_depth(indices, params)
    if depth is None or params.dims is None or indices.dims is None:
        return [Shape()]
    return [Shape((*indices.dims[:-1], *params.dims[depth:]))]


@register_op(
    "ResourceGatherNd",
    inputs={"resource": "resource", "indices": "Tindices"},
    outputs={"output": "dtype"},
    attrs={"dtype": attr.any_type, "Tindices": attr.index_type},
    stateful=True,
    reads_only=True,
)
def _resource_gather_nd_shape(op: InferenceContext) -> list[Shape]:
    """Elements or slices of a variable, those that the last axis of the indices names."""
    known = op.variable_spec(0)
    variable, indices = known.shape if known is not None else Shape(), op.inputs[1].shape
    if known is not None and known.dtype is not op.attr("dtype"):
        raise DTypeError(
            "the variable has another dtype",
            expected=str(known.dtype),
            got=str(op.attr("dtype")),
            hint="give the attribute dtype that of the variable",
        )
    depth = check_index_depth(indices, variable)
    if depth is None or variable.dims is None or indices.dims is None:
        return [Shape()]
    return [Shape((*indices.dims[:-1], *variable.dims[depth:]))]


def check_index_depth(indices: Shape, params: Shape) -> int | None:
    """How many axes the last axis of `indices` speaks of, or None where it is not known.

    Raises:
      ShapeError: there is no last axis, or it speaks of more axes than there are.
    """
    if indices.rank == 0:
        raise ShapeError(
            "indices must have a last axis",
            expected="rank >= 1",
            got="shape []",
            hint="hr.expand_dims(indices, axis=-1) makes it the index of one element",
        )
    depth = None if indices.dims is None else indices.dims[-1]
    if depth is not None and params.rank is not None and depth > params.rank:
        raise ShapeError(
            "indices speak of more axes than there are",
            expected=f"a last axis of at most {params.rank}",
            got=str(indices),
            hint="hr.expand_dims(indices, axis=-1) if they are positions along the first axis",
        )
    return depth


@register_op(
    "ScatterNd",
    inputs={"indices": "Tindices", "updates": "T", "shape": "Tindices"},
    outputs={"output": "T"},
    attrs={"Tindices": _INDEX, "bad_indices_policy": _POLICY},
)
def _scatter_nd_shape(op: InferenceContext) -> list[Shape]:
    """Zeros of the given shape with the updates added where the indices say; the transpose of `GatherNd`."""
    sizes = op.constant(2)
    shape = op.constant_shape(2) if sizes is None else Shape(checked_sizes(sizes))
    check_updates(op.inputs[0].shape, op.inputs[1].shape, shape)
    return [shape]


def check_updates(indices: Shape, updates: Shape, target: Shape) -> None:
    """Raise ShapeError unless there is one update, of the right shape, for each index into `target`."""
    depth = check_index_depth(indices, target)
    if depth is None or indices.dims is None or target.dims is None:
        return
    wanted = Shape((*indices.dims[:-1], *target.dims[depth:]))
    if not wanted.is_compatible_with(updates):
        raise ShapeError(
            "the updates do not fit the indices",
            expected=str(wanted),
            got=str(updates),
            hint="hr.broadcast_to repeats one value for every index; hr.reshape drops extra axes",
        )


_TENSOR_SCATTER: dict[str, Any] = {
    "inputs": {"tensor": "T", "indices": "Tindices", "updates": "T"},
    "outputs": {"output": "T"},
}


@register_op("TensorScatterUpdate", **_TENSOR_SCATTER, attrs={"Tindices": _INDEX, "bad_indices_policy": _POLICY})
def _tensor_scatter_update_shape(op: InferenceContext) -> list[Shape]:
    """The tensor with the updates where the indices say; of repeated indices the last one counts."""
    check_updates(op.inputs[1].shape, op.inputs[2].shape, op.inputs[0].shape)
    return [op.inputs[0].shape]


@register_op(
    "TensorScatterAdd",
    **_TENSOR_SCATTER,
    attrs={"Tindices": attr.type(types.int32, types.int64), "bad_indices_policy": _POLICY},
)
def _tensor_scatter_add_shape(op: InferenceContext) -> list[Shape]:
    """The tensor with the updates added where the indices say; repeated indices add each time."""
    check_updates(op.inputs[1].shape, op.inputs[2].shape, op.inputs[0].shape)
    return [op.inputs[0].shape]


def _register_tensor_scatter(name: str, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        check_updates(op.inputs[1].shape, op.inputs[2].shape, op.inputs[0].shape)
        return [op.inputs[0].shape]

    shape.__doc__ = doc
    attrs = {"T": attr.numeric if name.endswith("Sub") else attr.ordered, "Tindices": attr.index_type}
    register_op(name, **_TENSOR_SCATTER, attrs={**attrs, "bad_indices_policy": _POLICY})(shape)


_register_tensor_scatter(
    "TensorScatterSub", "The tensor less the updates where the indices say; repeated indices subtract each time."
)
_register_tensor_scatter("TensorScatterMax", "The tensor, or the updates where the indices say and they are larger.")
_register_tensor_scatter("TensorScatterMin", "The tensor, or the updates where the indices say and they are smaller.")


@register_op("InvertPermutation", inputs={"x": "T"}, outputs={"y": "T"}, attrs={"T": attr.index_type})
def _invert_permutation_shape(op: InferenceContext) -> list[Shape]:
    """The permutation that undoes the given one: y[x[i]] = i."""
    return [op.inputs[0].shape.with_rank(1)]


def inverted(permutation: Array) -> Array:
    """The inverse of a permutation.

    Raises:
      ShapeError: it is not a vector with every number from 0 on once.
    """
    given = np.asarray(permutation)
    if given.ndim != 1 or not np.array_equal(np.sort(given), np.arange(given.size)):
        raise ShapeError(
            "the vector is not a permutation",
            expected="each of 0, 1, ..., n - 1 once",
            got=str(given.tolist()),
            hint="hr.argsort gives the permutation that sorts any vector",
        )
    return np.argsort(given).astype(given.dtype)


def gather(
    x: TensorLike, indices: TensorLike, *, axis: TensorLike | None = None, batch_dims: int = 0, name: str | None = None
) -> Tensor:
    """The slices of `x` along an axis that the indices name, in their order.

    Rows of a Variable are read where the variable lives, without the rest of it, and their gradient is `IndexedSlices`.

    Args:
      x: any dtype, `[batch..., outer..., size, inner...]`.
      indices: int16, int32 or int64 in `[0, size)`, `[batch..., picks...]`.
      axis: the axis; by default the first after the batch axes.
      batch_dims: how many leading axes `x` and `indices` share.
      name: the operation's name.
    Returns:
      `[batch..., outer..., picks..., inner...]`.
    Raises:
      OutOfRangeError: when it runs and an index is out of range; negative ones are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     rows = hr.gather([[1, 2], [3, 4], [5, 6]], [2, 0])
      >>> print(hr.Session(graph).run(rows))
      [[5 6]
       [1 2]]
    """
    chosen = batch_dims if axis is None else axis
    handle = getattr(x, "handle", None)
    result: Tensor
    if isinstance(handle, Tensor) and isinstance(chosen, int) and chosen == batch_dims == 0:
        rows = convert_to_tensor(indices)
        wide = apply_op("Cast", rows, DstT=types.int32) if rows.dtype.size < 4 else rows
        result = apply_op("ResourceGather", handle, wide, dtype=x.dtype, name=name)
    else:
        result = apply_op("GatherV2", x, indices, chosen, batch_dims=batch_dims, name=name)
    return result


def gather_nd(x: TensorLike, indices: TensorLike, *, name: str | None = None) -> Tensor:
    """The elements, or slices, of `x` that the last axis of the indices names.

    Args:
      x: any dtype, rank n.
      indices: int16, int32 or int64 `[picks..., k]` with k <= n, each row the first k coordinates of what is picked.
      name: the operation's name.
    Returns:
      `[picks..., x.shape[k:]...]`.
    Raises:
      OutOfRangeError: when it runs and an index is out of range; negative ones are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]])
      >>> print(hr.Session(graph).run(x))
      [2 3]
    """
    result: Tensor = apply_op("GatherNd", x, indices, name=name)
    return result


def scatter_nd(indices: TensorLike, updates: TensorLike, shape: TensorLike, *, name: str | None = None) -> Tensor:
    """Zeros of a shape with the updates added where the indices say.

    Args:
      indices: int16, int32 or int64 `[picks..., k]`, each row the first k coordinates of where an update goes.
      updates: any dtype, `[picks..., shape[k:]...]`.
      shape: the shape of the result, of at least k axes.
      name: the operation's name.
    Raises:
      OutOfRangeError: when it runs and an index is out of range; negative ones are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.scatter_nd([[1], [3], [1]], [10, 20, 5], [5])
      >>> print(hr.Session(graph).run(x))
      [ 0 15  0 20  0]
    """
    positions, sizes = convert_to_tensor(indices), shape_tensor(shape)
    if sizes.dtype is not positions.dtype:
        sizes = apply_op("Cast", sizes, DstT=positions.dtype)
    result: Tensor = apply_op("ScatterNd", positions, updates, sizes, name=name)
    return result


def tensor_scatter_update(
    x: TensorLike, indices: TensorLike, updates: TensorLike, *, name: str | None = None
) -> Tensor:
    """`x` with the updates where the indices say; of repeated indices the last one counts.

    Args:
      x: any dtype, rank n.
      indices: int16, int32 or int64 `[picks..., k]`, each row the first k coordinates of where an update goes.
      updates: the dtype of `x`, `[picks..., x.shape[k:]...]`.
      name: the operation's name.
    Raises:
      OutOfRangeError: when it runs and an index is out of range; negative ones are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.tensor_scatter_update([1, 2, 3], [[1]], [20])
      >>> print(hr.Session(graph).run(x))
      [ 1 20  3]
    """
    result: Tensor = apply_op("TensorScatterUpdate", x, indices, updates, name=name)
    return result


def tensor_scatter_add(x: TensorLike, indices: TensorLike, updates: TensorLike, *, name: str | None = None) -> Tensor:
    """`x` with the updates added where the indices say; see `tensor_scatter_update`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.tensor_scatter_add([1, 2, 3], [[1], [1]], [20, 30])
      >>> print(hr.Session(graph).run(x))
      [ 1 52  3]
    """
    result: Tensor = apply_op("TensorScatterAdd", x, indices, updates, name=name)
    return result


def invert_permutation(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The permutation that undoes the given one: `y[x[i]] = i`.

    Args:
      x: int32 or int64 `[n]`, each of 0 to n - 1 once.
      name: the operation's name.
    Raises:
      ShapeError: when it runs and `x` is not a permutation.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.invert_permutation([2, 0, 1])
      >>> print(hr.Session(graph).run(y))
      [1 2 0]
    """
    result: Tensor = apply_op("InvertPermutation", x, name=name)
    return result
