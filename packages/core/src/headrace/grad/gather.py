"""Gradient rules of operations that read and write elements by their indices."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.ops.indexed_slices import IndexedSlices
from headrace.types import int32

no_gradient("InvertPermutation", "a permutation is integers")


@register_gradient("GatherV2")
def _gather(op: Operation, g: Tensor) -> list[Tensor | IndexedSlices | None]:
    """Each slice that was read gets its part of g, added up where it was read several times.

    Along axis 0 the gradient stays sparse: an embedding of which a step reads a few rows is updated in those rows only.
    """
    params, indices, axis = op.inputs
    known = constant_value(axis)
    if known is not None and int(known) == 0 and not op.attr("batch_dims"):
        return [_rows(params, indices, g), None, None]
    return [_summed(op, g), None, None]


@register_gradient("Gather")
def _first_gather(op: Operation, g: Tensor) -> list[IndexedSlices | None]:
    """Sparse, as that of `GatherV2` along axis 0."""
    params, indices = op.inputs
    return [_rows(params, indices, g), None]


def _rows(params: Tensor, indices: Tensor, g: Tensor) -> IndexedSlices:
    shape = apply_op("Shape", params)
    count = apply_op("ExpandDims", apply_op("Size", indices), 0)
    row_shape = apply_op("StridedSlice", shape, [1], [0], [1], end_mask=1)
    values = apply_op("Reshape", g, apply_op("ConcatV2", [count, row_shape], 0))
    flat = apply_op("Reshape", _wide(indices), count)
    return IndexedSlices(values, flat, shape)


def _wide(indices: Tensor) -> Tensor:
    wide: Tensor = apply_op("Cast", indices, DstT=int32) if indices.dtype.size < 4 else indices
    return wide


def _summed(op: Operation, g: Tensor) -> Tensor:
    """The gradient in full.

    All axes but the gathered one are merged, to `[batch, outer, picks, inner]`; then the rows, which are now
    `[batch * picks, outer, inner]`, are summed by index.
    """
    params, indices, axis = op.inputs
    indices = _wide(indices)
    batch = op.attr("batch_dims")
    shape = apply_op("Shape", params, out_type=indices.dtype)
    picks_shape = apply_op("Shape", indices, out_type=indices.dtype)
    if batch < 0:
        batch += len(indices.shape)
    position = apply_op("FloorMod", axis, apply_op("Cast", apply_op("Rank", params), DstT=axis.dtype))
    place = apply_op("Reshape", position, [1])
    after = apply_op("AddV2", place, 1)
    count = _product(apply_op("StridedSlice", shape, [0], [batch], [1]))
    outer = _product(apply_op("StridedSlice", shape, _like([batch], place), place, _like([1], place)))
    size = apply_op("GatherV2", shape, position, 0)
    inner = _product(apply_op("StridedSlice", shape, after, _like([0], place), _like([1], place), end_mask=1))
    picks = _product(apply_op("StridedSlice", picks_shape, [batch], [0], [1], end_mask=1))
    apart = apply_op("Reshape", g, apply_op("Pack", [count, outer, picks, inner]))
    rows = apply_op("Transpose", apart, [0, 2, 1, 3])
    rows = apply_op("Reshape", rows, apply_op("Pack", [apply_op("Mul", count, picks), outer, inner]))
    numbers = apply_op("Reshape", indices, apply_op("Pack", [count, picks]))
    starts = apply_op("Mul", apply_op("Range", 0, count, 1, Tidx=indices.dtype), size)
    flat = apply_op("Reshape", apply_op("AddV2", numbers, apply_op("ExpandDims", starts, 1)), [-1])
    summed = apply_op("UnsortedSegmentSum", rows, flat, apply_op("Mul", count, size))
    back = apply_op("Reshape", summed, apply_op("Pack", [count, size, outer, inner]))
    result: Tensor = apply_op("Reshape", apply_op("Transpose", back, [0, 2, 1, 3]), shape)
    return result


def _like(values: list[int], tensor: Tensor) -> Tensor:
    like: Tensor = apply_op("Cast", values, DstT=tensor.dtype)
    return like


def _product(sizes: Tensor) -> Tensor:
    product: Tensor = apply_op("Prod", sizes, [0])
    return product


@register_gradient("GatherNd")
def _gather_nd(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each element that was read gets its part of g."""
    params, indices = op.inputs
    indices = _wide(indices)
    policy = op.attr("bad_indices_policy")
    shape = apply_op("Shape", params, out_type=indices.dtype)
    return [apply_op("ScatterNd", indices, g, shape, bad_indices_policy=policy), None]


