"""Gradient rules of the ragged family: what moves values moves their numbers too, which says where each went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.grad.broadcast import sum_to_operand
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("RaggedRange", "the lengths of its rows jump where its inputs change")


def _op(op_type: str, *inputs: Any, **attrs: Any) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs, **attrs)
    return result


def _count(values: Tensor) -> Tensor:
    shape = _op("Shape", values, out_type="int64")
    return _op("StridedSlice", shape, [0], [1], [1], shrink_axis_mask=1)


def _numbers(values: Tensor) -> Tensor:
    """0, 1, 2, ... for the values."""
    zero, one = np.int64(0), np.int64(1)
    return _op("Range", zero, _count(values), one)


def _moved_back(g: Tensor, numbers: Tensor, values: Tensor) -> Tensor:
    """What arrives at each value: the sum of `g` over the places that its number went to."""
    return _op("UnsortedSegmentSum", g, numbers, _count(values))


@register_gradient("RaggedTensorToTensor")
def _to_tensor(op: Operation, g: Tensor) -> Sequence[Tensor | None]:
    """An element that came from a value belongs to it, one that was filled in to the default."""
    shape, values, default, *partitions = op.inputs
    depth = sum(form != "FIRST_DIM_SIZE" for form in op.attrs["row_partition_types"])
    if shape.shape.rank != 0:
        shape = _op("StridedSlice", shape, [0], [depth + 1], [1])
    attrs = {"row_partition_types": op.attrs["row_partition_types"]}
    numbers = _op("RaggedTensorToTensor", shape, _numbers(values), np.int64(-1), partitions, **attrs)
    filled = _op("SelectV2", _op("Less", numbers, np.int64(0)), np.int64(0), np.int64(-1))
    g_default = _op("Squeeze", _op("UnsortedSegmentSum", g, filled, 1), squeeze_dims=[0])
    return [
        None,
        _moved_back(g, numbers, values),
        sum_to_operand(g_default, default, g_default),
        *[None] * len(partitions),
    ]


@register_gradient("RaggedTensorToSparse")
def _to_sparse(op: Operation, _: Tensor, g: Tensor, __: Tensor) -> Sequence[Tensor | None]:
    """The values are the same, without their shape."""
    *splits, values = op.inputs
    return [*[None] * len(splits), _op("Reshape", g, _op("Shape", values))]


@register_gradient("RaggedGather")
def _gather(op: Operation, *gradients: Tensor) -> Sequence[Tensor | None]:
    """A value gets the sum of what arrives where it went."""
    *splits, values, indices = op.inputs
    depth = op.attrs["OUTPUT_RAGGED_RANK"]
    numbers = apply_op("RaggedGather", splits, _numbers(values), indices, OUTPUT_RAGGED_RANK=depth)[-1]
    return [*[None] * len(splits), _moved_back(gradients[-1], numbers, values), None]
