"""NumPy kernels of factorisations: LAPACK, for float16 in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array


def _wide(x: Array) -> Array:
    return np.asarray(x, np.float32 if x.dtype == np.float16 else x.dtype, order="C")


def _run(function: Callable[..., Any], what: str, *inputs: Any, **options: Any) -> Any:
    """What LAPACK refuses becomes an error of ours."""
    try:
        return function(*inputs, **options)
    except np.linalg.LinAlgError as error:
        raise InvalidArgumentError(
            f"{what} failed",
            expected="finite matrices",
            got=str(error),
            hint="hr.check_numerics on the input finds NaN and infinity",
        ) from error


@register_kernel("Qr")
def _qr(op: OpContext, x: Array) -> tuple[Array, Array]:
    q, r = _run(
        np.linalg.qr, "the QR decomposition", _wide(x), mode="complete" if op.attr("full_matrices") else "reduced"
    )
    return q.astype(x.dtype, copy=False), r.astype(x.dtype, copy=False)


@register_kernel("Svd")
def _svd(op: OpContext, x: Array) -> tuple[Array, Array, Array]:
    wide, what = _wide(x), "the singular value decomposition"
    if not op.attr("compute_uv"):
        s = _run(np.linalg.svd, what, wide, compute_uv=False)
        return s.astype(x.dtype), np.empty(0, x.dtype), np.empty(0, x.dtype)
    u, s, vh = _run(np.linalg.svd, what, wide, full_matrices=op.attr("full_matrices"))
    v = np.ascontiguousarray(np.conjugate(np.swapaxes(vh, -1, -2)))
    return s.astype(x.dtype), u.astype(x.dtype, copy=False), v.astype(x.dtype, copy=False)


@register_kernel("SelfAdjointEigV2")
def _self_adjoint_eig(op: OpContext, x: Array) -> tuple[Array, Array]:
    wide, what = _wide(x), "the eigenvalue decomposition"
    if not op.attr("compute_v"):
        return _run(np.linalg.eigvalsh, what, wide).astype(x.dtype), np.empty(0, x.dtype)
    values, vectors = _run(np.linalg.eigh, what, wide)
    return values.astype(x.dtype), vectors.astype(x.dtype, copy=False)


@register_kernel("LogMatrixDeterminant")
def _log_determinant(op: OpContext, x: Array) -> tuple[Array, Array]:
    sign, logarithm = np.linalg.slogdet(_wide(x))
    return np.asarray(sign).astype(x.dtype), np.asarray(logarithm).astype(x.dtype)


@register_kernel("MatrixTriangularSolve")
def _triangular_solve(op: OpContext, matrix: Array, rhs: Array) -> Array:
    """LAPACK's general solver: NumPy has none for triangles, and one in Python would be slower for most sizes."""
    wide, right = _wide(matrix), _wide(rhs)
    triangle = np.tril(wide) if op.attr("lower") else np.triu(wide)
    if op.attr("adjoint"):
        triangle = np.conjugate(np.swapaxes(triangle, -1, -2))
    if not np.diagonal(triangle, axis1=-2, axis2=-1).all():
        raise InvalidArgumentError(
            "a matrix is not invertible",
            expected="no zero on its diagonal",
            got="a zero",
            hint="check which triangle `lower` names; hr.linalg.pinv(a) @ b has an answer for any matrix",
        )
    result: Array = np.linalg.solve(triangle, right)
    return result.astype(matrix.dtype, copy=False)
