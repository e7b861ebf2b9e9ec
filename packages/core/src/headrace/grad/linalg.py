"""Gradient rules of the linalg family."""

from __future__ import annotations

from headrace.grad.broadcast import conjugate, sum_to_operand
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


def _product(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    result: Tensor = apply_op("MatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return result


@register_gradient("MatMul")
def _matmul(op: Operation, g: Tensor) -> list[Tensor]:
    """d(A B) = dA B + A dB: dA gets g B', dB gets A' g, each transposed as the operand was."""
    a, b = conjugate(op.inputs[0]), conjugate(op.inputs[1])
    match op.attr("transpose_a"), op.attr("transpose_b"):
        case False, False:
            return [_product(g, b, transpose_b=True), _product(a, g, transpose_a=True)]
        case False, True:
            return [_product(g, b), _product(g, a, transpose_a=True)]
        case True, False:
            return [_product(b, g, transpose_b=True), _product(a, g)]
        case _:
            return [_product(b, g, True, True), _product(g, a, True, True)]


def _batch_product(x: Tensor, y: Tensor, adj_x: bool = False, adj_y: bool = False) -> Tensor:
    result: Tensor = apply_op("BatchMatMulV2", x, y, adj_x=adj_x, adj_y=adj_y)
    return result


@register_gradient("BatchMatMul")
@register_gradient("BatchMatMulV2")
def _batch_matmul(op: Operation, g: Tensor) -> list[Tensor]:
    """As MatMul with adjoints; leading axes along which an operand was repeated are summed over."""
    x, y = op.inputs
    match op.attr("adj_x"), op.attr("adj_y"):
        case False, False:
            dx, dy = _batch_product(g, y, adj_y=True), _batch_product(x, g, adj_x=True)
        case False, True:
            dx, dy = _batch_product(g, y), _batch_product(g, x, adj_x=True)
        case True, False:
            dx, dy = _batch_product(y, g, adj_y=True), _batch_product(x, g)
        case _:
            dx, dy = _batch_product(y, g, True, True), _batch_product(g, x, True, True)
    return [sum_to_operand(dx, x, dx), sum_to_operand(dy, y, dy)]


@register_gradient("Cholesky")
def _cholesky(op: Operation, g: Tensor) -> list[Tensor]:
    """dA = (S + S*) / 2 with S = L^-* phi(L* g) L^-1, where phi takes the lower triangle and half of the diagonal.

    Source: I. Murray, Differentiation of the Cholesky decomposition (2016), equation 10.
    """
    lower = op.outputs[0]
    middle = _batch_product(lower, g, adj_x=True)
    half = apply_op("MatrixBandPart", middle, -1, 0) - apply_op("MatrixBandPart", middle, 0, 0) * 0.5
    inverse: Tensor = apply_op("MatrixInverse", lower)
    one_side = _batch_product(_batch_product(inverse, half, adj_x=True), inverse)
    return [(one_side + _adjoint(one_side)) * 0.5]


def _adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose."""
    result: Tensor = apply_op("Einsum", [conjugate(x)], equation="...ij->...ji")
    return result


@register_gradient("MatrixInverse")
def _inverse(op: Operation, g: Tensor) -> list[Tensor]:
    """d(A^-1) = -A^-1 dA A^-1."""
    inverse = op.outputs[0]
    if op.attr("adjoint"):
        return [-_batch_product(inverse, _batch_product(g, inverse, adj_x=True))]
    return [-_batch_product(inverse, _batch_product(g, inverse, adj_y=True), adj_x=True)]


@register_gradient("MatrixDeterminant")
def _determinant(op: Operation, g: Tensor) -> list[Tensor]:
    """d det(A) = det(A) trace(A^-1 dA); a singular matrix is an error."""
    inverse: Tensor = apply_op("MatrixInverse", op.inputs[0], adjoint=True)
    factor = g * conjugate(op.outputs[0])
    return [apply_op("ExpandDims", apply_op("ExpandDims", factor, -1), -1) * inverse]


@register_gradient("MatrixSolve")
def _solve(op: Operation, g: Tensor) -> list[Tensor]:
    """X = A^-1 B: dB = A^-* g, dA = -dB X*."""
    adjoint = op.attr("adjoint")
    rhs: Tensor = apply_op("MatrixSolve", op.inputs[0], g, adjoint=not adjoint)
    x = op.outputs[0]
    matrix = _batch_product(x, rhs, adj_y=True) if adjoint else _batch_product(rhs, x, adj_y=True)
    return [-matrix, rhs]
