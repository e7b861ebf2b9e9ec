"""Cases of operations that choose elements by a condition."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_X = np.array([[1.5, -2.0, 0.5], [4.0, 5.0, -6.5]], np.float32)
_Y = np.array([[0.25, 8.0, 1.0], [-1.0, 2.0, 3.0]], np.float32)
_WHICH = np.array([[True, False, True], [False, False, True]])
_STRINGS = np.array([b"", b"\x00\xff"], object)

CASES = [
    OpCase("SelectV2/matrix", "SelectV2", [_WHICH, _X, _Y], expected=np.where),
    OpCase("SelectV2/all broadcast", "SelectV2", [_WHICH[:, :1], _X[:1], np.float32(7)], expected=np.where),
    OpCase("SelectV2/scalars", "SelectV2", [np.bool_(False), np.float64(1), np.float64(2)], expected=np.float64(2)),
    OpCase(
        "SelectV2/strings",
        "SelectV2",
        [np.array([True, False]), _STRINGS, np.array(b"no", object)],
        expected=np.array([b"", b"no"], object),
    ),
    OpCase(
        "SelectV2/NaN not taken",
        "SelectV2",
        [_WHICH[0], _X[0], np.array([np.nan, 1, np.nan], np.float32)],
        expected=np.array([1.5, 1, 0.5], np.float32),
        differentiate=(1,),
    ),
    OpCase(
        "SelectV2/empty",
        "SelectV2",
        [np.zeros((0, 1), bool), np.zeros((1, 3)), np.float64(1)],
        expected=np.zeros((0, 3)),
        differentiate=(),
    ),
    OpCase(
        "SelectV2/bfloat16",
        "SelectV2",
        [_WHICH[0], np.ones(3, ml_dtypes.bfloat16), np.zeros(3, ml_dtypes.bfloat16)],
        expected=np.array([1, 0, 1], ml_dtypes.bfloat16),
    ),
    OpCase("SelectV2/do not broadcast", "SelectV2", [_WHICH, _X, _Y[:, :2]], raises=r"do not broadcast together"),
    OpCase("Select/matrix", "Select", [_WHICH, _X, _Y], expected=np.where),
    OpCase("Select/rows", "Select", [np.array([True, False]), _X, _Y], expected=np.stack([_X[0], _Y[1]])),
    OpCase("Select/scalar condition", "Select", [np.bool_(False), _X, _Y], expected=_Y),
    OpCase(
        "Select/empty", "Select", [np.zeros(0, bool), np.zeros((0, 2)), np.zeros((0, 2))], expected=np.zeros((0, 2))
    ),
    OpCase(
        "Select/condition does not fit",
        "Select",
        [np.array([True, False, True]), _X, _Y],
        raises=r"condition does not fit",
    ),
    OpCase("Select/tensors differ", "Select", [_WHICH, _X, _Y[:1]], raises=r"tensors to choose from differ"),
    OpCase("Where/matrix", "Where", [_WHICH], expected=np.array([[0, 0], [0, 2], [1, 2]])),
    OpCase("Where/numbers", "Where", [np.array([0.0, np.nan, -0.0, 2.0])], expected=np.array([[1], [3]])),
    OpCase("Where/complex", "Where", [np.array([0, 1j])], expected=np.array([[1]])),
    OpCase("Where/nothing true", "Where", [np.zeros((2, 3), np.int32)], expected=np.zeros((0, 2), np.int64)),
    OpCase("Where/true scalar", "Where", [np.bool_(True)], expected=np.zeros((1, 0), np.int64), oracle=False),
    OpCase("Where/false scalar", "Where", [np.bool_(False)], expected=np.zeros((0, 0), np.int64), oracle=False),
    OpCase("Where/empty", "Where", [np.zeros((0, 2), bool)], expected=np.zeros((0, 2), np.int64)),
    OpCase("Where/strings", "Where", [_STRINGS], raises=r"attr 'T'"),
]
