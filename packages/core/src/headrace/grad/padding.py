"""Gradient rules of padding: what was put around is cut off again."""

from __future__ import annotations

from headrace.grad.array import sum_all
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


@register_gradient("Pad")
def _pad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The part of g that x filled."""
    return [_inner(op, g), None]


@register_gradient("PadV2")
def _pad_v2(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The part of g that x filled; the value collects the rest."""
    inner = _inner(op, g)
    return [inner, None, apply_op("Sub", sum_all(g), sum_all(inner))]


def _inner(op: Operation, g: Tensor) -> Tensor:
    x, paddings = op.inputs[:2]
    before = apply_op("StridedSlice", paddings, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
    inner: Tensor = apply_op("Slice", g, before, apply_op("Shape", x, out_type=paddings.dtype))
    return inner


@register_gradient("MirrorPad")
def _mirror_pad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The padding is added to the elements it mirrored."""
    return [apply_op("MirrorPadGrad", g, op.inputs[1], mode=op.attr("mode")), None]


@register_gradient("MirrorPadGrad")
def _mirror_pad_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The two operations are each other's transpose."""
    return [apply_op("MirrorPad", g, op.inputs[1], mode=op.attr("mode")), None]
