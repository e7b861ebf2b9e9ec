"""Cases of the linalg family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NUMERIC = ("int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_FACTORED = ("float32", "float64", "complex64", "complex128")


def _wide(x: Any) -> Any:
    return x.astype({"c": np.complex128, "i": np.int64, "u": np.int64}.get(x.dtype.kind, np.float64))


def _product(first: bool, second: bool, *, conjugate: bool = False) -> Callable[..., Any]:
    """Sums of products in wide numbers, by broadcasting instead of a matrix product."""

    def turned(x: Any, turn: bool) -> Any:
        wide = np.swapaxes(_wide(x), -1, -2) if turn else _wide(x)
        return np.conj(wide) if turn and conjugate else wide

    def expected(a: Any, b: Any) -> Any:
        left, right = turned(a, first), turned(b, second)
        return (left[..., :, :, None] * right[..., None, :, :]).sum(-2).astype(a.dtype)

    return expected


_TURNS = [(first, second) for first in (False, True) for second in (False, True)]


def _shape(rows: int, columns: int, turn: bool) -> tuple[int, int]:
    return (columns, rows) if turn else (rows, columns)


_MATMUL = [
    *(
        OpCase(
            f"MatMul/{dtype} {first} {second}",
            "MatMul",
            [
                numbers(dtype, *_shape(3, 4, first), low=-3, high=3),
                numbers(dtype, *_shape(4, 2, second), low=-3, high=3, seed=1),
            ],
            attrs={"transpose_a": first, "transpose_b": second},
            expected=_product(first, second),
        )
        for dtype in _NUMERIC
        for first, second in (_TURNS if dtype in ("float32", "float64", "complex64") else _TURNS[:1])
    ),
    *(
        OpCase(
            f"MatMul/{what}",
            "MatMul",
            [np.zeros(a, np.float32), np.zeros(b, np.float32)],
            expected=np.zeros(c, np.float32),
        )
        for what, a, b, c in (
            ("O41 no inner size", (2, 0), (0, 3), (2, 3)),
            ("no rows", (0, 2), (2, 3), (0, 3)),
            ("no columns", (2, 2), (2, 0), (2, 0)),
            ("nothing", (0, 0), (0, 0), (0, 0)),
        )
    ),
    OpCase(
        "MatMul/odd sizes",
        "MatMul",
        [numbers("int32", 17, 33).astype(np.float32), numbers("int32", 33, 5, seed=1).astype(np.float32)],
        expected=_product(False, False),
        differentiate=(),
    ),
    OpCase(
        "MatMul/row times column",
        "MatMul",
        [numbers("float64", 1, 7), numbers("float64", 7, 1, seed=1)],
        expected=_product(False, False),
    ),
    OpCase(
        "MatMul/NaN and zero",
        "MatMul",
        [np.array([[np.nan, 1]], np.float32), np.array([[0], [1]], np.float32)],
        expected=np.array([[np.nan]], np.float32),
        differentiate=(),
    ),
    OpCase(
        "MatMul/T09 bfloat16 is added up in float32",
        "MatMul",
        [np.ones([1, 1000], ml_dtypes.bfloat16), np.ones([1000, 1], ml_dtypes.bfloat16)],
        expected=np.array([[1000]], ml_dtypes.bfloat16),
        differentiate=(),
    ),
    OpCase(
        "MatMul/integers wrap",
        "MatMul",
        [np.array([[2**30, 2**30]], np.int32), np.array([[2], [2]], np.int32)],
        expected=np.array([[0]], np.int32),
    ),
    OpCase(
        "MatMul/inner sizes differ",
        "MatMul",
        [np.ones([2, 3], np.float32), np.ones([2, 3], np.float32)],
        raises="cannot (multiply its inputs|be multiplied)",
    ),
    OpCase("MatMul/rank 1", "MatMul", [np.ones([3], np.float32), np.ones([3, 2], np.float32)], raises="rank"),
]

_BATCH = [
    *(
        OpCase(
            f"{op}/{dtype} {first} {second}",
            op,
            [
                numbers(dtype, 2, *_shape(3, 4, first), low=-3, high=3),
                numbers(dtype, 2, *_shape(4, 2, second), low=-3, high=3, seed=1),
            ],
            attrs={"adj_x": first, "adj_y": second},
            expected=_product(first, second, conjugate=True),
        )
        for op in ("BatchMatMul", "BatchMatMulV2")
        for dtype in ("int32", "float16", "bfloat16", "float32", "float64", "complex64")
        for first, second in (_TURNS if dtype in ("float64", "complex64") else _TURNS[3:])
    ),
    *(
        OpCase(
            f"BatchMatMulV2/{what}",
            "BatchMatMulV2",
            [numbers("float64", *a), numbers("float64", *b, seed=1)],
            expected=_product(False, False),
        )
        for what, a, b in (
            ("broadcast", (3, 1, 2, 2), (2, 2, 3)),
            ("one matrix", (2, 3), (3, 2)),
            ("one against many", (2, 3), (4, 3, 2)),
            ("O41 no inner size", (3, 2, 0), (3, 0, 3)),
            ("no batch", (0, 2, 3), (0, 3, 2)),
        )
    ),
    OpCase(
        "BatchMatMul/O41 no inner size",
        "BatchMatMul",
        [np.zeros([3, 2, 0], np.float32), np.zeros([3, 0, 3], np.float32)],
        expected=np.zeros([3, 2, 3], np.float32),
    ),
    *(
        OpCase(f"{op}/{what}", op, [np.ones(a, np.float32), np.ones(b, np.float32)], raises=text)
        for op in ("BatchMatMul", "BatchMatMulV2")
        for what, a, b, text in (
            ("inner sizes differ", (2, 2, 3), (2, 2, 3), "cannot (multiply its inputs|be multiplied)"),
            ("batches differ", (2, 2, 3), (3, 3, 2), "broadcast"),
            ("rank 1", (3,), (3, 2), "matrices"),
        )
    ),
    OpCase(
        "BatchMatMul/does not broadcast",
        "BatchMatMul",
        [np.ones([2, 2, 3], np.float32), np.ones([1, 3, 2], np.float32)],
        raises="does not broadcast",
    ),
]


def _lower(dtype: str, *batch: int) -> Any:
    """Lower triangular matrices with a diagonal well above 0."""
    values = np.tril(numbers(dtype, *batch, 3, 3, low=-1, high=1), -1)
    return values + np.diag([1.0, 2.0, 1.5]).astype(dtype)


def _positive(dtype: str, *batch: int) -> Any:
    lower = _lower(dtype, *batch)
    return lower @ np.conj(np.swapaxes(lower, -1, -2))


def _regular(dtype: str, *batch: int) -> Any:
    values = numbers(dtype, *batch, 3, 3, low=-1, high=1)
    return values + (3 * np.eye(3)).astype(dtype)


def _cofactors(x: Any) -> Any:
    """The determinant by Laplace's expansion along the first row."""
    if x.shape[-1] == 0:
        return np.ones(x.shape[:-2], x.dtype)
    minors = [np.delete(x[..., 1:, :], column, -1) for column in range(x.shape[-1])]
    return sum((-1) ** column * x[..., 0, column] * _cofactors(minor) for column, minor in enumerate(minors))


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _solution(adjoint: bool) -> Callable[..., Any]:
    """By Cramer's rule."""

    def expected(matrix: Any, rhs: Any) -> Any:
        a = _adjoint(_wide(matrix)) if adjoint else _wide(matrix)
        result = np.empty(rhs.shape, a.dtype)
        for row in range(a.shape[-1]):
            for column in range(rhs.shape[-1]):
                replaced = a.copy()
                replaced[..., :, row] = rhs[..., :, column]
                result[..., row, column] = _cofactors(replaced) / _cofactors(a)
        return result.astype(matrix.dtype)

    return expected


