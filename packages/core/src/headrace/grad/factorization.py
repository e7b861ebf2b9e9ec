"""Gradient rules of factorisations.

Gradients of complex matrices follow TensorFlow's convention (see `grad/complex.py`); X* is the conjugate transpose.
"""

from __future__ import annotations

from headrace.errors import ShapeError, UnimplementedError
from headrace.grad.broadcast import conjugate, sum_to_operand
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.complex import complex as complex_of
from headrace.ops.complex import imag


def _product(x: Tensor, y: Tensor, adj_x: bool = False, adj_y: bool = False) -> Tensor:
    result: Tensor = apply_op("BatchMatMulV2", x, y, adj_x=adj_x, adj_y=adj_y)
    return result


def _adjoint(x: Tensor) -> Tensor:
    result: Tensor = apply_op("Einsum", [conjugate(x)], equation="...ij->...ji")
    return result


def _as_row(x: Tensor) -> Tensor:
    """One number for each column."""
    result: Tensor = apply_op("ExpandDims", x, -2)
    return result


def _as_column(x: Tensor) -> Tensor:
    """One number for each row."""
    result: Tensor = apply_op("ExpandDims", x, -1)
    return result


def _diagonal(x: Tensor) -> Tensor:
    result: Tensor = apply_op("MatrixDiag", x)
    return result


def _is_missing(g: Tensor, output: Tensor) -> bool:
    """True where nothing arrived: zeros through 0 / 0 would make NaN of equal singular values and eigenvalues."""
    return g.op.type == "ZerosLike" and g.op.inputs[0] is output


def _differences(x: Tensor) -> Tensor:
    """x[j] - x[i] in row i and column j, and 1 on the diagonal."""
    table = _as_row(x) - _as_column(x)
    result: Tensor = apply_op("MatrixSetDiag", table, apply_op("OnesLike", x))
    return result


@register_gradient("Qr")
def _qr(op: Operation, g_q: Tensor, g_r: Tensor) -> list[Tensor]:
    """Wide matrices [X Y] = Q [U V]: X as a square one, whose Q is also the factor of Y = Q V.

    Source: S. Walter and L. Lehmann, Algorithmic differentiation of linear algebra functions (2010); the wide case by
    the product rule.
    """
    q, r = op.outputs
    rows, columns = _static_sizes(op)
    if rows > columns and op.attr("full_matrices"):
        raise UnimplementedError(
            "the complete QR decomposition of tall matrices has no gradient",
            where=op.location,
            expected="full_matrices=False: the other columns of Q are arbitrary",
            got=str(op.inputs[0].spec),
            hint="hr.linalg.qr(x, mode='reduced')",
        )
    if rows >= columns:
        return [_square_qr(q, r, g_q, g_r)]
    g_v = g_r[..., rows:]
    by_x = _square_qr(q, r[..., :rows], g_q + _product(op.inputs[0][..., rows:], g_v, adj_y=True), g_r[..., :rows])
    return [apply_op("ConcatV2", [by_x, _product(q, g_v)], -1)]


def _square_qr(q: Tensor, r: Tensor, g_q: Tensor, g_r: Tensor) -> Tensor:
    """dA = (g_q + Q (L + L* + D)) R^-*, with L below and D on the diagonal of M = R g_r* - g_q* Q."""
    m = _product(r, g_r, adj_y=True) - _product(g_q, q, adj_x=True)
    diagonal: Tensor = apply_op("MatrixDiagPart", m)
    below = apply_op("MatrixBandPart", m, -1, 0) - _diagonal(diagonal)
    middle = below + _adjoint(below) + _diagonal((diagonal + conjugate(diagonal)) * 0.5)
    left = g_q + _product(q, middle)
    return _adjoint(apply_op("MatrixTriangularSolve", r, _adjoint(left), lower=False))


def _static_sizes(op: Operation) -> tuple[int, int]:
    shape = op.inputs[0].shape
    rows, columns = (None, None) if shape.dims is None else shape.dims[-2:]
    if rows is None or columns is None:
        raise ShapeError(
            f"the gradient of {op.type} needs to know the size of the matrices",
            where=op.location,
            expected="a static size of the last two axes",
            got=str(shape),
            hint="hr.ensure_shape states what is known",
        )
    return rows, columns