@register_gradient("ResourceGatherNd")
def _resource_gather_nd(op: Operation, g: Tensor) -> list[Tensor | IndexedSlices | None]:
    """Each element that was read gets its part of g; where whole rows are read the gradient stays sparse."""
    handle, indices = op.inputs
    shape: Tensor = apply_op("VariableShape", handle, out_type=indices.dtype)
    if indices.shape.dims is not None and indices.shape.dims[1:] == (1,):
        return [IndexedSlices(g, apply_op("Reshape", indices, [-1]), shape), None]
    return [apply_op("ScatterNd", indices, g, shape), None]


@register_gradient("ScatterNd")
def _scatter_nd(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each update sees the element to which it was added."""
    return [None, _read(op, g, op.inputs[0]), None]


@register_gradient("TensorScatterAdd")
def _tensor_scatter_add(op: Operation, g: Tensor) -> list[Tensor | None]:
    """d(x + scattered updates)."""
    return [g, None, _read(op, g, op.inputs[1])]


@register_gradient("TensorScatterSub")
def _tensor_scatter_sub(op: Operation, g: Tensor) -> list[Tensor | None]:
    """d(x - scattered updates)."""
    return [g, None, apply_op("Neg", _read(op, g, op.inputs[1]))]


@register_gradient("TensorScatterMax")
@register_gradient("TensorScatterMin")
def _tensor_scatter_extreme(op: Operation, g: Tensor) -> list[Tensor | None]:
    """To what the result is equal to, in equal parts where that are several."""
    x, indices, updates = op.inputs
    y = op.outputs[0]
    kept = apply_op("Cast", apply_op("Equal", x, y), DstT=g.dtype)
    chosen = apply_op("Cast", apply_op("Equal", updates, _read(op, y, indices)), DstT=g.dtype)
    shape = apply_op("Shape", x, out_type=indices.dtype)
    counts = apply_op("ScatterNd", indices, chosen, shape, bad_indices_policy=op.attr("bad_indices_policy"))
    share = apply_op("RealDiv", g, apply_op("AddV2", kept, counts))
    return [apply_op("Mul", share, kept), None, apply_op("Mul", _read(op, share, indices), chosen)]


@register_gradient("TensorScatterUpdate")
def _tensor_scatter_update(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Elements that were replaced get nothing; of several updates of one element the last one gets its gradient."""
    _, indices, updates = op.inputs
    policy = op.attr("bad_indices_policy")
    kept = apply_op("TensorScatterUpdate", g, indices, apply_op("ZerosLike", updates), bad_indices_policy=policy)
    read = _read(op, g, indices)
    return [kept, None, apply_op("SelectV2", _counts(op, indices, updates), read, apply_op("ZerosLike", read))]


def _read(op: Operation, g: Tensor, indices: Tensor) -> Tensor:
    read: Tensor = apply_op("GatherNd", g, indices, bad_indices_policy=op.attr("bad_indices_policy"))
    return read


def _counts(op: Operation, indices: Tensor, updates: Tensor) -> Tensor:
    """Which updates stayed: each leaves its own number, and those that find it again were the last."""
    size = apply_op("Size", updates)
    numbers = apply_op("Reshape", apply_op("Range", 0, size, 1), apply_op("Shape", updates))
    nobody = apply_op("Fill", apply_op("Shape", op.inputs[0]), -1)
    policy = op.attr("bad_indices_policy")
    written = apply_op("TensorScatterUpdate", nobody, indices, numbers, bad_indices_policy=policy)
    counts: Tensor = apply_op("Equal", _read(op, written, indices), numbers)
    return counts
