"""Cases of factorisations.

Singular vectors and eigenvectors are known up to a sign only; tests/ops/test_factorization.py checks what holds for
every choice of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_UNASKED = "the outputs that are not asked for are scalars of garbage there, against its own shape function"
_FACTORED = ("float32", "float64", "complex64", "complex128")


def _each(function: Any, x: Any) -> tuple[Any, ...]:
    """Apply a function of one wide matrix to each of a batch; the results of each output stacked."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    results = [function(matrix) for matrix in wide.reshape(-1, *x.shape[-2:])]
    parts = zip(*results, strict=True)
    return tuple(np.array(part).reshape(*x.shape[:-2], *np.shape(part[0])).astype(x.dtype) for part in parts)


def _reflected(matrix: Any, full: bool) -> tuple[Any, Any]:
    """QR by Householder's reflections, each to the sign that does not cancel, as LAPACK and Eigen choose it."""
    r, q = matrix.copy(), np.eye(len(matrix), dtype=matrix.dtype)
    for k in range(min(matrix.shape)):
        column = r[k:, k]
        length = np.linalg.norm(column)
        if not np.linalg.norm(column[1:]) and not column[0].imag:
            continue
        pivot = -np.copysign(length, column[0].real)
        v = np.concatenate([[1.0], column[1:] / (column[0] - pivot)])
        factor = np.conj((pivot - column[0]) / pivot)
        r[k:] -= factor * np.outer(v, v.conj() @ r[k:])
        r[k + 1 :, k] = 0
        q[:, k:] -= np.conj(factor) * np.outer(q[:, k:] @ v, v.conj())
    inner = len(matrix) if full else min(matrix.shape)
    return q[:, :inner], r[:inner]


def _qr(full: bool) -> Any:
    return lambda x: _each(lambda matrix: _reflected(matrix, full), x)


def _singular_values(x: Any) -> Any:
    """The roots of the eigenvalues of A* A or A A*, whichever is smaller."""

    def of_one(matrix: Any) -> tuple[Any]:
        tall = matrix if len(matrix) >= matrix.shape[1] else matrix.conj().T
        return (np.sqrt(np.sort(np.linalg.eigvals(tall.conj().T @ tall).real)[::-1]),)

    return (*_each(of_one, x), np.zeros(0, x.dtype), np.zeros(0, x.dtype))


def _self_adjoint(dtype: str, *shape: int) -> Any:
    x = numbers(dtype, *shape)
    return x + np.conj(np.swapaxes(x, -1, -2))


def _eigenvalues(x: Any) -> Any:
    return (*_each(lambda matrix: (np.sort(np.linalg.eigvals(matrix).real),), x), np.zeros(0, x.dtype))


def _determinant(matrix: Any) -> Any:
    if not len(matrix):
        return 1.0
    rest = [np.delete(matrix[1:], column, 1) for column in range(len(matrix))]
    return sum((-1) ** column * matrix[0, column] * _determinant(minor) for column, minor in enumerate(rest))


def _log_determinant(x: Any) -> tuple[Any, ...]:
    def of_one(matrix: Any) -> tuple[Any, Any]:
        value = _determinant(matrix)
        return value / abs(value), np.log(abs(value))

    return _each(of_one, x)


def _substituted(lower: bool, adjoint: bool) -> Any:
    """Forward or backward substitution, one unknown after the other."""

    def of_one(matrix: Any, rhs: Any) -> Any:
        turned = matrix.conj().T if adjoint else matrix
        x = np.zeros_like(rhs)
        order = range(len(turned)) if lower != adjoint else reversed(range(len(turned)))
        for k in order:
            known = slice(0, k) if lower != adjoint else slice(k + 1, None)
            x[k] = (rhs[k] - turned[k, known] @ x[known]) / turned[k, k]
        return x

    def expected(matrix: Any, rhs: Any) -> Any:
        lead = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
        wide = np.complex128 if matrix.dtype.kind == "c" else np.float64
        pairs = [np.broadcast_to(x, lead + x.shape[-2:]).astype(wide).reshape(-1, *x.shape[-2:]) for x in (matrix, rhs)]
        solved = [of_one(a, b) for a, b in zip(*pairs, strict=True)]
        return np.array(solved).reshape(*lead, *rhs.shape[-2:]).astype(matrix.dtype)

    return expected


def _regular(dtype: str, *shape: int) -> Any:
    """Matrices far from singular, whichever triangle is read."""
    x = numbers(dtype, *shape)
    return x + 9 * np.eye(shape[-1], dtype=x.dtype)


