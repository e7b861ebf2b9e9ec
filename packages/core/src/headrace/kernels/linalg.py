"""NumPy kernels of the linalg family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, bfloat16, float16

_NARROW = (float16, bfloat16)
_WITH_ADJOINT = ("MatrixInverse", "MatrixSolve")


def _for_blas(x: Array) -> Array:
    """Matrices in the order of memory, transposed or not; other views NumPy multiplies element by element."""
    if x.flags.c_contiguous or (x.ndim == 2 and x.flags.f_contiguous):
        return x
    return np.ascontiguousarray(x)


@register_kernel("MatMul", takes_out=True)
def _matmul(op: OpContext, a: Array, b: Array, out: Any = None) -> Any:
    left = _for_blas(a).T if op.attr("transpose_a") else _for_blas(a)
    right = _for_blas(b).T if op.attr("transpose_b") else _for_blas(b)
    return np.matmul(left, right, out=out)


@register_kernel("MatMul", dtypes={"T": _NARROW})
def _narrow_matmul(op: OpContext, a: Array, b: Array) -> Any:
    """In float32, rounded once at the end."""
    return _matmul(op, a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)


@register_kernel("BatchMatMul", takes_out=True, packs=[0, 1])
@register_kernel("BatchMatMulV2", takes_out=True, packs=[0, 1])
def _batch_matmul(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
    left = _adjoint(_for_blas(x)) if op.attr("adj_x") else _for_blas(x)
    right = _adjoint(_for_blas(y)) if op.attr("adj_y") else _for_blas(y)
    return np.matmul(left, right, out=out)


@register_kernel("BatchMatMul", dtypes={"T": _NARROW})
@register_kernel("BatchMatMulV2", dtypes={"T": _NARROW})
def _narrow_batch_matmul(op: OpContext, x: Array, y: Array) -> Any:
    return _batch_matmul(op, x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)


def _adjoint(x: Array) -> Array:
    swapped = np.swapaxes(x, -1, -2)
    return np.conjugate(swapped) if np.iscomplexobj(x) else swapped


def _register_lapack(op_type: str, function: Callable[..., Any], problem: str, expected: str, cure: str) -> None:
    """float16 is computed in float32; what LAPACK refuses becomes an error of ours."""

    def kernel(op: OpContext, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        wide = [np.asarray(x, np.float32 if dtype == float16.array_type else dtype, order="C") for x in inputs]
        if op.type in _WITH_ADJOINT and op.attr("adjoint"):
            wide[0] = _adjoint(wide[0])
        try:
            result = function(*wide)
        except np.linalg.LinAlgError as error:
            raise InvalidArgumentError(problem, expected=expected, got=str(error), hint=cure) from error
        return np.asarray(result).astype(dtype, copy=False)

    register_kernel(op_type)(kernel)


_SINGULAR = "a matrix is not invertible"
_register_lapack(
    "Cholesky",
    np.linalg.cholesky,
    "the Cholesky decomposition failed",
    "positive definite matrices",
    "add a small multiple of hr.eye to the matrix",
)
_register_lapack("MatrixInverse", np.linalg.inv, _SINGULAR, "a determinant that is not 0", "hr.linalg.pinv")
_register_lapack(
    "MatrixDeterminant",
    np.linalg.det,
    "there is no determinant",
    "square matrices",
    "hr.linalg.svdvals takes matrices of any shape",
)
_register_lapack("MatrixSolve", np.linalg.solve, _SINGULAR, "a determinant that is not 0", "hr.linalg.pinv(a) @ b")
