"""Gradient rules of slices."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@register_gradient("Slice")
def _slice(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Zeros around g, up to the shape of x."""
    x, begin, _ = op.inputs
    before = begin
    taken = apply_op("Shape", g, out_type=begin.dtype)
    whole = apply_op("Shape", x, out_type=begin.dtype)
    after = apply_op("Sub", apply_op("Sub", whole, taken), before)
    return [apply_op("Pad", g, apply_op("Pack", [before, after], axis=1)), None, None]


@register_gradient("StridedSlice")
def _strided_slice(op: Operation, g: Tensor) -> list[Tensor | None]:
    """g where the elements were taken, zeros elsewhere."""
    x, begin, end, strides = op.inputs
    if begin.dtype.size == 2:  # the gradient operation takes int32 and int64 only
        begin, end, strides = (apply_op("Cast", bound, DstT="int32") for bound in (begin, end, strides))
    shape = apply_op("Shape", x, out_type=begin.dtype)
    masks = {name: op.attr(name) for name in _MASKS}
    return [apply_op("StridedSliceGrad", shape, begin, end, strides, g, **masks), None, None, None]


@register_gradient("StridedSliceGrad")
def _strided_slice_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The slice of g: the two operations are each other's transpose."""
    _, begin, end, strides, _ = op.inputs
    masks = {name: op.attr(name) for name in _MASKS}
    return [None, None, None, None, apply_op("StridedSlice", g, begin, end, strides, **masks)]
