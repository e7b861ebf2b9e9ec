"""Factorisations of matrices into orthogonal, triangular and diagonal ones, and what follows from them."""

from __future__ import annotations

from typing import NamedTuple

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.axes import matrix_transpose
from headrace.ops.complex import conj, real
from headrace.ops.dtypes import finfo
from headrace.ops.promotion import promoted
from headrace.types import Shape, broadcast_shapes, complex64, complex128, float16, float32, float64, int64

__all__ = [
    "FACTORED",
    "QR",
    "SVD",
    "Eigh",
    "Slogdet",
    "eigh",
    "eigvalsh",
    "matrix_rank",
    "matrix_shape",
    "pinv",
    "qr",
    "slogdet",
    "solve_triangular",
    "svd",
    "svdvals",
]

FACTORED = attr.type(float16, float32, float64, complex64, complex128)
"""The dtypes of matrices that can be factored; float16 is computed in float32."""


def matrix_shape(op: InferenceContext, index: int, *, square: bool = False) -> tuple[Shape, int | None, int | None]:
    """The leading axes of an input that holds matrices, and its numbers of rows and of columns.

    Raises:
      ShapeError: the rank is less than 2, or the matrices must be square and are not.
    """
    shape = op.inputs[index].shape
    if shape.dims is None:
        return shape, None, None
    if len(shape) < 2 or (square and not Shape([shape[-2]]).is_compatible_with(Shape([shape[-1]]))):
        wanted = "square matrices" if square else "matrices"
        raise ShapeError(
            f"{op.type} takes {wanted}",
            expected="[..., n, n]" if square else "[..., m, n]",
            got=str(shape),
            hint="hr.expand_dims adds an axis" if len(shape) < 2 else "hr.linalg.pinv, qr and svd take other matrices",
        )
    return Shape(shape.dims[:-2]), shape.dims[-2], shape.dims[-1]


def _least(rows: int | None, columns: int | None) -> int | None:
    return None if rows is None or columns is None else min(rows, columns)


@register_op(
    "Qr",
    inputs={"input": "T"},
    outputs={"q": "T", "r": "T"},
    attrs={"full_matrices": attr.bool(False), "T": FACTORED},
)
def _qr_shape(op: InferenceContext) -> list[Shape]:
    """A = Q R with orthonormal columns in Q and R upper triangular; Q square only with `full_matrices`."""
    lead, rows, columns = matrix_shape(op, 0)
    inner = rows if op.attr("full_matrices") else _least(rows, columns)
    return [lead + Shape([rows, inner]), lead + Shape([inner, columns])]


@register_op(
    "Svd",
    inputs={"input": "T"},
    outputs={"s": "T", "u": "T", "v": "T"},
    attrs={"compute_uv": attr.bool(True), "full_matrices": attr.bool(False), "T": FACTORED},
)
def _svd_shape(op: InferenceContext) -> list[Shape]:
    """A = U S V* with orthonormal columns in U and V and diagonal S, largest first; U and V empty if not asked for."""
    lead, rows, columns = matrix_shape(op, 0)
    least = _least(rows, columns)
    if not op.attr("compute_uv"):
        return [lead + Shape([least]), Shape([0]), Shape([0])]
    full = op.attr("full_matrices")
    left, right = Shape([rows, rows if full else least]), Shape([columns, columns if full else least])
    return [lead + Shape([least]), lead + left, lead + right]


@register_op(
    "SelfAdjointEigV2",
    inputs={"input": "T"},
    outputs={"e": "T", "v": "T"},
    attrs={"compute_v": attr.bool(True), "T": FACTORED},
)
def _self_adjoint_eig_shape(op: InferenceContext) -> list[Shape]:
    """A V = V E for self-adjoint A, of which only the lower triangle is read; E diagonal, real, lowest first."""
    lead, size, _ = matrix_shape(op, 0, square=True)
    return [lead + Shape([size]), lead + Shape([size, size]) if op.attr("compute_v") else Shape([0])]


@register_op(
    "LogMatrixDeterminant",
    inputs={"input": "T"},
    outputs={"sign": "T", "log_abs_determinant": "T"},
    attrs={"T": FACTORED},
)
def _log_determinant_shape(op: InferenceContext) -> list[Shape]:
    """The sign (for complex matrices: the direction) of determinants, and the logarithms of their absolute values."""
    lead, _, _ = matrix_shape(op, 0, square=True)
    return [lead, lead]


