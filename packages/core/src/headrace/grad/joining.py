"""Gradient rules of operations that join and split."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("ConcatOffset", "offsets are integers")


@register_gradient("ConcatV2")
def _concat(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each input gets its part of g."""
    values, axis = op.inputs[:-1], op.inputs[-1]
    if not g.dtype.is_differentiable:
        return [None] * len(op.inputs)
    shapes = [apply_op("Shape", value) for value in values]  # not ShapeN: one known shape is a constant for itself
    place = axis if axis.dtype.size == 4 else apply_op("Cast", axis, DstT="int32")
    offsets = apply_op("ConcatOffset", place, shapes)
    parts = [apply_op("Slice", g, offset, shape) for offset, shape in zip(offsets, shapes, strict=True)]
    return [*parts, None]


@register_gradient("Split")
def _split(op: Operation, *gs: Tensor) -> list[Tensor | None]:
    """The parts joined again."""
    return [None, _joined(gs, op.inputs[0])]


@register_gradient("SplitV")
def _split_v(op: Operation, *gs: Tensor) -> list[Tensor | None]:
    """The parts joined again."""
    return [_joined(gs, op.inputs[2]), None, None]


def _joined(parts: tuple[Tensor, ...], axis: Tensor) -> Tensor:
    joined: Tensor = parts[0] if len(parts) == 1 else apply_op("ConcatV2", list(parts), axis)
    return joined


@register_gradient("Pack")
def _pack(op: Operation, g: Tensor) -> list[Tensor]:
    """Each input gets its slice of g."""
    return list(apply_op("Unpack", g, num=len(op.inputs), axis=op.attr("axis")))


@register_gradient("Unpack")
def _unpack(op: Operation, *gs: Tensor) -> list[Tensor]:
    """The slices stacked again."""
    return [apply_op("Pack", list(gs), axis=op.attr("axis"))]
