"""NumPy kernels of the linalg family."""

from __future__ import annotations

import numpy as np

from headrace.errors import ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, bfloat16, float16


def _for_blas(x: Array) -> Array:
    """A matrix in the order of memory, transposed or not; NumPy multiplies other views element by element."""
    if x.flags.c_contiguous or (x.ndim == 2 and x.flags.f_contiguous):
        return x
    return np.ascontiguousarray(x)


def _check_inner(left: Array, right: Array) -> None:
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(
            "the matrices cannot be multiplied",
            expected="as many columns on the left as rows on the right",
            got=f"{list(left.shape)} and {list(right.shape)}",
        )


@register_kernel("MatMul", takes_out=True)
def _matmul(op: OpContext, a: Array, b: Array, out: Array | None = None) -> Array:
    left = _for_blas(a).T if op.attr("transpose_a") else _for_blas(a)
    right = _for_blas(b).T if op.attr("transpose_b") else _for_blas(b)
    _check_inner(left, right)
    return np.matmul(left, right, out=out)


@register_kernel("MatMul", dtypes={"T": [float16, bfloat16]})
def _narrow_matmul(op: OpContext, a: Array, b: Array) -> Array:
    """In float32, rounded once at the end."""
    return _matmul(op, a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
