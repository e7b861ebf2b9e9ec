"""Cases of operations that count."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_I32 = np.int32


def _i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


CASES = [
    OpCase("Range/up", "Range", [2, 11, 3], expected=_i32(2, 5, 8)),
    OpCase("Range/down", "Range", [5, 0, -2], expected=_i32(5, 3, 1)),
    OpCase("Range/empty", "Range", [4, 4, 1], expected=_i32()),
    OpCase(
        "Range/int8",
        "Range",
        [np.int8(-128), np.int8(127), np.int8(127)],
        expected=np.array([-128, -1, 126], np.int8),
        oracle=False,
    ),
    OpCase(
        "Range/uint64 above int64",
        "Range",
        [np.uint64(2**64 - 6), np.uint64(2**64 - 1), np.uint64(2)],
        expected=np.array([2**64 - 6, 2**64 - 4, 2**64 - 2], np.uint64),
        oracle=False,
    ),
    OpCase(
        "Range/float32",
        "Range",
        [np.float32(0), np.float32(1), np.float32(0.25)],
        expected=np.array([0, 0.25, 0.5, 0.75], np.float32),
        exact=True,
    ),
    OpCase(
        "Range/bfloat16",
        "Range",
        [ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(3), ml_dtypes.bfloat16(0.5)],
        expected=np.array([1, 1.5, 2, 2.5], ml_dtypes.bfloat16),
    ),
    OpCase(
        "Range/O23 int32 difference overflows",
        "Range",
        [1136033460, -2110457150, -1849827689],
        expected=_i32(1136033460, -713794229),
    ),
    OpCase(
        "Range/O23 int64", "Range", [np.int64(0), np.int64(137), np.int64(9223372036854775672)], expected=np.array([0])
    ),
    OpCase("Range/no step", "Range", [0, 1, 0], raises=r"delta != 0"),
    OpCase("Range/wrong way", "Range", [5, 0, 1], raises=r"leads away from its limit"),
    OpCase("Range/infinite", "Range", [np.float32(0), np.float32(np.inf), np.float32(1)], raises=r"finite number"),
    OpCase("Range/start is a vector", "Range", [_i32(1, 2), _I32(3), _I32(1)], raises=r"must be a scalar"),
    OpCase(
        "LinSpace/five",
        "LinSpace",
        [np.float64(1), np.float64(3), 5],
        expected=np.array([1, 1.5, 2, 2.5, 3]),
    ),
    OpCase("LinSpace/one", "LinSpace", [np.float32(4), np.float32(9), 1], expected=np.array([4], np.float32)),
    OpCase(
        "LinSpace/float32 down",
        "LinSpace",
        [np.float32(1), np.float32(-1), np.int64(4)],
        expected=np.array([1, 1 / 3, -1 / 3, -1], np.float32),
    ),
    OpCase("LinSpace/none", "LinSpace", [np.float32(4), np.float32(9), 0], raises=r"num >= 1"),
    OpCase(
        "LinSpace/num is a vector", "LinSpace", [np.float32(4), np.float32(9), _i32(1, 2)], raises=r"must be a scalar"
    ),
]
