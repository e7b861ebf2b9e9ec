"""Gradients of operands that broadcast: what was repeated is added up again."""

from __future__ import annotations

from headrace.graph.apply import apply_op
from headrace.graph.operation import Tensor
from headrace.types import Shape

__all__ = ["broadcast_gradients", "conjugate", "sum_to_operand"]


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; x itself if it is real. Gradients multiply by conjugated derivatives."""
    if not x.dtype.is_complex:
        return x
    result: Tensor = apply_op("Conj", x)
    return result


def broadcast_gradients(x: Tensor, y: Tensor, dx: Tensor, dy: Tensor) -> list[Tensor]:
    """Bring the gradients of two operands from their broadcast shape back to the operands' own shapes."""
    return [sum_to_operand(dx, x, y), sum_to_operand(dy, y, x)]


def sum_to_operand(gradient: Tensor, operand: Tensor, other: Tensor) -> Tensor:
    """Sum a gradient over the axes along which `operand` was repeated to broadcast with `other`.

    `other` may be of the broadcast shape itself, as the gradient is.
    Where the static shapes say which axes those are, nothing is computed for it in the step; where they do not, the
    step finds out by `BroadcastGradientArgs`.
    """
    axes = _repeated_axes(operand.shape, other.shape)
    if axes is None:
        shapes = [apply_op("Shape", tensor) for tensor in (operand, other)]
        repeated, _ = apply_op("BroadcastGradientArgs", *shapes)
        total = apply_op("Sum", gradient, repeated)
        return apply_op("Reshape", total, shapes[0])  # type: ignore[no-any-return]
    if not axes:
        return gradient
    missing = len(other.shape) - len(operand.shape)
    if axes == list(range(missing)):
        return apply_op("Sum", gradient, axes)  # type: ignore[no-any-return]
    summed: Tensor = apply_op("Sum", gradient, axes, keep_dims=True)
    if missing <= 0:
        return summed
    return apply_op("Squeeze", summed, squeeze_dims=list(range(missing)))  # type: ignore[no-any-return]


def _repeated_axes(operand: Shape, other: Shape) -> list[int] | None:
    """The axes of the broadcast shape to sum over, so that `operand`'s own sizes remain; None if they are not known."""
    if operand.dims is None or other.dims is None:
        return None
    rank = max(len(operand), len(other))
    axes: list[int] = []
    for axis, (size, opposite) in enumerate(zip(_padded(operand, rank), _padded(other, rank), strict=True)):
        if axis < rank - len(operand) or (size == 1 and opposite != 1):
            axes.append(axis)
        elif size is None and opposite != 1:
            return None
    return axes


def _padded(shape: Shape, rank: int) -> list[int | None]:
    return [1] * (rank - len(shape)) + list(shape)
