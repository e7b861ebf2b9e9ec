"""Cases of operations that find elements."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_STRINGS = np.array([b"b", b"a\x00", b"b", b""], object)
_PREDICTIONS = np.array([[0.1, 0.6, 0.3], [0.8, 0.1, 0.1], [0.2, np.nan, 0.4], [0.5, 0.5, 0.0]], np.float32)


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


CASES = [
    OpCase("Unique/integers", "Unique", [_i32(5, 3, 5, 1)], expected=(_i32(5, 3, 1), _i32(0, 1, 0, 2))),
    OpCase(
        "Unique/int64 indices",
        "Unique",
        [np.array([2.5, 2.5])],
        {"out_idx": "int64"},
        (np.array([2.5]), np.array([0, 0])),
    ),
    OpCase(
        "Unique/strings", "Unique", [_STRINGS], expected=(np.array([b"b", b"a\x00", b""], object), _i32(0, 1, 0, 2))
    ),
    OpCase(
        "Unique/each NaN is different",
        "Unique",
        [np.array([np.nan, 1, np.nan, 1], np.float32)],
        expected=(np.array([np.nan, 1, np.nan], np.float32), _i32(0, 1, 2, 1)),
    ),
    OpCase("Unique/signed zeros are equal", "Unique", [np.array([-0.0, 0.0])], expected=(np.array([-0.0]), _i32(0, 0))),
    OpCase(
        "Unique/bfloat16",
        "Unique",
        [np.array([2, 1, 2], ml_dtypes.bfloat16)],
        expected=(np.array([2, 1], ml_dtypes.bfloat16), _i32(0, 1, 0)),
    ),
    OpCase("Unique/empty", "Unique", [np.zeros(0, np.int64)], expected=(np.zeros(0, np.int64), _i32())),
    OpCase("Unique/matrix", "Unique", [_i32([1, 2])], raises=r"rank is wrong"),
    OpCase(
        "_FirstRows/repeated",
        "_FirstRows",
        [_i32(5, 3, 5, 0, 3, 5)],
        {"bound": 6, "out_idx": "int64"},
        (_i32(5, 3, -(2**31), 0, -(2**31), -(2**31)), np.array([0, 1, 0, 3, 1, 0])),
    ),
    OpCase("_FirstRows/out of range", "_FirstRows", [_i32(5, 6)], {"bound": 6}, raises="an index is out of range"),
    OpCase("_FirstRows/negative", "_FirstRows", [_i32(-1)], {"bound": 6}, raises="an index is out of range"),
    OpCase("_FirstRows/empty", "_FirstRows", [_i32()], {"bound": 6}, (_i32(), _i32())),
    OpCase(
        "UniqueWithCounts/integers",
        "UniqueWithCounts",
        [_i32(5, 3, 5, 1)],
        expected=(_i32(5, 3, 1), _i32(0, 1, 0, 2), _i32(2, 1, 1)),
    ),
    OpCase(
        "UniqueWithCounts/empty", "UniqueWithCounts", [np.zeros(0, bool)], expected=(np.zeros(0, bool), _i32(), _i32())
    ),
    OpCase("TopKV2/O21 the first of equal ones", "TopKV2", [_i32(1, 3, 3, 2, 3), 2], expected=(_i32(3, 3), _i32(1, 2))),
    OpCase("TopKV2/O21 none", "TopKV2", [_i32(1, 3, 3, 2, 3), 0], expected=(_i32(), _i32())),
    OpCase("TopKV2/O21 too many", "TopKV2", [_i32(1, 3, 3, 2, 3), 6], raises=r"k is out of range"),
    OpCase("TopKV2/negative", "TopKV2", [_i32(1, 3), -1], raises=r"k is out of range"),
    OpCase("TopKV2/scalar", "TopKV2", [np.int32(1), 1], raises=r"must have rows"),
    OpCase("TopKV2/k is a vector", "TopKV2", [_i32(1, 3), _i32(1, 1)], raises=r"k must be a scalar"),
    OpCase(
        "TopKV2/rows",
        "TopKV2",
        [np.array([[[1.0, 4, 2], [9, 7, 8]]]), 2],
        expected=(np.array([[[4.0, 2], [9, 8]]]), _i32([[1, 2], [0, 2]])),
    ),
    OpCase(
        "TopKV2/lowest integer", "TopKV2", [_i32(-(2**31), 5, -1), 3], expected=(_i32(5, -1, -(2**31)), _i32(1, 2, 0))
    ),
    OpCase(
        "TopKV2/unsigned, int64 indices",
        "TopKV2",
        [np.array([3, 255, 0], np.uint8), np.int64(1)],
        {"index_type": "int64"},
        (np.array([255], np.uint8), np.array([1])),
    ),
    OpCase(
        "TopKV2/bfloat16",
        "TopKV2",
        [np.array([1, -2, 3], ml_dtypes.bfloat16), 2],
        expected=(np.array([3, 1], ml_dtypes.bfloat16), _i32(2, 0)),
        differentiate=(0,),
    ),
    OpCase(
        "TopKV2/NaN counts as the largest",
        "TopKV2",
        [np.array([1, np.nan, np.inf], np.float32), 2],
        expected=(np.array([np.nan, np.inf], np.float32), _i32(1, 2)),
        differentiate=(),
        oracle=False,
    ),
    OpCase(
        "TopKV2/empty rows", "TopKV2", [np.zeros((2, 0)), 0], expected=(np.zeros((2, 0)), np.zeros((2, 0), np.int32))
    ),
    OpCase("InTopK/rows", "InTopK", [_PREDICTIONS, _i32(2, 1, 0, 0)], {"k": 2}, np.array([True, True, False, True])),
    OpCase(
        "InTopK/first only, ties count",
        "InTopK",
        [_PREDICTIONS, np.array([2, 0, 2, 1])],
        {"k": 1},
        np.array([False, True, False, True]),
    ),
    OpCase(
        "InTopK/no such class",
        "InTopK",
        [_PREDICTIONS, _i32(-1, 3, 0, 0)],
        {"k": 3},
        np.array([False, False, False, True]),
    ),
    OpCase("InTopK/nothing", "InTopK", [np.zeros((0, 3), np.float32), _i32()], {"k": 1}, np.zeros(0, bool)),
    OpCase(
        "InTopK/other number of targets", "InTopK", [_PREDICTIONS, _i32(1)], {"k": 1}, raises=r"one target for each row"
    ),
    OpCase("ListDiff/integers", "ListDiff", [_i32(1, 2, 3, 4, 2), _i32(4, 1)], expected=(_i32(2, 3, 2), _i32(1, 2, 4))),
    OpCase(
        "ListDiff/strings",
        "ListDiff",
        [_STRINGS, _STRINGS[1:2]],
        {"out_idx": "int64"},
        (np.array([b"b", b"b", b""], object), np.array([0, 2, 3])),
    ),
    OpCase(
        "ListDiff/nothing to remove",
        "ListDiff",
        [np.array([1.5, 2.5]), np.zeros(0)],
        expected=(np.array([1.5, 2.5]), _i32(0, 1)),
    ),
    OpCase("ListDiff/empty", "ListDiff", [_i32(), _i32(1)], expected=(_i32(), _i32())),
    OpCase("ListDiff/matrix", "ListDiff", [_i32([1]), _i32(1)], raises=r"rank is wrong"),
    OpCase("NthElement/rows", "NthElement", [np.array([[3.0, 1, 2], [5, 6, 4]]), 1], expected=np.array([2.0, 5.0])),
    OpCase(
        "NthElement/from the largest",
        "NthElement",
        [np.array([[3.0, 1, 2], [5, 6, 4]], np.float32), 0],
        {"reverse": True},
        np.array([3, 6], np.float32),
    ),
    OpCase("NthElement/lowest integer", "NthElement", [_i32(5, -(2**31), 7), 0], expected=np.int32(-(2**31))),
    OpCase("NthElement/no rows", "NthElement", [np.zeros((0, 2)), 0], expected=np.zeros(0)),
    OpCase("NthElement/too large", "NthElement", [np.ones((2, 3)), 3], raises=r"n is out of range"),
    OpCase("NthElement/negative", "NthElement", [np.ones((2, 3)), -1], raises=r"n is out of range"),
    OpCase("NthElement/scalar", "NthElement", [np.float32(3), 0], raises=r"must have rows"),
]
