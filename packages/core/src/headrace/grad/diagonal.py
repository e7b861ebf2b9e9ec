"""Gradient rules of operations on diagonals."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


@register_gradient("MatrixBandPart")
def _band_part(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The same band of g."""
    return [apply_op("MatrixBandPart", g, op.inputs[1], op.inputs[2]), None, None]


@register_gradient("Diag")
def _diag(op: Operation, g: Tensor) -> list[Tensor]:
    """The diagonal of g."""
    return [apply_op("DiagPart", g)]


@register_gradient("DiagPart")
def _diag_part(op: Operation, g: Tensor) -> list[Tensor]:
    """g on the diagonal."""
    return [apply_op("Diag", g)]


@register_gradient("MatrixDiag")
def _matrix_diag(op: Operation, g: Tensor) -> list[Tensor]:
    """The diagonals of g."""
    return [apply_op("MatrixDiagPart", g)]


@register_gradient("MatrixDiagPart")
def _matrix_diag_part(op: Operation, g: Tensor) -> list[Tensor]:
    """g on the diagonals; the matrices need not be square."""
    return [apply_op("MatrixSetDiag", apply_op("ZerosLike", op.inputs[0]), g)]


@register_gradient("MatrixSetDiag")
def _matrix_set_diag(op: Operation, g: Tensor) -> list[Tensor]:
    """The new diagonal gets that of g, the matrix the rest."""
    nothing = apply_op("ZerosLike", op.inputs[1])
    return [apply_op("MatrixSetDiag", g, nothing), apply_op("MatrixDiagPart", g)]
