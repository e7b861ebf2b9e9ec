"""Gradient rules of the segment family: each row gets the gradient of the segment it went into."""

from __future__ import annotations

from headrace.grad.broadcast import conjugate
from headrace.grad.registry import register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.complex import part_dtype
from headrace.types import int16, int32


def _op(op_type: str, *inputs: TensorLike, **attrs: object) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs, name=None, **attrs)
    return result


def _rows(segments: Tensor, ids: Tensor) -> Tensor:
    """For each row what its segment has; 0 for rows with negative ids, which went nowhere."""
    return _op("GatherV2", segments, ids, 0)


def _ones(ids: Tensor, like: Tensor) -> Tensor:
    """A 1 of the dtype of `like` for each id, shaped to broadcast with the rows."""
    ones = _op("Cast", _op("OnesLike", ids), DstT=like.dtype)
    trailing = _op("OnesLike", _op("StridedSlice", _op("Shape", like), [1], [0], [1], begin_mask=0, end_mask=1))
    return _op("Reshape", ones, _op("ConcatV2", [_op("Shape", ids), trailing], 0))


@register_gradient("SegmentSum")
def _segment_sum(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every row has the derivative 1."""
    return [_rows(g, op.inputs[1]), None]


@register_gradient("SegmentMean")
def _segment_mean(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every row has the derivative 1 / (rows of its segment)."""
    data, ids = op.inputs
    counts = _op("SegmentSum", _ones(ids, data), ids)
    return [_rows(_op("DivNoNan", g, counts), ids), None]


@register_gradient("SegmentMax")
@register_gradient("SegmentMin")
def _segment_extreme(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The rows that are equal to the result share the gradient."""
    data, ids = op.inputs
    chosen = _op("Cast", _op("Equal", data, _rows(op.outputs[0], ids)), DstT=data.dtype)
    counts = _op("SegmentSum", chosen, ids)
    return [chosen * _rows(_op("DivNoNan", g, counts), ids), None]


def _present(ids: Tensor, like: Tensor) -> Tensor:
    """True for rows with ids >= 0, shaped to broadcast with the rows `like`."""
    trailing = _op("StridedSlice", _op("Shape", like), _op("ExpandDims", _op("Rank", ids), 0), [0], [1], end_mask=1)
    shape = _op("ConcatV2", [_op("Shape", ids), _op("OnesLike", trailing)], 0)
    return _op("Reshape", _op("GreaterEqual", ids, _op("ZerosLike", ids)), shape)


def _unsorted_rows(segments: Tensor, ids: Tensor) -> Tensor:
    """For each row what its segment has; 0 for rows with negative ids, which went nowhere."""
    indices = _op("Cast", _op("Maximum", ids, _op("ZerosLike", ids)), DstT=int32) if ids.dtype is int16 else ids
    rows = _rows(segments, _op("Maximum", indices, _op("ZerosLike", indices)))
    return _op("SelectV2", _present(ids, rows), rows, _op("ZerosLike", rows))


@register_gradient("UnsortedSegmentSum")
def _unsorted_sum(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every row has the derivative 1, those with negative ids 0."""
    return [_unsorted_rows(g, op.inputs[1]), None, None]


@register_gradient("UnsortedSegmentMax")
@register_gradient("UnsortedSegmentMin")
def _unsorted_extreme(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The rows that are equal to the result share the gradient."""
    data, ids, count = op.inputs
    chosen = _op("Cast", _op("Equal", data, _unsorted_rows(op.outputs[0], ids)), DstT=data.dtype)
    counts = _op("UnsortedSegmentSum", chosen, ids, count)
    return [chosen * _unsorted_rows(_op("DivNoNan", g, counts), ids), None, None]


@register_gradient("SegmentProd")
def _segment_prod(op: Operation, g: Tensor) -> list[Tensor | None]:
    """As UnsortedSegmentProd, with as many segments as there are."""
    data, ids = op.inputs
    return [_product_gradient(op, g, data, ids, _first_size(op.outputs[0])), None]


@register_gradient("UnsortedSegmentProd")
def _unsorted_prod(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The derivative by an element is the product of the others of its segment."""
    data, ids, count = op.inputs
    return [_product_gradient(op, g, data, ids, count), None, None]


def _product_gradient(op: Operation, g: Tensor, data: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    """The product divided by the element; where that is 0 the product of the others, 0 if there is a second 0."""
    data, product = conjugate(data), conjugate(op.outputs[0])
    one, zero = _op("OnesLike", data), _op("ZerosLike", data)
    is_zero = _op("Equal", data, zero)
    zeros = _op("UnsortedSegmentSum", _op("Cast", is_zero, DstT=data.dtype), ids, count)
    nonzero = _op("SelectV2", is_zero, one, data)
    others = _unsorted_rows(_op("UnsortedSegmentProd", nonzero, ids, count), ids)
    several = _op("Cast", _op("Greater", _unsorted_rows(_real(zeros), ids), 1.5), DstT=data.dtype)
    by_zero = others * (1 - several)
    partial = _op("SelectV2", is_zero, by_zero, _unsorted_rows(product, ids) / nonzero)
    return _unsorted_rows(g, ids) * partial


def _real(x: Tensor) -> Tensor:
    return _op("ComplexAbs", x, Tout=part_dtype(x.dtype)) if x.dtype.is_complex else x


def _first_size(x: Tensor) -> Tensor:
    return _op("StridedSlice", _op("Shape", x), [0], [1], [1], shrink_axis_mask=1)


@register_gradient("SparseSegmentSum")
def _sparse_segment_sum(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every use of a row has the derivative 1."""
    data, indices, ids = op.inputs
    return [_op("UnsortedSegmentSum", _rows(g, ids), indices, _first_size(data)), None, None]


@register_gradient("SparseSegmentMean")
def _sparse_segment_mean(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every use of a row has the derivative 1 / (rows of its segment)."""
    data, _, ids = op.inputs
    return _used_rows(op, g, _op("SegmentSum", _ones(ids, data), ids))


@register_gradient("SparseSegmentSqrtN")
def _sparse_segment_sqrt_n(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every use of a row has the derivative 1 / sqrt(rows of its segment)."""
    data, _, ids = op.inputs
    return _used_rows(op, g, _op("Sqrt", _op("SegmentSum", _ones(ids, data), ids)))


def _used_rows(op: Operation, g: Tensor, counts: Tensor) -> list[Tensor | None]:
    data, indices, ids = op.inputs
    return [_op("UnsortedSegmentSum", _rows(_op("DivNoNan", g, counts), ids), indices, _first_size(data)), None, None]