@register_op(
    "MatrixTriangularSolve",
    inputs={"matrix": "T", "rhs": "T"},
    outputs={"output": "T"},
    attrs={"lower": attr.bool(True), "adjoint": attr.bool(False), "T": FACTORED},
)
def _triangular_solve_shape(op: InferenceContext) -> list[Shape]:
    """X with A X = B, or A* X = B, of triangular A, whose other triangle is not read; the leading axes broadcast."""
    lead, size, _ = matrix_shape(op, 0, square=True)
    other, rows, columns = matrix_shape(op, 1)
    if not Shape([size]).is_compatible_with(Shape([rows])):
        raise ShapeError(
            "the right side does not fit the matrix",
            expected=f"{size} rows",
            got=str(op.inputs[1].shape),
            hint="hr.matrix_transpose(b) if its columns are meant as rows, or hr.expand_dims(b, axis=-1)",
        )
    return [broadcast_shapes(lead, other) + Shape([rows if size is None else size, columns])]


class QR(NamedTuple):
    """What `qr` gives: `Q` with orthonormal columns and upper triangular `R`, whose product is the matrix."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """What `svd` gives: left singular vectors in columns of `U`, singular values `S`, right ones in rows of `Vh`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    """What `eigh` gives: `eigenvalues`, lowest first, and `eigenvectors` in the columns of a matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Slogdet(NamedTuple):
    """What `slogdet` gives: the determinant is `sign * exp(logabsdet)`."""

    sign: Tensor
    logabsdet: Tensor


def qr(x: TensorLike, *, mode: str = "reduced", name: str | None = None) -> QR:
    """Factor matrices into orthonormal columns and an upper triangle.

    Args:
      x: floating or complex `[..., m, n]`.
      mode: `"reduced"` for k = min(m, n) columns in Q, `"complete"` for k = m.
      name: the operation's name.
    Returns:
      `Q` `[..., m, k]` and `R` `[..., k, n]`. There is no gradient where m > n with `"complete"`.
    Raises:
      ShapeError: the rank is less than 2.
      InvalidArgumentError: `mode` is something else.

    Example:
      >>> import headrace as hr, numpy as np
      >>> with hr.Graph().as_default() as graph:
      ...     q, r = hr.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
      >>> print(np.abs(hr.Session(graph).run(r)).round(3))
      [[5.  2.2]
       [0.  0.4]]
    """
    if mode not in ("reduced", "complete"):
        raise InvalidArgumentError(
            "the mode is not known",
            expected="'reduced' or 'complete'",
            got=repr(mode),
            hint="'reduced' suits least squares, 'complete' makes q square",
        )
    return QR(*apply_op("Qr", x, full_matrices=mode == "complete", name=name))


def svd(x: TensorLike, *, full_matrices: bool = True, name: str | None = None) -> SVD:
    """Factor matrices into singular vectors and singular values.

    Args:
      x: floating or complex `[..., m, n]`.
      full_matrices: give square `U` and `Vh`; otherwise k = min(m, n) columns of `U` and rows of `Vh`.
      name: the operation's name.
    Returns:
      `U` `[..., m, m or k]`, `S` `[..., k]`, real and largest first, and `Vh` `[..., n or k, n]`. The gradient needs
      different singular values, and k vectors only where the matrices are not square.
    Raises:
      ShapeError: the rank is less than 2.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     s = hr.linalg.svd([[0.0, 2.0], [3.0, 0.0]]).S
      >>> print(hr.Session(graph).run(s))
      [3. 2.]
    """
    s, u, v = apply_op("Svd", x, full_matrices=full_matrices, name=name)
    return SVD(u, real(s), conj(matrix_transpose(v)))


def svdvals(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The singular values of matrices, largest first; see `svd`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     s = hr.linalg.svdvals([[0.0, 2.0], [3.0, 0.0]])
      >>> print(hr.Session(graph).run(s))
      [3. 2.]
    """
    return real(apply_op("Svd", x, compute_uv=False, name=name)[0])


def eigh(x: TensorLike, *, name: str | None = None) -> Eigh:
    """The eigenvalues and eigenvectors of self-adjoint matrices.

    Args:
      x: floating or complex `[..., n, n]`, of which only the lower triangle is read.
      name: the operation's name.
    Returns:
      `eigenvalues` `[..., n]`, real and lowest first, and `eigenvectors` `[..., n, n]`, one in each column. The
      gradient is self-adjoint, as if both triangles had been read; that of the vectors needs different values.
    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     values = hr.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
      >>> print(hr.Session(graph).run(values))
      [1. 2.]
    """
    values, vectors = apply_op("SelfAdjointEigV2", x, name=name)
    return Eigh(real(values), vectors)


