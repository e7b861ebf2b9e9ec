"""Cases of operations that create tensors and tell about them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_MATRIX = np.array([[1.5, -2.0, 0.0], [4.0, 5.0, -6.5]], np.float32)
_STRINGS = np.array([b"", b"\x00\xff", b"a\x00"], object)
_I32 = np.int32


def _i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


CASES = [
    OpCase(
        "PlaceholderWithDefault/not fed",
        "PlaceholderWithDefault",
        [_MATRIX],
        attrs={"shape": [None, 3]},
        expected=lambda x: x,
        exact=True,
    ),
    OpCase(
        "PlaceholderWithDefault/default does not fit",
        "PlaceholderWithDefault",
        [_MATRIX],
        attrs={"shape": [4]},
        raises=r"the default does not fit the shape",
        oracle=False,
    ),
    OpCase("Shape/matrix", "Shape", [_MATRIX], expected=_i32(2, 3)),
    OpCase("Shape/scalar", "Shape", [np.float32(3)], expected=_i32()),
    OpCase("Shape/int64", "Shape", [np.zeros((0, 7))], attrs={"out_type": "int64"}, expected=np.array([0, 7])),
    OpCase("Shape/strings", "Shape", [_STRINGS], expected=_i32(3)),
    OpCase("ShapeN/three", "ShapeN", [[_MATRIX, _MATRIX[0], np.float32(1)]], expected=(_i32(2, 3), _i32(3), _i32())),
    OpCase("ShapeN/one", "ShapeN", [[_MATRIX]], expected=(_i32(2, 3),)),
    OpCase("Size/matrix", "Size", [_MATRIX], expected=_I32(6)),
    OpCase("Size/empty", "Size", [np.zeros((3, 0))], attrs={"out_type": "int64"}, expected=np.int64(0)),
    OpCase("Size/scalar string", "Size", [np.array(b"a", object)], expected=_I32(1)),
    OpCase("Rank/matrix", "Rank", [_MATRIX], expected=_I32(2)),
    OpCase("Rank/scalar", "Rank", [np.int64(1)], expected=_I32(0)),
    OpCase("Fill/matrix", "Fill", [_i32(2, 3), np.float32(1.5)], expected=np.full((2, 3), 1.5, np.float32)),
    OpCase("Fill/scalar", "Fill", [_i32(), np.float64(2)], expected=np.float64(2)),
    OpCase("Fill/one size, not a vector", "Fill", [_I32(3), np.int8(7)], expected=np.full(3, 7, np.int8)),
    OpCase("Fill/empty", "Fill", [np.array([2, 0]), np.float32(1)], expected=np.zeros((2, 0), np.float32)),
    OpCase("Fill/strings", "Fill", [_i32(2), np.array(b"a\x00", object)], expected=np.array([b"a\x00"] * 2, object)),
    OpCase("Fill/negative size", "Fill", [_i32(2, -3), np.float32(1)], raises=r"a size is negative"),
    OpCase("Fill/too large", "Fill", [np.array([2**31, 2**31]), np.float32(1)], raises=r"too many elements"),
    OpCase("Fill/value is a vector", "Fill", [_i32(2), np.ones(2, np.float32)], raises=r"value must be a scalar"),
    OpCase("Fill/sizes are a matrix", "Fill", [np.ones((1, 2), np.int32), np.float32(1)], raises=r"must be a vector"),
    OpCase("ZerosLike/matrix", "ZerosLike", [_MATRIX], expected=np.zeros((2, 3), np.float32), exact=True),
    OpCase("ZerosLike/strings", "ZerosLike", [_STRINGS], expected=np.array([b"", b"", b""], object)),
    OpCase("ZerosLike/bool scalar", "ZerosLike", [np.bool_(True)], expected=np.bool_(False)),
    OpCase("ZerosLike/empty bfloat16", "ZerosLike", [np.zeros((0, 2), ml_dtypes.bfloat16)], expected=lambda x: x),
    OpCase("OnesLike/matrix", "OnesLike", [_MATRIX], expected=np.ones((2, 3), np.float32)),
    OpCase("OnesLike/complex scalar", "OnesLike", [np.complex64(2j)], expected=np.complex64(1)),
    OpCase("OnesLike/bool", "OnesLike", [np.zeros(2, bool)], expected=np.ones(2, bool)),
    OpCase("OnesLike/bfloat16", "OnesLike", [np.zeros(3, ml_dtypes.bfloat16)], expected=np.ones(3, ml_dtypes.bfloat16)),
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
    OpCase(
        "OneHot/last axis",
        "OneHot",
        [np.array([0, 2, -1, 3]), 3, np.float32(5), np.float32(-1)],
        expected=np.array([[5, -1, -1], [-1, -1, 5], [-1, -1, -1], [-1, -1, -1]], np.float32),
    ),
    OpCase(
        "OneHot/first axis",
        "OneHot",
        [np.array([[0, 1]], np.uint8), 2, np.int32(1), np.int32(0)],
        attrs={"axis": 0},
        expected=np.array([[[1, 0]], [[0, 1]]], np.int32),
    ),
    OpCase("OneHot/scalar index", "OneHot", [_I32(1), 2, True, False], expected=np.array([False, True])),
    OpCase(
        "OneHot/no classes",
        "OneHot",
        [_i32(0, 1), 0, np.float32(1), np.float32(0)],
        expected=np.zeros((2, 0), np.float32),
    ),
    OpCase(
        "OneHot/no indices",
        "OneHot",
        [np.zeros((0, 2), np.int64), 3, np.float32(1), np.float32(0)],
        expected=np.zeros((0, 2, 3), np.float32),
    ),
    OpCase("OneHot/negative depth", "OneHot", [_i32(0), -1, np.float32(1), np.float32(0)], raises=r"depth is negative"),
    OpCase(
        "OneHot/axis out of range",
        "OneHot",
        [_i32(0), 2, np.float32(1), np.float32(0)],
        attrs={"axis": 3},
        raises=r"axis is out of range",
    ),
]
