"""Gradient rules of operations that arrange elements: each is undone by one of its own kind."""

from __future__ import annotations

import numpy as np

from headrace.grad.broadcast import sum_to_operand
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

for _name in ("BroadcastGradientArgs", "BroadcastArgs"):
    no_gradient(_name, "shapes are integers")


@register_gradient("Reshape")
@register_gradient("ExpandDims")
def _reshape(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The elements back in the shape of x."""
    return [_back_to(op.inputs[0], g), None]


@register_gradient("Squeeze")
def _squeeze(op: Operation, g: Tensor) -> list[Tensor]:
    """The elements back in the shape of x."""
    return [_back_to(op.inputs[0], g)]


def _back_to(x: Tensor, g: Tensor) -> Tensor:
    back: Tensor = apply_op("Reshape", g, apply_op("Shape", x))
    return back


@register_gradient("Transpose")
@register_gradient("ConjugateTranspose")
def _transpose(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The inverse permutation."""
    perm = op.inputs[1]
    positive = apply_op("FloorMod", perm, apply_op("Size", perm, out_type=perm.dtype))
    return [apply_op(op.type, g, apply_op("InvertPermutation", positive)), None]


@register_gradient("BroadcastTo")
def _broadcast_to(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The sum over the axes along which x was repeated."""
    return [sum_to_operand(g, op.inputs[0], g), None]


@register_gradient("Tile")
def _tile(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The sum over the copies: g with each axis taken apart into copies and elements."""
    x, multiples = op.inputs
    shape = apply_op("Shape", x, out_type=multiples.dtype)
    apart = apply_op("Reshape", apply_op("Pack", [multiples, shape], axis=1), [-1])
    rank = x.shape.rank
    axes = (
        apply_op("Range", 0, apply_op("Size", apart), 2) if rank is None else np.arange(0, 2 * rank, 2, dtype=np.int32)
    )
    return [apply_op("Sum", apply_op("Reshape", g, apart), axes), None]
