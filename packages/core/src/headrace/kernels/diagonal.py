"""NumPy kernels on the diagonals of matrices."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.diagonal import band_width, check_diagonal, diagonal_half, diagonal_shape
from headrace.types import Array, Shape, string


def _zero(op: OpContext) -> object:
    return b"" if op.attr("T") is string else 0


@register_kernel("MatrixBandPart", takes_out=True)
def _band_part(op: OpContext, x: Array, num_lower: Array, num_upper: Array, out: Array | None = None) -> Array:
    x = np.asarray(x)
    diagonal_shape(Shape(x.shape))
    lower = band_width(num_lower, x.shape[-2], "num_lower")
    upper = band_width(num_upper, x.shape[-1], "num_upper")
    distance = np.arange(x.shape[-1])[None, :] - np.arange(x.shape[-2])[:, None]  # how far right of the diagonal
    inside = np.ones(distance.shape, bool)
    if lower is not None:
        inside &= distance >= -lower
    if upper is not None:
        inside &= distance <= upper
    if out is None:
        out = np.empty(x.shape, x.dtype)
    out[...] = _zero(op)
    np.copyto(out, x, where=inside)
    return out


@register_kernel("Diag")
def _diag(op: OpContext, diagonal: Array) -> Array:
    diagonal = np.asarray(diagonal)
    size = diagonal.size
    result = np.zeros((size, size), diagonal.dtype)
    result[np.arange(size), np.arange(size)] = diagonal.reshape(-1)
    return result.reshape(diagonal.shape * 2)


@register_kernel("DiagPart")
def _diag_part(op: OpContext, x: Array) -> Array:
    x = np.asarray(x)
    half = diagonal_half(Shape(x.shape)).as_tuple()
    size = int(np.prod(half))
    return x.reshape(size, size)[np.arange(size), np.arange(size)].reshape(half)


@register_kernel("MatrixDiag")
def _matrix_diag(op: OpContext, diagonal: Array) -> Array:
    diagonal = np.asarray(diagonal)
    size = diagonal.shape[-1]
    result = np.full((*diagonal.shape, size), _zero(op), diagonal.dtype)
    result[..., np.arange(size), np.arange(size)] = diagonal
    return result


@register_kernel("MatrixDiagPart")
def _matrix_diag_part(op: OpContext, x: Array) -> Array:
    x = np.asarray(x)
    places = np.arange(diagonal_shape(Shape(x.shape)).as_tuple()[-1])
    return x[..., places, places]


@register_kernel("MatrixSetDiag")
def _matrix_set_diag(op: OpContext, x: Array, diagonal: Array) -> Array:
    result = np.array(x)
    check_diagonal(Shape(result.shape), Shape(np.shape(diagonal)))
    places = np.arange(min(result.shape[-2:]))
    result[..., places, places] = diagonal
    return result
