"""Cases of searches in sorted sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

_ROWS = np.array([[1, 3, 3, 7], [-2, -2, 0, 5]], np.int32)
_VALUES = np.array([[3, 0, 9], [-2, 5, -1]], np.int32)


def _count(less: Any) -> Any:
    """How many elements of the row are less (or not greater), counted one by one."""

    def expected(rows: Any, values: Any) -> Any:
        return less(rows[:, None, :], values[:, :, None]).sum(-1)

    return expected


CASES = [
    case
    for op, less in (("LowerBound", np.less), ("UpperBound", np.less_equal))
    for case in (
        *(
            OpCase(f"{op}/{dtype}", op, [_ROWS.astype(dtype), _VALUES.astype(dtype)], expected=_count(less))
            for dtype in ("int8", "int16", "int32", "int64", "float16", "float32", "float64")
        ),
        OpCase(f"{op}/int64 places", op, [_ROWS, _VALUES], {"out_type": "int64"}, _count(less)),
        OpCase(
            f"{op}/unsigned",
            op,
            [np.array([[0, 3, 255]], np.uint8), np.array([[255, 1, 0]], np.uint8)],
            expected=_count(less),
        ),
        OpCase(
            f"{op}/infinities",
            op,
            [np.array([[-np.inf, 0.0, np.inf]]), np.array([[np.inf, -np.inf, 1.0]])],
            expected=_count(less),
        ),
        OpCase(f"{op}/empty rows", op, [_ROWS[:, :0], _VALUES], expected=np.zeros((2, 3), np.int32)),
        OpCase(f"{op}/no values", op, [_ROWS, _VALUES[:, :0]], expected=np.zeros((2, 0), np.int32)),
        OpCase(f"{op}/no rows", op, [_ROWS[:0], _VALUES[:0]], expected=np.zeros((0, 3), np.int32)),
        OpCase(f"{op}/vector", op, [_ROWS[0], _VALUES], raises="rank is wrong"),
        OpCase(f"{op}/rows", op, [_ROWS[:1], _VALUES], raises="one row of values for each sorted row"),
    )
]