_QR = [
    *(
        OpCase(
            f"Qr/{dtype} {rows}x{columns} {full}",
            "Qr",
            [numbers(dtype, 2, rows, columns, seed=3)],
            {"full_matrices": full},
            _qr(full),
            differentiate=() if full and rows > columns else None,  # the other columns of Q are arbitrary
        )
        for dtype in _FACTORED
        for rows, columns in ((3, 3), (4, 2), (2, 4))
        for full in (False, True)
    ),
    OpCase("Qr/float16", "Qr", [np.array([[3, 1], [4, 2]], np.float16)], expected=_qr(False), differentiate=()),
    OpCase(
        "Qr/no columns",
        "Qr",
        [np.zeros((2, 3, 0), np.float32)],
        expected=(np.zeros((2, 3, 0), np.float32), np.zeros((2, 0, 0), np.float32)),
        differentiate=(),
    ),
    OpCase("Qr/vector", "Qr", [np.zeros(3, np.float32)], raises="takes matrices|must hold matrices"),
]
_SVD = [
    *(
        OpCase(
            f"Svd/{dtype} {rows}x{columns}",
            "Svd",
            [numbers(dtype, 2, rows, columns, seed=5)],
            {"compute_uv": False},
            _singular_values,
            deviation=_UNASKED,
        )
        for dtype in _FACTORED
        for rows, columns in ((3, 3), (4, 2), (2, 4))
    ),
    OpCase(
        "Svd/float16",
        "Svd",
        [np.array([[0, 2], [3, 0]], np.float16)],
        {"compute_uv": False},
        _singular_values,
        differentiate=(),
    ),
    OpCase(
        "Svd/no rows",
        "Svd",
        [np.zeros((2, 0, 3), np.float32)],
        expected=(np.zeros((2, 0), np.float32), np.zeros((2, 0, 0), np.float32), np.zeros((2, 3, 0), np.float32)),
        differentiate=(),
    ),
    OpCase(
        "Svd/NaN",
        "Svd",
        [np.full((2, 2), np.nan)],
        raises="singular value decomposition failed",
        deviation="TensorFlow gives NaN",
    ),
    OpCase("Svd/vector", "Svd", [np.zeros(3, np.float32)], raises="takes matrices|must hold matrices"),
]
_EIG = [
    *(
        OpCase(
            f"SelfAdjointEigV2/{dtype}",
            "SelfAdjointEigV2",
            [_self_adjoint(dtype, 2, 3, 3)],
            {"compute_v": False},
            _eigenvalues,
            differentiate=(),  # one triangle is read and the gradient is that of both
            deviation=_UNASKED,
        )
        for dtype in _FACTORED
    ),
    OpCase(
        "SelfAdjointEigV2/reads the lower triangle",
        "SelfAdjointEigV2",
        [np.array([[2.0, 99.0], [0.0, 1.0]])],
        {"compute_v": False},
        (np.array([1.0, 2.0]), np.zeros(0)),
        differentiate=(),  # as above
        deviation=_UNASKED,
    ),
    OpCase(
        "SelfAdjointEigV2/numbers",
        "SelfAdjointEigV2",
        [np.array([[[3.0]], [[-2.0]]])],
        expected=(np.array([[3.0], [-2.0]]), np.ones((2, 1, 1))),
    ),
    OpCase(
        "SelfAdjointEigV2/empty",
        "SelfAdjointEigV2",
        [np.zeros((0, 2, 2), np.float32)],
        expected=(np.zeros((0, 2), np.float32), np.zeros((0, 2, 2), np.float32)),
        differentiate=(),
    ),
    OpCase(
        "SelfAdjointEigV2/not square",
        "SelfAdjointEigV2",
        [np.zeros((2, 3))],
        raises="square matrices",
    ),
]
_DETERMINANT = [
    *(
        OpCase(
            f"LogMatrixDeterminant/{dtype}",
            "LogMatrixDeterminant",
            [numbers(dtype, 2, 3, 3, seed=7)],
            expected=_log_determinant,
        )
        for dtype in _FACTORED
    ),
    OpCase(
        "LogMatrixDeterminant/singular",
        "LogMatrixDeterminant",
        [np.zeros((2, 2), np.float32)],
        expected=(np.float32(0), np.float32(-np.inf)),
        differentiate=(),
    ),
    OpCase(
        "LogMatrixDeterminant/overflow",
        "LogMatrixDeterminant",
        [np.diag(np.full(4, 1e200))],
        expected=(np.float64(1), np.float64(800 * np.log(10))),
        differentiate=(),
    ),
    OpCase(
        "LogMatrixDeterminant/no rows",
        "LogMatrixDeterminant",
        [np.zeros((3, 0, 0), np.float32)],
        expected=(np.ones(3, np.float32), np.zeros(3, np.float32)),
        differentiate=(),
    ),
    OpCase(
        "LogMatrixDeterminant/not square",
        "LogMatrixDeterminant",
        [np.zeros((2, 3))],
        raises="square matrices",
    ),
]
_TRIANGULAR = [
    *(
        OpCase(
            f"MatrixTriangularSolve/{dtype} lower {lower} adjoint {adjoint}",
            "MatrixTriangularSolve",
            [_regular(dtype, 2, 3, 3), numbers(dtype, 2, 3, 2, seed=1)],
            {"lower": lower, "adjoint": adjoint},
            _substituted(lower, adjoint),
        )
        for dtype in _FACTORED
        for lower in (False, True)
        for adjoint in (False, True)
    ),
    *(
        OpCase(
            f"MatrixTriangularSolve/broadcast {len(matrix)} {len(rhs)}",
            "MatrixTriangularSolve",
            [_regular("float64", *matrix, 2, 2), numbers("float64", *rhs, 2, 1, seed=2)],
            expected=_substituted(True, False),
        )
        for matrix, rhs in (((3,), ()), ((), (2,)), ((3, 1), (2,)))
    ),
    OpCase(
        "MatrixTriangularSolve/empty",
        "MatrixTriangularSolve",
        [np.zeros((0, 0), np.float32), np.zeros((0, 2), np.float32)],
        expected=np.zeros((0, 2), np.float32),
        differentiate=(),
    ),
    OpCase(
        "MatrixTriangularSolve/singular",
        "MatrixTriangularSolve",
        [np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones((2, 1))],
        raises="not invertible",
        deviation="TensorFlow divides by the zero, though MatrixSolve refuses the same matrix",
    ),
    OpCase(
        "MatrixTriangularSolve/shapes",
        "MatrixTriangularSolve",
        [np.eye(2), np.ones((3, 1))],
        raises="does not fit the matrix",
    ),
    OpCase(
        "MatrixTriangularSolve/not square",
        "MatrixTriangularSolve",
        [np.ones((2, 3)), np.ones((3, 1))],
        raises="square matrices",
    ),
]

CASES = [*_QR, *_SVD, *_EIG, *_DETERMINANT, *_TRIANGULAR]
