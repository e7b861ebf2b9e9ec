"""NumPy kernels on several diagonals of matrices."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.band import (
    band_of,
    band_shape,
    check_band_rows,
    check_diagonals,
    checked_band,
    diagonals,
    matrix_sizes,
)
from headrace.types import Array, Shape

__all__: list[str] = []


def _rows(band: Array, low: int, high: int) -> Array:
    """The diagonals with an axis of rows, also where that is one."""
    return band[..., None, :] if low == high else band


@register_kernel("MatrixDiagPartV3")
def _diag_part(op: OpContext, matrices: Array, k: Array, padding: Array) -> Array:
    rows, columns = matrices.shape[-2:]
    low, high = checked_band(k, rows, columns)
    result = np.full((*matrices.shape[:-2], *band_shape(rows, columns, low, high)), padding, matrices.dtype)
    band = _rows(result, low, high)
    for row, place, i, j in diagonals(rows, columns, low, high, op.attr("align")):
        band[..., row, place] = matrices[..., i, j]
    return result


@register_kernel("MatrixSetDiagV3")
def _set_diag(op: OpContext, matrices: Array, given: Array, k: Array) -> Array:
    rows, columns = matrices.shape[-2:]
    low, high = checked_band(k, rows, columns)
    wanted = Shape((*matrices.shape[:-2], *band_shape(rows, columns, low, high)))
    check_diagonals(wanted, Shape(given.shape))
    result, band = matrices.copy(), _rows(given, low, high)
    for row, place, i, j in diagonals(rows, columns, low, high, op.attr("align")):
        result[..., i, j] = band[..., row, place]
    return result


@register_kernel("MatrixDiagV3")
def _diag(op: OpContext, given: Array, k: Array, num_rows: Array, num_cols: Array, padding: Array) -> Array:
    low, high = band_of(k)
    batch = Shape(check_band_rows(Shape(given.shape), low, high)).as_tuple()
    rows, columns = matrix_sizes(given.shape[-1], low, high, int(num_rows), int(num_cols))
    result = np.full((*batch, rows, columns), padding, given.dtype)
    band = _rows(given, low, high)
    for row, place, i, j in diagonals(rows, columns, low, high, op.attr("align")):
        result[..., i, j] = band[..., row, place]
    return result
