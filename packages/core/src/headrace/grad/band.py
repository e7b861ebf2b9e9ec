"""Gradient rules of operations on several diagonals; padding gets no gradient, as in TensorFlow."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []


def _part(op: Operation, g: Tensor, k: Tensor) -> Tensor:
    nothing = apply_op("Cast", 0, DstT=g.dtype)
    part: Tensor = apply_op("MatrixDiagPartV3", g, k, nothing, align=op.attrs["align"])
    return part


@register_gradient("MatrixDiagPartV3")
def _diag_part(op: Operation, g: Tensor) -> list[Tensor | None]:
    """g on the diagonals, zeros elsewhere."""
    x, k, _ = op.inputs
    return [apply_op("MatrixSetDiagV3", apply_op("ZerosLike", x), g, k, align=op.attrs["align"]), None, None]


@register_gradient("MatrixSetDiagV3")
def _set_diag(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The new diagonals get those of g, the matrix the rest."""
    _, given, k = op.inputs
    kept = apply_op("MatrixSetDiagV3", g, apply_op("ZerosLike", given), k, align=op.attrs["align"])
    return [kept, _part(op, g, k), None]


@register_gradient("MatrixDiagV3")
def _diag(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The diagonals of g."""
    return [_part(op, g, op.inputs[1]), None, None, None, None]
