"""Cases of operations that join tensors and split them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_MATRIX = np.array([[1.5, -2.0, 0.5], [4.0, 5.0, -6.5]], np.float32)
_CUBE = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
_STRINGS = np.array([b"", b"\x00\xff", b"a\x00"], object)
_INT64_MIN = -(2**63)


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


CASES = [
    OpCase("ConcatV2/rows", "ConcatV2", [[_MATRIX, _MATRIX[:1]], 0], expected=np.concatenate([_MATRIX, _MATRIX[:1]])),
    OpCase(
        "ConcatV2/columns",
        "ConcatV2",
        [[_MATRIX, _MATRIX[:, :1], _MATRIX], -1],
        expected=np.concatenate([_MATRIX, _MATRIX[:, :1], _MATRIX], 1),
    ),
    OpCase(
        "ConcatV2/empty part",
        "ConcatV2",
        [[np.zeros((0, 3), np.float32), _MATRIX], np.int64(0)],
        expected=_MATRIX,
        differentiate=(),
    ),
    OpCase(
        "ConcatV2/strings", "ConcatV2", [[_STRINGS, _STRINGS[:1]], 0], expected=np.concatenate([_STRINGS, _STRINGS[:1]])
    ),
    OpCase(
        "ConcatV2/bfloat16",
        "ConcatV2",
        [[np.ones(2, ml_dtypes.bfloat16), np.zeros(1, ml_dtypes.bfloat16)], 0],
        expected=np.array([1, 1, 0], ml_dtypes.bfloat16),
    ),
    OpCase(
        "ConcatV2/scalars",
        "ConcatV2",
        [[np.float32(1), np.float32(2)], 0],
        raises=r"axis is out of range|scalars cannot",
    ),
    OpCase(
        "ConcatV2/ranks differ", "ConcatV2", [[_MATRIX, _MATRIX[0]], 0], raises=r"cannot be concatenated|rank is wrong"
    ),
    OpCase("ConcatV2/sizes differ", "ConcatV2", [[_MATRIX, _MATRIX.T], 0], raises=r"cannot be concatenated"),
    OpCase("ConcatV2/axis out of range", "ConcatV2", [[_MATRIX, _MATRIX], 2], raises=r"axis is out of range"),
    OpCase(
        "ConcatV2/O09 axis INT64_MIN",
        "ConcatV2",
        [[_MATRIX, _MATRIX], np.int64(_INT64_MIN)],
        raises=r"axis is out of range",
    ),
    OpCase(
        "ConcatOffset/three",
        "ConcatOffset",
        [1, [_i32(2, 2, 7), _i32(2, 3, 7), _i32(2, 9, 7)]],
        expected=(_i32(0, 0, 0), _i32(0, 2, 0), _i32(0, 5, 0)),
    ),
    OpCase(
        "ConcatOffset/int64",
        "ConcatOffset",
        [-1, [np.array([2]), np.array([3])]],
        expected=(np.array([0]), np.array([2])),
    ),
    OpCase(
        "ConcatOffset/sizes differ", "ConcatOffset", [0, [_i32(2, 2), _i32(2, 3)]], raises=r"cannot be concatenated"
    ),
    OpCase(
        "ConcatOffset/offsets overflow",
        "ConcatOffset",
        [0, [_i32(2**31 - 1), _i32(1)]],
        raises=r"the concatenation is too long",
        oracle=False,
    ),
    OpCase(
        "ConcatOffset/a size, not a vector", "ConcatOffset", [0, [_i32(2), np.int32(3)]], raises=r"rank is wrong|out of"
    ),
    OpCase(
        "ConcatOffset/axis out of range", "ConcatOffset", [2, [_i32(2, 2), _i32(2, 2)]], raises=r"axis is out of range"
    ),
    OpCase("Split/columns", "Split", [1, _MATRIX], attrs={"num_split": 3}, expected=tuple(np.split(_MATRIX, 3, 1))),
    OpCase("Split/one part", "Split", [-1, _MATRIX], attrs={"num_split": 1}, expected=(_MATRIX,)),
    OpCase("Split/strings", "Split", [0, _STRINGS], attrs={"num_split": 3}, expected=tuple(np.split(_STRINGS, 3))),
    OpCase("Split/empty", "Split", [0, np.zeros((0, 2))], attrs={"num_split": 2}, expected=(np.zeros((0, 2)),) * 2),
    OpCase("Split/uneven", "Split", [0, _MATRIX], attrs={"num_split": 3}, raises=r"cannot be split evenly"),
    OpCase("Split/scalar", "Split", [0, np.float32(1)], attrs={"num_split": 1}, raises=r"axis is out of range"),
    OpCase(
        "Split/O09 axis INT32_MIN", "Split", [-(2**31), _MATRIX], attrs={"num_split": 2}, raises=r"axis is out of range"
    ),
    OpCase("Split/no parts", "Split", [0, _MATRIX], attrs={"num_split": 0}, raises=r"attr 'num_split'"),
    OpCase(
        "SplitV/left over",
        "SplitV",
        [_CUBE, _i32(1, -1, 1), 2],
        attrs={"num_split": 3},
        expected=(_CUBE[..., :1], _CUBE[..., 1:3], _CUBE[..., 3:]),
    ),
    OpCase(
        "SplitV/with an empty part",
        "SplitV",
        [_MATRIX, np.array([0, 2], np.int8), -2],
        attrs={"num_split": 2},
        expected=(_MATRIX[:0], _MATRIX),
    ),
    OpCase("SplitV/one part", "SplitV", [_MATRIX, np.array([3]), 1], attrs={"num_split": 1}, expected=(_MATRIX,)),
    OpCase("SplitV/wrong sum", "SplitV", [_MATRIX, _i32(1, 1), 1], attrs={"num_split": 2}, raises=r"add up to 3"),
    OpCase("SplitV/too large", "SplitV", [_MATRIX, _i32(4, -1), 1], attrs={"num_split": 2}, raises=r"add up to 3"),
    OpCase(
        "SplitV/two left over", "SplitV", [_MATRIX, _i32(-1, -1), 1], attrs={"num_split": 2}, raises=r"one may be -1"
    ),
    OpCase("SplitV/too few sizes", "SplitV", [_MATRIX, _i32(3), 1], attrs={"num_split": 2}, raises=r"2 sizes >= 0"),
    OpCase(
        "SplitV/axis out of range",
        "SplitV",
        [_MATRIX, _i32(3), 2],
        attrs={"num_split": 1},
        raises=r"axis is out of range",
    ),
    OpCase("Pack/first", "Pack", [[_MATRIX, -_MATRIX]], expected=np.stack([_MATRIX, -_MATRIX])),
    OpCase("Pack/last", "Pack", [[_MATRIX, -_MATRIX]], attrs={"axis": -1}, expected=np.stack([_MATRIX, -_MATRIX], -1)),
    OpCase("Pack/scalars", "Pack", [[np.float32(1), np.float32(2)]], expected=np.array([1, 2], np.float32)),
    OpCase("Pack/one", "Pack", [[_MATRIX]], attrs={"axis": 1}, expected=_MATRIX[:, None]),
    OpCase(
        "Pack/strings",
        "Pack",
        [[np.array(b"a", object), np.array(b"", object)]],
        expected=np.array([b"a", b""], object),
    ),
    OpCase("Pack/shapes differ", "Pack", [[_MATRIX, _MATRIX[0]]], raises=r"cannot be stacked"),
    OpCase("Pack/axis out of range", "Pack", [[_MATRIX]], attrs={"axis": 3}, raises=r"axis is out of range"),
    OpCase("Unpack/rows", "Unpack", [_MATRIX], attrs={"num": 2}, expected=(_MATRIX[0], _MATRIX[1])),
    OpCase("Unpack/last axis", "Unpack", [_MATRIX], attrs={"num": 3, "axis": -1}, expected=tuple(_MATRIX.T)),
    OpCase("Unpack/vector", "Unpack", [np.array([1.0])], attrs={"num": 1}, expected=(np.float64(1),)),
    OpCase(
        "Unpack/strings",
        "Unpack",
        [_STRINGS],
        attrs={"num": 3},
        expected=tuple(np.array(item, object) for item in _STRINGS),
    ),
    OpCase("Unpack/wrong number", "Unpack", [_MATRIX], attrs={"num": 3}, raises=r"cannot be unstacked"),
    OpCase("Unpack/scalar", "Unpack", [np.float32(1)], attrs={"num": 1}, raises=r"axis is out of range"),
]