def eigvalsh(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The eigenvalues of self-adjoint matrices, lowest first; see `eigh`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     values = hr.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]])
      >>> print(hr.Session(graph).run(values))
      [1. 2.]
    """
    return real(apply_op("SelfAdjointEigV2", x, compute_v=False, name=name)[0])


def slogdet(x: TensorLike, *, name: str | None = None) -> Slogdet:
    """The sign and the logarithm of the absolute value of determinants, where these overflow too.

    Args:
      x: floating or complex `[..., n, n]`.
      name: the operation's name.
    Returns:
      `sign` `[...]`, of complex matrices the determinant's direction, and `logabsdet` `[...]`, real; 0 and minus
      infinity of a singular matrix.
    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     sign, logarithm = hr.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
      >>> print(*hr.Session(graph).run([sign, logarithm]))
      -1.0 0.0
    """
    sign, logarithm = apply_op("LogMatrixDeterminant", x, name=name)
    return Slogdet(sign, real(logarithm))


def solve_triangular(
    a: TensorLike, b: TensorLike, *, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """x with a x = b for triangular a.

    Args:
      a: floating or complex `[..., n, n]`; one of its triangles is read.
      b: `[..., n, k]`; the leading axes broadcast with those of `a`.
      lower: whether the lower triangle of `a` is read, or the upper one.
      adjoint: solve with the conjugate transpose of the triangle.
      name: the operation's name.
    Returns:
      The promoted dtype, `[..., n, k]`.
    Raises:
      ShapeError: `a` is not square, or `b` does not fit it.
      InvalidArgumentError: the diagonal has a zero (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.linalg.solve_triangular([[2.0, 9.0], [1.0, 4.0]], [[2.0], [5.0]])
      >>> print(hr.Session(graph).run(x))
      [[1.]
       [1.]]
    """
    result: Tensor = apply_op("MatrixTriangularSolve", *promoted(a, b), lower=lower, adjoint=adjoint, name=name)
    return result


def matrix_rank(x: TensorLike, *, rtol: TensorLike | None = None, name: str | None = None) -> Tensor:
    """How many singular values of matrices are not negligible.

    Args:
      x: floating or complex `[..., m, n]`.
      rtol: a scalar, or `[...]`: singular values up to this part of the largest one count as zero; by default
        max(m, n) times the precision of the dtype.
      name: the operation's name.
    Returns:
      int64 `[...]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     rank = hr.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]])
      >>> print(hr.Session(graph).run(rank))
      1
    """
    tensor = convert_to_tensor(x)
    counted = _counts(tensor, svdvals(tensor), rtol)
    result: Tensor = apply_op("Sum", apply_op("Cast", counted, DstT=int64), [-1], name=name)
    return result


def pinv(x: TensorLike, *, rtol: TensorLike | None = None, name: str | None = None) -> Tensor:
    """The pseudo-inverse of matrices (Moore and Penrose): the inverse, where singular values are zero the zero.

    Args:
      x: floating or complex `[..., m, n]`.
      rtol: see `matrix_rank`.
      name: the operation's name.
    Returns:
      The same dtype, `[..., n, m]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.pinv([[2.0, 0.0], [0.0, 0.0]])
      >>> print(hr.Session(graph).run(y))
      [[0.5 0. ]
       [0.  0. ]]
    """
    tensor = convert_to_tensor(x)
    s, u, v = apply_op("Svd", tensor)
    counted = _counts(tensor, real(s), rtol)
    divisors = apply_op("SelectV2", counted, s, apply_op("OnesLike", s))
    inverses = apply_op("SelectV2", counted, apply_op("Reciprocal", divisors), apply_op("ZerosLike", s))
    scaled = apply_op("Mul", v, apply_op("ExpandDims", inverses, -2))
    result: Tensor = apply_op("BatchMatMulV2", scaled, u, adj_y=True, name=name)
    return result


def _counts(matrices: Tensor, values: Tensor, rtol: TensorLike | None) -> Tensor:
    """Which singular values are not negligible beside the largest of their matrix."""
    if rtol is None:
        size = apply_op("Max", apply_op("Shape", matrices)[-2:], [0])
        limit = apply_op("Mul", apply_op("Cast", size, DstT=values.dtype), finfo(values.dtype).eps)
    else:
        limit = promoted(values, rtol)[1]
    largest = apply_op("Max", values, [-1], keep_dims=True)
    part = limit if limit.shape.rank == 0 else apply_op("ExpandDims", limit, -1)
    result: Tensor = apply_op("Greater", values, apply_op("Mul", largest, part))
    return result
