"""Several diagonals of matrices at once, as TensorFlow 2 writes even the main one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Array, Shape

__all__ = [
    "band_of",
    "band_shape",
    "check_band_rows",
    "check_diagonals",
    "checked_band",
    "diagonals",
    "matrix_sizes",
]

_ALIGN = attr.string("RIGHT_LEFT", allowed=["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])


def band_of(k: Array) -> tuple[int, int]:
    """The lowest and the highest diagonal that `k` speaks of; 0 is the main one, those above it count up.

    Raises:
      InvalidArgumentError: it is neither a number nor two in order.
    """
    numbers = [int(value) for value in np.asarray(k).reshape(-1)]
    if len(numbers) not in (1, 2) or np.ndim(k) > 1 or numbers[0] > numbers[-1]:
        raise InvalidArgumentError(
            "k is no band of diagonals",
            expected="a number, or the lowest and the highest one",
            got=str(np.asarray(k).tolist()),
            hint="k=[-1, 1] is the main diagonal with its two neighbours",
        )
    return numbers[0], numbers[-1]


def checked_band(k: Array, rows: int, columns: int) -> tuple[int, int]:
    """The band of matrices of known sizes.

    Raises:
      InvalidArgumentError: they do not have these diagonals.
    """
    low, high = band_of(k)
    for number in (low, high):
        if not (-rows < number < columns or number == 0):
            raise InvalidArgumentError(
                "k is out of range",
                expected=f"{-rows} < k < {columns}",
                got=str(number),
                hint="the diagonal below the main one is -1, that above it 1",
            )
    return low, high


def _longest(rows: int, columns: int, low: int, high: int) -> int:
    return min(rows + min(high, 0), columns + min(-low, 0))


def band_shape(rows: int, columns: int, low: int, high: int) -> tuple[int, ...]:
    """The shape of the diagonals of one matrix: a vector for one, otherwise a row for each, the highest first."""
    longest = _longest(rows, columns, low, high)
    return (longest,) if low == high else (high - low + 1, longest)


def diagonals(rows: int, columns: int, low: int, high: int, align: str) -> Iterator[tuple[int, slice, Array, Array]]:
    """For each diagonal, the highest first: its row in the band, its place in the row, and its rows and columns."""
    longest = _longest(rows, columns, low, high)
    above, below = align.split("_")
    for number in range(high, low - 1, -1):
        length = max(min(rows + min(number, 0), columns - max(number, 0)), 0)
        is_right = (above if number >= 0 else below) == "RIGHT"
        start = longest - length if is_right else 0
        steps = np.arange(length)
        yield high - number, slice(start, start + length), steps + max(-number, 0), steps + max(number, 0)


def matrix_sizes(longest: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    """The size of the matrices with a band; -1: the smallest that has it, square if neither is given.

    Raises:
      InvalidArgumentError: the band does not fit.
    """
    least = longest - min(high, 0), longest + max(low, 0)
    if rows == columns == -1:
        rows = columns = max(least)
    sizes = least[0] if rows == -1 else rows, least[1] if columns == -1 else columns
    if sizes[0] < least[0] or sizes[1] < least[1] or (sizes[0] != least[0] and sizes[1] != least[1]):
        raise InvalidArgumentError(
            "the diagonals do not fit the matrices",
            expected=f"{least[0]} rows and at least {least[1]} columns, or {least[1]} columns and more rows",
            got=f"{sizes[0]} rows, {sizes[1]} columns",
            hint="-1 for num_rows and num_cols takes the smallest matrices that have these diagonals",
        )
    return sizes


@register_op(
    "MatrixDiagPartV3",
    inputs={"input": "T", "k": "int32", "padding_value": "T"},
    outputs={"diagonal": "T"},
    attrs={"align": _ALIGN},
)
def _diag_part_shape(op: InferenceContext) -> list[Shape]:
    """The diagonals `k` of each matrix, the shorter ones filled with `padding_value` to the longest."""
    matrices, k = op.inputs[0].shape, op.constant(1)
    if matrices.rank is not None and matrices.rank < 2:
        raise _rank_too_low(matrices, 2)
    if matrices.dims is None or k is None:
        return [Shape()]
    (*batch, rows, columns), (low, high) = matrices.dims, band_of(k)
    if rows is None or columns is None:
        return [Shape([*batch, *([None] if low == high else [high - low + 1, None])])]
    return [Shape([*batch, *band_shape(rows, columns, *checked_band(k, rows, columns))])]


@register_op(
    "MatrixSetDiagV3",
    inputs={"input": "T", "diagonal": "T", "k": "int32"},
    outputs={"output": "T"},
    attrs={"align": _ALIGN},
)
def _set_diag_shape(op: InferenceContext) -> list[Shape]:
    """Each matrix with its diagonals `k` replaced."""
    matrices, k = op.inputs[0].shape, op.constant(2)
    if matrices.rank is not None and matrices.rank < 2:
        raise _rank_too_low(matrices, 2)
    if matrices.dims is not None and k is not None:
        *batch, rows, columns = matrices.dims
        if rows is not None and columns is not None:
            check_diagonals(
                Shape([*batch, *band_shape(rows, columns, *checked_band(k, rows, columns))]), op.inputs[1].shape
            )
    return [matrices]


def check_diagonals(wanted: Shape, given: Shape) -> None:
    """Raise ShapeError unless diagonals have the shape of those that are to be replaced."""
    if not wanted.is_compatible_with(given):
        raise ShapeError(
            "the diagonals do not fit the matrices",
            expected=str(wanted),
            got=str(given),
            hint="MatrixDiagPartV3 with the same k gives diagonals of the right shape",
        )


@register_op(
    "MatrixDiagV3",
    inputs={"diagonal": "T", "k": "int32", "num_rows": "int32", "num_cols": "int32", "padding_value": "T"},
    outputs={"output": "T"},
    attrs={"align": _ALIGN},
)
def _diag_shape(op: InferenceContext) -> list[Shape]:
    """Matrices with these diagonals `k` and `padding_value` elsewhere."""
    given, k, rows, columns = op.inputs[0].shape, op.constant(1), op.constant(2), op.constant(3)
    if given.rank == 0:
        raise _rank_too_low(given, 1)
    if given.dims is None or k is None:
        return [Shape()]
    low, high = band_of(k)
    batch = check_band_rows(given, low, high)
    longest = given.dims[-1]
    if longest is None or rows is None or columns is None:
        return [Shape([*batch, None, None])]
    return [Shape([*batch, *matrix_sizes(longest, low, high, int(rows), int(columns))])]


def check_band_rows(given: Shape, low: int, high: int) -> tuple[int | None, ...]:
    """The shape of the batch of some diagonals.

    Raises:
      ShapeError: there is not a row for each diagonal.
    """
    if low == high:
        return tuple(given)[:-1]
    count = high - low + 1
    if len(given) < 2 or given[-2] not in (None, count):
        raise ShapeError(
            "there is not a row for each diagonal",
            expected=f"[..., {count}, length of the longest]",
            got=str(given),
            hint="hr.stack the diagonals, the highest first, filled to one length",
        )
    return tuple(given)[:-2]


def _rank_too_low(shape: Shape, least: int) -> ShapeError:
    return ShapeError(
        "the rank is too low",
        expected=f"rank >= {least}",
        got=str(shape),
        hint="hr.expand_dims(x, 0) adds an axis",
    )