def _inverse(adjoint: bool) -> Callable[..., Any]:
    def expected(matrix: Any) -> Any:
        return _solution(adjoint)(matrix, np.broadcast_to(np.eye(matrix.shape[-1]), matrix.shape))

    return expected


_FACTORS = [
    *(
        # Only the lower triangle is read, whereas the gradient is made symmetric: it has a test of its own.
        OpCase(f"Cholesky/{dtype}", "Cholesky", [_positive(dtype, 2)], expected=_lower(dtype, 2), differentiate=())
        for dtype in _FACTORED
    ),
    OpCase(
        "Cholesky/reads the lower triangle",
        "Cholesky",
        [np.array([[4, 99], [2, 5]], np.float32)],
        expected=np.array([[2, 0], [1, 2]], np.float32),
        differentiate=(),
    ),
    OpCase(
        "Cholesky/float16",
        "Cholesky",
        [np.array([[4, 2], [2, 5]], np.float16)],
        expected=np.array([[2, 0], [1, 2]], np.float16),
        differentiate=(),
    ),
    OpCase("Cholesky/empty", "Cholesky", [np.zeros([2, 0, 0], np.float32)], expected=np.zeros([2, 0, 0], np.float32)),
    OpCase(
        "Cholesky/not positive definite",
        "Cholesky",
        [np.array([[1, 2], [2, 1]], np.float32)],
        raises="Cholesky decomposition failed",
        deviation="TensorFlow 2.21 gives NaN; 2.15 raised",
    ),
    *(
        OpCase(
            f"MatrixInverse/{dtype} adjoint {adjoint}",
            "MatrixInverse",
            [_regular(dtype, 2)],
            attrs={"adjoint": adjoint},
            expected=_inverse(adjoint),
        )
        for dtype in _FACTORED
        for adjoint in (False, True)
    ),
    OpCase(
        "MatrixInverse/float16",
        "MatrixInverse",
        [np.array([[2, 0], [0, 4]], np.float16)],
        expected=np.array([[0.5, 0], [0, 0.25]], np.float16),
        differentiate=(),
    ),
    OpCase(
        "MatrixInverse/empty",
        "MatrixInverse",
        [np.zeros([0, 2, 2], np.float32)],
        expected=np.zeros([0, 2, 2], np.float32),
    ),
    OpCase("MatrixInverse/singular", "MatrixInverse", [np.ones([2, 2], np.float32)], raises="not invertible"),
    *(
        OpCase(
            f"MatrixDeterminant/{dtype}",
            "MatrixDeterminant",
            [_regular(dtype, 2)],
            expected=lambda x: _cofactors(_wide(x)).astype(x.dtype),
        )
        for dtype in _FACTORED
    ),
    OpCase("MatrixDeterminant/one matrix", "MatrixDeterminant", [_regular("float64")], expected=_cofactors),
    OpCase(
        "MatrixDeterminant/float16",
        "MatrixDeterminant",
        [np.array([[2, 0], [0, 4]], np.float16)],
        expected=np.float16(8),
        differentiate=(),
    ),
    OpCase(
        "MatrixDeterminant/singular", "MatrixDeterminant", [np.ones([2, 2])], expected=np.array(0.0), differentiate=()
    ),
    OpCase(
        "MatrixDeterminant/empty",
        "MatrixDeterminant",
        [np.zeros([2, 0, 0], np.float32)],
        expected=np.ones([2], np.float32),
    ),
    *(
        OpCase(
            f"MatrixSolve/{dtype} adjoint {adjoint}",
            "MatrixSolve",
            [_regular(dtype, 2), numbers(dtype, 2, 3, 2, seed=1)],
            attrs={"adjoint": adjoint},
            expected=_solution(adjoint),
        )
        for dtype in _FACTORED
        for adjoint in (False, True)
    ),
    OpCase(
        "MatrixSolve/empty",
        "MatrixSolve",
        [np.zeros([2, 0, 0], np.float32), np.zeros([2, 0, 3], np.float32)],
        expected=np.zeros([2, 0, 3], np.float32),
    ),
    OpCase(
        "MatrixSolve/singular",
        "MatrixSolve",
        [np.ones([2, 2], np.float32), np.ones([2, 1], np.float32)],
        raises="not invertible",
    ),
    *(
        OpCase(
            f"MatrixSolve/{what}",
            "MatrixSolve",
            [np.ones(a, np.float32), np.ones(b, np.float32)],
            raises="right side does not fit",
        )
        for what, a, b in (
            ("rows differ", (2, 2), (3, 1)),
            ("vector", (2, 2), (2,)),
            ("batches differ", (2, 2, 2), (3, 2, 1)),
        )
    ),
    *(
        OpCase(f"{op}/not square", op, [np.ones([2, 3], np.float32), *rest], raises="square")
        for op, *rest in (
            ("Cholesky",),
            ("MatrixInverse",),
            ("MatrixDeterminant",),
            ("MatrixSolve", np.ones([2, 1], np.float32)),
        )
    ),
]

CASES = [*_MATMUL, *_BATCH, *_FACTORS]
