"""Cases of slices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_VECTOR = np.arange(6, dtype=np.float64) + 0.5
_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
_CUBE = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
_STRINGS = np.array([b"", b"\x00\xff", b"a\x00"], object)


def _i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _strided(what: str, x: Any, begin: Any, end: Any, strides: Any, expected: Any, **masks: int) -> OpCase:
    return OpCase(
        f"StridedSlice/{what}", "StridedSlice", [x, _i32(*begin), _i32(*end), _i32(*strides)], masks, expected
    )


def _strided_wrong(what: str, x: Any, begin: Any, end: Any, strides: Any, raises: str, **masks: int) -> OpCase:
    bounds = [_i32(*begin), _i32(*end), _i32(*strides)]
    return OpCase(f"StridedSlice/{what}", "StridedSlice", [x, *bounds], masks, raises=raises)


CASES = [
    OpCase("Slice/matrix", "Slice", [_MATRIX, _i32(0, 1), _i32(2, 2)], expected=_MATRIX[:, 1:]),
    OpCase("Slice/the rest", "Slice", [_CUBE, np.array([1, 0, 2]), np.array([-1, 2, -1])], expected=_CUBE[1:, :2, 2:]),
    OpCase("Slice/nothing at the end", "Slice", [_VECTOR, _i32(6), _i32(0)], expected=_VECTOR[6:]),
    OpCase("Slice/scalar", "Slice", [np.float32(2), _i32(), _i32()], expected=np.float32(2)),
    OpCase("Slice/strings", "Slice", [_STRINGS, _i32(1), _i32(1)], expected=_STRINGS[1:2]),
    OpCase("Slice/leaves the tensor", "Slice", [_VECTOR, _i32(2), _i32(9)], raises=r"leaves the tensor"),
    OpCase("Slice/starts behind the end", "Slice", [_VECTOR, _i32(7), _i32(-1)], raises=r"leaves the tensor"),
    OpCase("Slice/negative begin", "Slice", [_VECTOR, _i32(-1), _i32(1)], raises=r"start within the tensor"),
    OpCase("Slice/negative size", "Slice", [_VECTOR, _i32(0), _i32(-2)], raises=r"size >= -1"),
    OpCase("Slice/too few numbers", "Slice", [_MATRIX, _i32(0), _i32(1)], raises=r"one number for each axis"),
    _strided("plain", _MATRIX, [0, 1], [2, 3], [1, 1], _MATRIX[:, 1:]),
    _strided("backwards", _VECTOR, [4], [0], [-2], _VECTOR[4:0:-2]),
    _strided("all backwards", _CUBE, [0, 0], [0, 0], [-1, -1], _CUBE[::-1, ::-1], begin_mask=3, end_mask=3),
    _strided("begin mask", _VECTOR, [3], [2], [1], _VECTOR[:2], begin_mask=1),
    _strided("end mask", _VECTOR, [-2], [0], [1], _VECTOR[-2:], end_mask=1),
    _strided("clamped", _VECTOR, [-90], [90], [4], _VECTOR[::4]),
    _strided("clamped backwards", _VECTOR, [90], [-90], [-4], _VECTOR[::-4]),
    _strided("empty", _VECTOR, [4], [2], [1], _VECTOR[4:2]),
    _strided("ellipsis first", _CUBE, [0, 1], [0, 3], [1, 2], _CUBE[..., 1:3:2], ellipsis_mask=1),
    _strided("ellipsis between", _CUBE, [1, 0, 0], [2, 0, 2], [1, 1, 1], _CUBE[1:2, ..., :2], ellipsis_mask=2),
    _strided("ellipsis of no axis", _MATRIX, [0, 0, 1], [1, 0, 2], [1, 1, 1], _MATRIX[:1, ..., 1:2], ellipsis_mask=2),
    _strided("new axes", _MATRIX, [0, 0, 1], [0, 1, 3], [1, 1, 1], _MATRIX[None, :1, 1:3], new_axis_mask=1),
    _strided(
        "new axis after an ellipsis", _CUBE, [0, 0], [0, 0], [1, 1], _CUBE[..., None], ellipsis_mask=1, new_axis_mask=2
    ),
    _strided("single", _CUBE, [1, -1], [2, 0], [1, 1], _CUBE[1, -1], shrink_axis_mask=3),
    _strided("single to a scalar", _MATRIX, [1, 2], [2, 3], [1, 1], _MATRIX[1, 2], shrink_axis_mask=3),
    _strided(
        "single ignores its masks", _VECTOR, [2], [0], [1], _VECTOR[2], shrink_axis_mask=1, begin_mask=1, end_mask=1
    ),
    _strided("single with a large stride", _VECTOR, [1], [2], [3], _VECTOR[1], shrink_axis_mask=1),
    _strided("new axis wins over single", _VECTOR, [1], [2], [1], _VECTOR[None], shrink_axis_mask=1, new_axis_mask=1),
    _strided("ellipsis wins over new axis", _VECTOR, [1], [2], [1], _VECTOR, ellipsis_mask=1, new_axis_mask=1),
    _strided("no bounds", _MATRIX, [], [], [], _MATRIX),
    _strided("scalar with a new axis", np.float32(3), [0], [0], [1], np.array([3], np.float32), new_axis_mask=1),
    _strided("strings", _STRINGS, [1], [2], [1], np.array(b"\x00\xff", object), shrink_axis_mask=1),
    _strided("bfloat16", _VECTOR.astype(ml_dtypes.bfloat16), [0], [6], [3], np.array([0.5, 3.5], ml_dtypes.bfloat16)),
    _strided("empty axis", np.zeros((0, 3)), [0], [2], [1], np.zeros((0, 3))),
    OpCase(
        "StridedSlice/int64 bounds",
        "StridedSlice",
        [_VECTOR, np.array([-(2**63)]), np.array([2**63 - 1]), np.array([2])],
        expected=_VECTOR[::2],
    ),
    OpCase(
        "StridedSlice/int16 bounds",
        "StridedSlice",
        [_VECTOR, np.array([1], np.int16), np.array([3], np.int16), np.array([1], np.int16)],
        expected=_VECTOR[1:3],
    ),
    _strided_wrong("stride zero", _VECTOR, [0], [1], [0], r"a stride is zero"),
    _strided_wrong("single backwards", _VECTOR, [1], [0], [-1], r"needs a positive stride", shrink_axis_mask=1),
    _strided_wrong(
        "single out of range", _VECTOR, [6], [7], [1], r"index is out of range along axis 0", shrink_axis_mask=1
    ),
    _strided_wrong(
        "single of an empty axis", np.zeros((0,)), [0], [1], [1], r"index is out of range", shrink_axis_mask=1
    ),
    _strided_wrong("too many indices", _VECTOR, [0, 0], [1, 1], [1, 1], r"too many indices"),
    _strided_wrong("two ellipses", _CUBE, [0, 0], [1, 1], [1, 1], r"one ellipsis", ellipsis_mask=3),
    _strided_wrong("lengths differ", _CUBE, [0, 0], [1], [1, 1], r"vectors of one length"),
    OpCase(
        "StridedSliceGrad/columns",
        "StridedSliceGrad",
        [_i32(2, 3), _i32(0, 2), _i32(2, 0), _i32(1, -2), _MATRIX[:, :1]],
        attrs={"end_mask": 0},
        expected=np.array([[0, 0, -2], [0, 0, 1]], np.float32),
    ),
    OpCase(
        "StridedSliceGrad/single and new axis",
        "StridedSliceGrad",
        [_i32(2, 3), _i32(1, 0), _i32(2, 0), _i32(1, 1), _MATRIX[:1]],
        attrs={"shrink_axis_mask": 1, "new_axis_mask": 2},
        expected=np.array([[0, 0, 0], [-2, -1, 0]], np.float32),
    ),
    OpCase(
        "StridedSliceGrad/to a scalar",
        "StridedSliceGrad",
        [
            np.array([]).astype(np.int64),
            np.array([]).astype(np.int64),
            np.array([]).astype(np.int64),
            np.array([]).astype(np.int64),
            np.float64(3),
        ],
        expected=np.float64(3),
    ),
    OpCase(
        "StridedSliceGrad/strings",
        "StridedSliceGrad",
        [_i32(2), _i32(1), _i32(2), _i32(1), np.array([b"x"], object)],
        expected=np.array([b"", b"x"], object),
    ),
    OpCase(
        "StridedSliceGrad/dy does not fit",
        "StridedSliceGrad",
        [_i32(3), _i32(1), _i32(2), _i32(1), np.ones(2)],
        raises=r"dy does not fit the slice",
    ),
]
