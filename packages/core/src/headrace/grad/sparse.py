"""Gradient rules of the sparse family: of values and dense tensors; indices and shapes have none.

Where an operation moves elements, the same operation on their numbers tells where each went.
"""

from __future__ import annotations

import numpy as np

from headrace.grad.broadcast import conjugate
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.types import int64


def _op(op_type: str, *inputs: TensorLike, **attrs: object) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs, name=None, **attrs)
    return result


def _count(x: Tensor) -> Tensor:
    return _op("Size", x, out_type=int64)


def _numbers(values: Tensor) -> Tensor:
    """0, 1, ... for each element."""
    return _op("Range", np.int64(0), _count(values), np.int64(1))


def _put(g: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """The gradient of `values`, of which those at `places` came out in this order."""
    return _op("UnsortedSegmentSum", g, places, _count(values))


no_gradient("SparseReshape", "its outputs are integers")


@register_gradient("SparseToDense")
def _to_dense(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each value has the derivative 1 where it stands, the default everywhere else."""
    indices, sizes, values, _ = op.inputs
    rank = _op("Size", sizes)
    matrix = _op("Reshape", indices, _op("Pack", [np.int32(-1), rank]))
    taken = _op("GatherNd", g, matrix)
    rest = _op("Sub", _total(g), _total(taken))
    shaped = _op("Reshape", taken, _op("Shape", values)) if values.shape.rank == 1 else _total(taken)
    if values.shape.rank is None:
        one = _op("BroadcastTo", _op("ZerosLike", values), _op("Shape", taken))
        shaped = _op("AddV2", taken, one)
    return [None, None, shaped, rest]


def _total(x: Tensor) -> Tensor:
    return _op("Sum", _op("Reshape", x, [-1]), 0)


@register_gradient("SparseTensorDenseMatMul")
def _matmul(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The gradient of b is a product with the other form of a; that of a is taken where it has values."""
    indices, values, shape, b = op.inputs
    adjoint_a, adjoint_b = op.attrs["adjoint_a"], op.attrs["adjoint_b"]
    db = _op("SparseTensorDenseMatMul", indices, values, shape, g, adjoint_a=not adjoint_a)
    if adjoint_b:
        db, b = _adjoint(db), _adjoint(b)
    rows, columns = apply_op("Unpack", indices, num=2, axis=1)
    if adjoint_a:
        rows, columns = columns, rows
    product = _op("Mul", _op("GatherV2", g, rows, 0), conjugate(_op("GatherV2", b, columns, 0)))
    da = _op("Sum", product, 1)
    return [None, conjugate(da) if adjoint_a else da, None, db]


def _adjoint(x: Tensor) -> Tensor:
    return _op("Transpose", conjugate(x), [1, 0])


@register_gradient("SparseReorder")
def _reorder(op: Operation, _: Tensor | None, g: Tensor | None) -> list[Tensor | None]:
    """Every value has the derivative 1 where it went."""
    if g is None:
        return [None, None, None]
    indices, values, shape = op.inputs
    _, places = apply_op("SparseReorder", indices, _numbers(values), shape)
    return [None, _put(g, places, values), None]


@register_gradient("SparseAdd")
def _add(op: Operation, *grads: Tensor | None) -> list[Tensor | None]:
    """Every value has the derivative 1 where its sum stands, 0 where that was left out."""
    g = grads[1]
    if g is None:
        return [None] * 7
    a_indices, _, shape, b_indices = op.inputs[:4]
    return [None, _at(g, op, a_indices, shape), None, None, _at(g, op, b_indices, shape), None, None]


def _at(g: Tensor, op: Operation, indices: Tensor, shape: Tensor) -> Tensor:
    """g where the output of `SparseAdd` has the indices, else 0."""
    strides = _op("Cumprod", shape, 0, exclusive=True, reverse=True)
    there, here = (_op("Sum", _op("Mul", part, strides), 1) for part in (op.outputs[0], indices))
    padded = _op("ConcatV2", [there, np.array([-1])], 0)
    places = _op(
        "Reshape", _op("LowerBound", _op("ExpandDims", there, 0), _op("ExpandDims", here, 0), out_type=int64), [-1]
    )
    values = _op("GatherV2", _op("ConcatV2", [g, _op("Cast", np.zeros(1), DstT=g.dtype)], 0), places, 0)
    return _op("SelectV2", _op("Equal", _op("GatherV2", padded, places, 0), here), values, _op("ZerosLike", values))


@register_gradient("SparseConcat")
def _concat(op: Operation, _: Tensor | None, g: Tensor | None, __: Tensor | None) -> list[Tensor | None]:
    """Every value has the derivative 1 where it went."""
    number = op.attrs["N"]
    if g is None:
        return [None] * (3 * number)
    indices, values, shapes = (op.inputs[start * number : (start + 1) * number] for start in range(3))
    counts = [_count(part) for part in values]
    firsts = [_op("AddN", [np.int64(0), *counts[:position]]) for position in range(number)]
    numbers = [_op("AddV2", _numbers(part), first) for part, first in zip(values, firsts, strict=True)]
    _, places, _ = apply_op("SparseConcat", indices, numbers, shapes, concat_dim=op.attrs["concat_dim"])
    whole = _op("UnsortedSegmentSum", g, places, _op("AddN", counts))
    parts = apply_op("SplitV", whole, _op("Pack", counts), 0, num_split=number)
    return [*[None] * number, *parts, *[None] * number]


@register_gradient("SparseSlice")
def _slice(op: Operation, _: Tensor | None, g: Tensor | None, __: Tensor | None) -> list[Tensor | None]:
    """Values in the box have the derivative 1, others 0."""
    if g is None:
        return [None] * 5
    indices, values, *rest = op.inputs
    _, places, _ = apply_op("SparseSlice", indices, _numbers(values), *rest)
    return [None, _put(g, places, values), None, None, None]


@register_gradient("SparseSplit")
def _split(op: Operation, *grads: Tensor | None) -> list[Tensor | None]:
    """Every value has the derivative 1 in the part it went to."""
    split_dim, indices, values, shape = op.inputs
    number = op.attrs["num_split"]
    _, places, _ = apply_op("SparseSplit", split_dim, indices, _numbers(values), shape, num_split=number)
    given = [_put(g, at, values) for g, at in zip(grads[number : 2 * number], places, strict=True) if g is not None]
    return [None, None, _op("AddN", given) if given else None, None]


@register_gradient("SparseReduceSum")
def _reduce_sum(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every value has the derivative 1 by the sum it went into."""
    indices, values, shape, axes = op.inputs
    kept = _op("Shape", _op("SparseReduceSum", indices, values, shape, axes, keep_dims=True), out_type=int64)
    scale = _op("FloorDiv", shape, _op("Maximum", kept, np.int64(1)))
    places = _op("FloorDiv", indices, _op("Maximum", scale, np.int64(1)))
    return [None, _op("GatherNd", _op("Reshape", g, kept), places), None, None]


@register_gradient("SparseFillEmptyRows")
def _fill_empty_rows(op: Operation, *grads: Tensor | None) -> list[Tensor | None]:
    """Every value has the derivative 1 where it went, the default at the rest."""
    if grads[1] is None:
        return [None] * 4
    values, default = apply_op("SparseFillEmptyRowsGrad", op.outputs[3], grads[1])
    return [None, values, None, default]


@register_gradient("SparseFillEmptyRowsGrad")
def _fill_empty_rows_grad(op: Operation, values: Tensor | None, default: Tensor | None) -> list[Tensor | None]:
    """Elements that the map names go to d_values, the others are added up in d_default_value."""
    places, grad = op.inputs
    found: list[Tensor] = []
    if values is not None:
        found.append(_put(values, places, grad))
    if default is not None:
        ones = _op("Cast", _op("OnesLike", places), DstT=grad.dtype)
        found.append(_op("Mul", _op("Sub", _op("OnesLike", grad), _put(ones, places, grad)), default))
    return [None, _op("AddN", found) if found else None]


@register_gradient("SparseSoftmax")
def _softmax(op: Operation, g: Tensor) -> list[Tensor | None]:
    """y * (g - the sum of g * y over the row)."""
    indices, _, shape = op.inputs
    y = op.outputs[0]
    lead = _op("StridedSlice", shape, [0], [-1], [1], begin_mask=1)
    strides = _op("Cumprod", lead, 0, exclusive=True, reverse=True)
    columns = _op("StridedSlice", indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
    _, rows = apply_op("Unique", _op("Sum", _op("Mul", columns, strides), 1))
    totals = _op("UnsortedSegmentSum", _op("Mul", g, y), rows, _op("Size", y))
    return [None, _op("Mul", _op("Sub", g, _op("GatherV2", totals, rows, 0)), y), None]


@register_gradient("SparseTensorDenseAdd")
def _dense_add(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Both have the derivative 1."""
    return [None, _op("GatherNd", g, op.inputs[0]), None, g]


@register_gradient("SparseDenseCwiseMul")
def _dense_multiply(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each factor has the other as derivative; a dense element that was broadcast adds up its uses."""
    indices, values, shape, dense = op.inputs
    ones = _op("StridedSlice", _op("OnesLike", shape), _op("ExpandDims", _op("Rank", dense), 0), [0], [1], end_mask=1)
    padded = _op("ConcatV2", [ones, _op("Shape", dense, out_type=int64)], 0)
    places = _op("FloorMod", indices, _op("Maximum", padded, np.int64(1)))
    factors = _op("GatherNd", _op("Reshape", dense, padded), places)
    scattered = _op("ScatterNd", places, _op("Mul", g, conjugate(values)), padded)
    return [None, _op("Mul", g, conjugate(factors)), None, _op("Reshape", scattered, _op("Shape", dense))]
