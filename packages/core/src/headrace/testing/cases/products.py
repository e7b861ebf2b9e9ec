"""Cases of the cross product."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_DTYPES = ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def _cross(a: Any, b: Any) -> Any:
    """Written out in wide numbers."""
    (x, y, z), (u, v, w) = (np.moveaxis(part.astype(np.float64), -1, 0) for part in (a, b))
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], -1).astype(
        np.int64 if a.dtype.kind in "iu" else None
    )


def _in(dtype: str) -> Any:
    return lambda a, b: _cross(a, b).astype(a.dtype)


CASES = [
    *(
        OpCase(f"Cross/{dtype}", "Cross", [numbers(dtype, 2, 3), numbers(dtype, 2, 3, seed=1)], expected=_in(dtype))
        for dtype in _DTYPES
    ),
    OpCase("Cross/vectors", "Cross", [np.array([1.0, 0, 0]), np.array([0, 1.0, 0])], expected=np.array([0, 0, 1.0])),
    OpCase("Cross/empty", "Cross", [np.zeros((0, 3)), np.zeros((0, 3))], expected=np.zeros((0, 3))),
    OpCase("Cross/two dimensions", "Cross", [np.zeros(2), np.zeros(2)], raises="that of three dimensions"),
    OpCase("Cross/scalars", "Cross", [np.float32(1), np.float32(1)], raises="that of three dimensions"),
    OpCase("Cross/no broadcast", "Cross", [np.zeros((2, 3)), np.zeros(3)], raises="must be as many"),
]