@register_gradient("Svd")
def _svd(op: Operation, g_s: Tensor, g_u: Tensor, g_v: Tensor) -> list[Tensor]:
    """dA = U ((W(g_u) S + S W(g_v)) + g_s) V*, W(g) = (X* g - g* X) / (s_j**2 - s_i**2), and what leaves their spans.

    Source: J. Townsend, Differentiating the singular value decomposition (2016); for complex matrices S. Wan and
    S. Zhang, Automatic differentiation for complex valued SVD (2019).
    """
    rows, columns = _static_sizes(op)
    least, full = min(rows, columns), op.attr("full_matrices") and rows != columns
    s, u, v = op.outputs if op.attr("compute_uv") and not full else apply_op("Svd", op.inputs[0])
    if not op.attr("compute_uv") or (_is_missing(g_u, op.outputs[1]) and _is_missing(g_v, op.outputs[2])):
        return [_product(u * _as_row(g_s), v, adj_y=True)]
    if full:
        raise UnimplementedError(
            "the singular vectors of matrices that are not square have a gradient only without full_matrices",
            where=op.location,
            expected="full_matrices=False: the other vectors are arbitrary",
            got=str(op.inputs[0].spec),
            hint="hr.linalg.svd(x, full_matrices=False)",
        )
    by_u, by_v = _product(u, g_u, adj_x=True), _product(v, g_v, adj_x=True)
    gaps = _differences(s * s)
    middle = (by_u - _adjoint(by_u)) / gaps * _as_row(s) + _as_column(s) * ((by_v - _adjoint(by_v)) / gaps)
    middle = apply_op("MatrixSetDiag", middle, g_s + _phases(by_u, s))
    gradient = _product(_product(u, middle), v, adj_y=True)
    if rows > least:
        outside = (g_u - _product(u, by_u)) / _as_row(s)
        gradient = gradient + _product(outside, v, adj_y=True)
    if columns > least:
        outside = (g_v - _product(v, by_v)) / _as_row(s)
        gradient = gradient + _product(u, outside, adj_y=True)
    return [gradient]


def _phases(by_u: Tensor, s: Tensor) -> Tensor:
    """Complex vectors may turn on the diagonal; real ones cannot."""
    if not s.dtype.is_complex:
        result: Tensor = apply_op("ZerosLike", s)
        return result
    turns = imag(apply_op("MatrixDiagPart", by_u))
    return complex_of(apply_op("ZerosLike", turns), turns) / s


@register_gradient("SelfAdjointEigV2")
def _self_adjoint_eig(op: Operation, g_e: Tensor, g_v: Tensor) -> list[Tensor]:
    """dA = V (g_e + V* g_v / (e_j - e_i)) V*, of which the self-adjoint part is taken."""
    values, vectors = op.outputs if op.attr("compute_v") else apply_op("SelfAdjointEigV2", op.inputs[0])
    middle = _diagonal(g_e)
    if op.attr("compute_v") and not _is_missing(g_v, op.outputs[1]):
        turned = _product(vectors, g_v, adj_x=True) / _differences(values)
        middle = apply_op("MatrixSetDiag", turned, g_e)
    gradient = _product(_product(vectors, middle), vectors, adj_y=True)
    return [(gradient + _adjoint(gradient)) * 0.5]


@register_gradient("LogMatrixDeterminant")
def _log_determinant(op: Operation, g_sign: Tensor, g_log: Tensor) -> list[Tensor]:
    """d log|det A| + i d arg(det A) = trace(A^-1 dA); the sign of a real determinant does not change."""
    inverse: Tensor = apply_op("MatrixInverse", op.inputs[0], adjoint=True)
    sign, factor = op.outputs[0], g_log
    if sign.dtype.is_complex:
        turn = -imag(conjugate(g_sign) * sign)
        factor = _as_real(factor) + complex_of(apply_op("ZerosLike", turn), turn)
    return [_as_column(_as_column(factor)) * inverse]


def _as_real(x: Tensor) -> Tensor:
    """The real part, as a complex number: the logarithm is real, so only this part of its gradient counts."""
    return (x + conjugate(x)) * 0.5


@register_gradient("MatrixTriangularSolve")
def _triangular_solve(op: Operation, g: Tensor) -> list[Tensor]:
    """X = A^-1 B: dB = A^-* g, dA = -dB X* in the triangle that is read."""
    matrix, rhs = op.inputs
    adjoint, lower = op.attr("adjoint"), op.attr("lower")
    by_rhs: Tensor = apply_op("MatrixTriangularSolve", matrix, g, lower=lower, adjoint=not adjoint)
    x = op.outputs[0]
    product = _product(x, by_rhs, adj_y=True) if adjoint else _product(by_rhs, x, adj_y=True)
    by_matrix: Tensor = apply_op("MatrixBandPart", -product, *((-1, 0) if lower else (0, -1)))
    return [sum_to_operand(by_matrix, matrix, by_matrix), sum_to_operand(by_rhs, rhs, by_rhs)]
