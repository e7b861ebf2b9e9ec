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
]
