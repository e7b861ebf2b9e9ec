"""Cases of operations on several diagonals; what must come out is found element by element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array


def _place(d: int, i: int, rows: int, columns: int, longest: int, align: str) -> int:
    """Where in its row of the band the element in row i of the matrix stands, on diagonal d = column - row."""
    length = min(rows + min(d, 0), columns - max(d, 0))
    above, below = align.split("_")
    shift = longest - length if (above if d >= 0 else below) == "RIGHT" else 0
    return i - max(-d, 0) + shift


def _three(label: str, x: Array, k: Any, align: str = "RIGHT_LEFT") -> Iterator[OpCase]:
    """All three operations on the matrices x; the band is that of x, and set into matrices of another sign."""
    low, high = (k, k) if isinstance(k, int) else k
    *batch, rows, columns = x.shape
    longest = max(min(rows + min(d, 0), columns - max(d, 0)) for d in range(low, high + 1))
    band = np.full((*batch, high - low + 1, longest), 9, x.dtype)
    replaced, alone = -x, np.full(x.shape, 9, x.dtype)
    for i, j in np.ndindex(rows, columns):
        if low <= j - i <= high:
            place = _place(j - i, i, rows, columns, longest, align)
            band[..., high - (j - i), place] = replaced[..., i, j] = alone[..., i, j] = x[..., i, j]
    given = band[..., 0, :] if low == high else band
    number, nine = np.array(k, np.int32), np.array(9, x.dtype)
    attrs = {"align": align}
    only = (0,) if x.dtype.kind == "f" else ()
    yield OpCase(
        f"MatrixDiagPartV3/{label}", "MatrixDiagPartV3", [x, number, nine], attrs, expected=given, differentiate=only
    )
    yield OpCase(f"MatrixSetDiagV3/{label}", "MatrixSetDiagV3", [-x, given, number], attrs, expected=replaced)
    sizes = np.array(rows, np.int32), np.array(columns, np.int32)
    if rows == longest - min(high, 0) or columns == longest + max(low, 0):
        yield OpCase(
            f"MatrixDiagV3/{label}", "MatrixDiagV3", [given, number, *sizes, nine], attrs, expected=alone,
            differentiate=only,
        )  # fmt: skip


def _numbers(*shape: int, dtype: Any = np.float64) -> Array:
    return np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)


_LEAST, _ZERO = np.array(-1, np.int32), np.array(0, np.int32)
_SQUARE = _numbers(3, 3)

CASES = [
    *_three("main", _numbers(2, 3, 3), 0),
    *_three("main of wide ones", _numbers(2, 4), 0),
    *_three("above", _numbers(3, 4), 1),
    *_three("below", _numbers(4, 2), -1),
    *_three("integers", _numbers(2, 3, dtype=np.int32), (-1, 0)),
    *(
        case
        for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")
        for size, sizes in (("square", (3, 3)), ("wide", (2, 3, 5)), ("high", (4, 3)))
        for case in _three(f"{size} {align}", _numbers(*sizes), (-1, 2), align)
    ),
    OpCase(
        "MatrixDiagV3/smallest",
        "MatrixDiagV3",
        [np.array([1.0, 2.0]), np.array(1, np.int32), _LEAST, _LEAST, np.array(0.0)],
        expected=np.array([[0.0, 1, 0], [0, 0, 2], [0, 0, 0]]),
        differentiate=(0,),
    ),
    OpCase(
        "MatrixDiagV3/does not fit",
        "MatrixDiagV3",
        [np.array([1.0, 2.0]), _ZERO, np.array(1, np.int32), _LEAST, np.array(0.0)],
        raises="do not fit the matrices|num_rows",
    ),
    OpCase(
        "MatrixDiagV3/rows of the band",
        "MatrixDiagV3",
        [_SQUARE, np.array([0, 1], np.int32), _LEAST, _LEAST, np.array(0.0)],
        raises="row for each diagonal",
    ),
    OpCase(
        "MatrixDiagPartV3/k out of range",
        "MatrixDiagPartV3",
        [_SQUARE, np.array(3, np.int32), np.array(0.0)],
        raises="k is out of range",
    ),
    OpCase(
        "MatrixDiagPartV3/k in the wrong order",
        "MatrixDiagPartV3",
        [_SQUARE, np.array([1, 0], np.int32), np.array(0.0)],
        raises="no band of diagonals",
    ),
    OpCase("MatrixDiagPartV3/vector", "MatrixDiagPartV3", [_SQUARE[0], _ZERO, np.array(0.0)], raises="rank is too low"),
    OpCase("MatrixSetDiagV3/does not fit", "MatrixSetDiagV3", [_SQUARE, np.ones(2), _ZERO], raises="do not fit"),
]
