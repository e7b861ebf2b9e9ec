"""Cases of Part and Stitch."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

_ROWS = np.arange(8, dtype=np.float64).reshape(4, 2)
_STRINGS = np.array([b"a", b"b", b"c\x00"], object)


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


CASES = [
    OpCase(
        "DynamicPartition/rows",
        "DynamicPartition",
        [_ROWS, _i32(1, 0, 1, 1)],
        {"num_partitions": 3},
        (_ROWS[1:2], _ROWS[[0, 2, 3]], _ROWS[:0]),
    ),
    OpCase(
        "DynamicPartition/elements of a matrix",
        "DynamicPartition",
        [_ROWS[:2], _i32([0, 1], [1, 0])],
        {"num_partitions": 2},
        (np.array([0.0, 3.0]), np.array([1.0, 2.0])),
    ),
    OpCase(
        "DynamicPartition/scalar",
        "DynamicPartition",
        [_ROWS, np.int32(1)],
        {"num_partitions": 2},
        (np.zeros((0, 4, 2)), _ROWS[None]),
    ),
    OpCase(
        "DynamicPartition/nothing",
        "DynamicPartition",
        [np.zeros((0, 2)), _i32()],
        {"num_partitions": 1},
        (np.zeros((0, 2)),),
    ),
    OpCase(
        "DynamicPartition/strings", "DynamicPartition", [_STRINGS, _i32(0, 0, 0)], {"num_partitions": 1}, (_STRINGS,)
    ),
    OpCase(
        "DynamicPartition/too large",
        "DynamicPartition",
        [_STRINGS, _i32(0, 2, 0)],
        {"num_partitions": 2},
        raises=r"out of range",
    ),
    OpCase(
        "DynamicPartition/negative",
        "DynamicPartition",
        [_STRINGS, _i32(0, -1, 0)],
        {"num_partitions": 2},
        raises=r"out of range",
    ),
    OpCase(
        "DynamicPartition/other length",
        "DynamicPartition",
        [_ROWS, _i32(0, 0)],
        {"num_partitions": 2},
        raises=r"partitions do not fit",
    ),
    OpCase(
        "DynamicPartition/none",
        "DynamicPartition",
        [_ROWS, _i32(0, 0, 0, 0)],
        {"num_partitions": 0},
        raises=r"attr 'num_partitions'",
    ),
    OpCase(
        "DynamicStitch/rows",
        "DynamicStitch",
        [[_i32(2), _i32(0, 1)], [_ROWS[:1], _ROWS[2:]]],
        expected=_ROWS[[2, 3, 0]],
    ),
    OpCase(
        "DynamicStitch/last of repeated counts",
        "DynamicStitch",
        [[_i32(0, 1, 0), np.int32(1)], [np.array([1.0, 2, 3]), np.float64(4)]],
        expected=np.array([3.0, 4.0]),
        deviation="TensorFlow's gradient gives a replaced row the gradient of the row that replaced it",
    ),
    OpCase(
        "DynamicStitch/rows that no index names are zero",
        "DynamicStitch",
        [[_i32(3)], [np.ones(1)]],
        expected=np.array([0.0, 0, 0, 1]),
        oracle=False,  # TensorFlow leaves such rows as they were in memory
    ),
    OpCase(
        "DynamicStitch/nothing",
        "DynamicStitch",
        [[_i32(), _i32()], [np.zeros((0, 3)), np.zeros((0, 3))]],
        expected=np.zeros((0, 3)),
    ),
    OpCase("DynamicStitch/strings", "DynamicStitch", [[_i32(1, 2, 0)], [_STRINGS]], expected=_STRINGS[[2, 0, 1]]),
    OpCase(
        "DynamicStitch/matrix of indices",
        "DynamicStitch",
        [[_i32([3, 2], [1, 0])], [np.arange(8.0).reshape(2, 2, 2)]],
        expected=np.array([[6.0, 7], [4, 5], [2, 3], [0, 1]]),
    ),
    OpCase("DynamicStitch/O19 negative", "DynamicStitch", [[_i32(-1)], [np.ones(1)]], raises=r"an index is negative"),
    OpCase(
        "DynamicStitch/O19 data do not fit",
        "DynamicStitch",
        [[_i32(4, 3, 1, 7), _i32(1, 5, 1, 0)], [np.float32(9), np.float32(10)]],
        raises=r"data do not fit",
    ),
    OpCase(
        "DynamicStitch/rows differ",
        "DynamicStitch",
        [[_i32(0), _i32(1)], [np.ones((1, 2)), np.ones((1, 3))]],
        raises=r"rows to be stitched differ",
    ),
]
