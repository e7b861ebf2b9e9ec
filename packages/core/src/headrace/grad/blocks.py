"""Gradient rules of operations that move blocks of pixels: each is undone by its inverse."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


@register_gradient("SpaceToDepth")
def _space_to_depth(op: Operation, g: Tensor) -> list[Tensor]:
    """The elements back where they were."""
    return [apply_op("DepthToSpace", g, block_size=op.attr("block_size"), data_format=op.attr("data_format"))]


@register_gradient("DepthToSpace")
def _depth_to_space(op: Operation, g: Tensor) -> list[Tensor]:
    """The elements back where they were."""
    return [apply_op("SpaceToDepth", g, block_size=op.attr("block_size"), data_format=op.attr("data_format"))]


@register_gradient("SpaceToBatchND")
def _space_to_batch(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The elements back where they were; the padding is cut off."""
    return [apply_op("BatchToSpaceND", g, op.inputs[1], op.inputs[2]), None, None]


@register_gradient("BatchToSpaceND")
def _batch_to_space(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The elements back where they were; what was cut off gets zeros."""
    return [apply_op("SpaceToBatchND", g, op.inputs[1], op.inputs[2]), None, None]
