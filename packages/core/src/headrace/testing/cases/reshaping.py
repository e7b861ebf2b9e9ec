"""Cases of operations that arrange the same elements in another shape or order of axes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_MATRIX = np.array([[1.5, -2.0, 0.5], [4.0, 5.0, -6.5]], np.float32)
_CUBE = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
_STRINGS = np.array([[b"", b"\x00\xff", b"a\x00"]], object)
_INT64_MIN = -(2**63)


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


_COMPLEX = np.array([[1 + 2j, 3, 4j], [5, 6 - 1j, 7]])
_CONJUGATED = [
    OpCase("ConjugateTranspose/complex128", "ConjugateTranspose", [_COMPLEX, [1, 0]], expected=_COMPLEX.conj().T),
    OpCase("ConjugateTranspose/real", "ConjugateTranspose", [_COMPLEX.real, [1, 0]], expected=_COMPLEX.real.T),
    OpCase("ConjugateTranspose/stays", "ConjugateTranspose", [_COMPLEX, [0, 1]], expected=_COMPLEX.conj()),
    OpCase("ConjugateTranspose/axis twice", "ConjugateTranspose", [_COMPLEX, [0, 0]], raises="perm"),
]

CASES = [
    *_CONJUGATED,
    OpCase("Reshape/matrix", "Reshape", [_MATRIX, _i32(3, 2)], expected=_MATRIX.reshape(3, 2)),
    OpCase("Reshape/left over", "Reshape", [_CUBE, np.array([4, -1])], expected=_CUBE.reshape(4, 6)),
    OpCase("Reshape/to scalar", "Reshape", [np.array([[7.0]]), _i32()], expected=np.float64(7)),
    OpCase("Reshape/from scalar", "Reshape", [np.float32(7), _i32(1, 1)], expected=np.array([[7]], np.float32)),
    OpCase("Reshape/one size, not a vector", "Reshape", [_MATRIX, np.int32(6)], expected=_MATRIX.reshape(6)),
    OpCase("Reshape/strings", "Reshape", [_STRINGS, _i32(-1)], expected=_STRINGS.reshape(-1)),
    OpCase("Reshape/empty, left over", "Reshape", [np.zeros((0, 3)), _i32(-1, 3)], expected=np.zeros((0, 3))),
    OpCase(
        "Reshape/empty, left over beside zero", "Reshape", [np.zeros((0, 3)), _i32(-1, 0)], expected=np.zeros((3, 0))
    ),
    OpCase("Reshape/other number", "Reshape", [_MATRIX, _i32(4)], raises=r"number of elements differs"),
    OpCase("Reshape/not divisible", "Reshape", [_MATRIX, _i32(4, -1)], raises=r"number of elements differs"),
    OpCase("Reshape/two left over", "Reshape", [_MATRIX, _i32(-1, -1)], raises=r"one -1"),
    OpCase("Reshape/negative", "Reshape", [_MATRIX, _i32(-2, 3)], raises=r"one -1"),
    OpCase("Reshape/matrix of sizes", "Reshape", [_MATRIX, np.array([[2, 3]])], raises=r"must be a vector"),
    OpCase(
        "Reshape/sizes overflow", "Reshape", [_MATRIX, np.array([2**62, 8, -1])], raises=r"number of elements differs"
    ),
    OpCase(
        "Reshape/sizes of nothing overflow",
        "Reshape",
        [np.zeros((0, 3)), np.array([2**62, 8, -1])],
        raises=r"too many elements",
        oracle=False,
    ),
    OpCase("ExpandDims/first", "ExpandDims", [_MATRIX, 0], expected=_MATRIX[None]),
    OpCase("ExpandDims/last", "ExpandDims", [_MATRIX, -1], expected=_MATRIX[..., None]),
    OpCase("ExpandDims/scalar", "ExpandDims", [np.float32(2), np.int64(0)], expected=np.array([2], np.float32)),
    OpCase("ExpandDims/axis in a vector", "ExpandDims", [_MATRIX, _i32(1)], expected=_MATRIX[:, None]),
    OpCase("ExpandDims/strings", "ExpandDims", [np.array(b"x", object), 0], expected=np.array([b"x"], object)),
    OpCase("ExpandDims/out of range", "ExpandDims", [_MATRIX, 3], raises=r"axis is out of range"),
    OpCase(
        "ExpandDims/O09 axis INT64_MIN", "ExpandDims", [_MATRIX, np.int64(_INT64_MIN)], raises=r"axis is out of range"
    ),
    OpCase("ExpandDims/two axes", "ExpandDims", [_MATRIX, _i32(0, 1)], raises=r"axis must be a scalar"),
    OpCase("Squeeze/all", "Squeeze", [_MATRIX.reshape(1, 2, 1, 3)], expected=_MATRIX),
    OpCase(
        "Squeeze/named",
        "Squeeze",
        [_MATRIX.reshape(1, 2, 1, 3)],
        attrs={"squeeze_dims": [-2]},
        expected=_MATRIX.reshape(1, 2, 3),
    ),
    OpCase("Squeeze/named twice", "Squeeze", [np.ones((2, 1))], attrs={"squeeze_dims": [1, -1]}, expected=np.ones(2)),
    OpCase("Squeeze/empty", "Squeeze", [np.zeros((1, 0))], expected=np.zeros(0)),
    OpCase("Squeeze/scalar", "Squeeze", [np.float32(1)], expected=np.float32(1)),
    OpCase("Squeeze/not one", "Squeeze", [_MATRIX], attrs={"squeeze_dims": [0]}, raises=r"axis 0 cannot be squeezed"),
    OpCase("Squeeze/out of range", "Squeeze", [_MATRIX], attrs={"squeeze_dims": [2]}, raises=r"axis is out of range"),
    OpCase("Transpose/matrix", "Transpose", [_MATRIX, _i32(1, 0)], expected=_MATRIX.T),
    OpCase("Transpose/cube", "Transpose", [_CUBE, np.array([2, 0, 1])], expected=_CUBE.transpose(2, 0, 1)),
    OpCase("Transpose/scalar", "Transpose", [np.float32(1), _i32()], expected=np.float32(1)),
    OpCase("Transpose/strings", "Transpose", [_STRINGS, _i32(1, 0)], expected=_STRINGS.T),
    OpCase(
        "Transpose/O35 negative axes",
        "Transpose",
        [np.array([[1.0, 2.0], [3.0, 4.0]]), _i32(-1, 0)],
        expected=np.array([[1.0, 3.0], [2.0, 4.0]]),
    ),
    OpCase(
        "Transpose/O35 negative axes, empty",
        "Transpose",
        [np.zeros((1, 0), np.float32), _i32(-1, -2)],
        expected=np.zeros((0, 1), np.float32),
    ),
    OpCase("Transpose/O35 axis twice", "Transpose", [np.ones((2, 2)), _i32(0, 0)], raises=r"perm is given twice"),
    OpCase("Transpose/out of range", "Transpose", [np.ones((2, 2)), _i32(0, 2)], raises=r"perm is out of range"),
    OpCase("Transpose/too few axes", "Transpose", [np.ones((2, 2)), _i32(0)], raises=r"one number for each axis"),
    OpCase("BroadcastTo/rows", "BroadcastTo", [_MATRIX[:1], _i32(2, 3)], expected=np.repeat(_MATRIX[:1], 2, 0)),
    OpCase(
        "BroadcastTo/new axes", "BroadcastTo", [_MATRIX, np.array([2, 1, 2, 3])], expected=np.stack([_MATRIX[None]] * 2)
    ),
    OpCase("BroadcastTo/scalar", "BroadcastTo", [np.float32(2), _i32(2, 2)], expected=np.full((2, 2), 2, np.float32)),
    OpCase("BroadcastTo/to empty", "BroadcastTo", [np.ones((1, 2)), _i32(0, 2)], expected=np.ones((0, 2))),
    OpCase("BroadcastTo/same", "BroadcastTo", [_MATRIX, _i32(2, 3)], expected=_MATRIX),
    OpCase(
        "BroadcastTo/strings", "BroadcastTo", [np.array(b"x", object), _i32(2)], expected=np.array([b"x", b"x"], object)
    ),
    OpCase(
        "BroadcastTo/bfloat16",
        "BroadcastTo",
        [np.array([1.5], ml_dtypes.bfloat16), _i32(3)],
        expected=np.full(3, 1.5, ml_dtypes.bfloat16),
    ),
    OpCase("BroadcastTo/sizes differ", "BroadcastTo", [_MATRIX, _i32(2, 4)], raises=r"cannot be broadcast"),
    OpCase("BroadcastTo/lower rank", "BroadcastTo", [_MATRIX, _i32(3)], raises=r"cannot be broadcast"),
    OpCase("BroadcastTo/negative", "BroadcastTo", [_MATRIX, _i32(-1, 3)], raises=r"a size is negative"),
    OpCase("BroadcastTo/too large", "BroadcastTo", [np.ones(1), np.array([2**40, 2**40])], raises=r"too many elements"),
    OpCase(
        "BroadcastGradientArgs/contradict",
        "BroadcastGradientArgs",
        [_i32(3, 1, 5), _i32(2, 4)],
        raises=r"do not broadcast together",
    ),
    OpCase(
        "BroadcastGradientArgs/ones on both sides",
        "BroadcastGradientArgs",
        [_i32(1, 2), _i32(1, 1)],
        expected=(_i32(0), _i32(0, 1)),
    ),
    OpCase("BroadcastGradientArgs/same", "BroadcastGradientArgs", [_i32(2, 1), _i32(2, 1)], expected=(_i32(), _i32())),
    OpCase(
        "BroadcastGradientArgs/scalar", "BroadcastGradientArgs", [_i32(), _i32(2, 1)], expected=(_i32(0, 1), _i32(1))
    ),
    OpCase(
        "BroadcastGradientArgs/empty",
        "BroadcastGradientArgs",
        [np.array([3, 1, 0]), np.array([1, 0])],
        expected=(np.array([1]), np.array([0, 1])),
    ),
    OpCase("BroadcastArgs/both", "BroadcastArgs", [_i32(3, 1), _i32(4)], expected=_i32(3, 4)),
    OpCase("BroadcastArgs/scalars", "BroadcastArgs", [_i32(), _i32()], expected=_i32()),
    OpCase("BroadcastArgs/contradict", "BroadcastArgs", [_i32(3), _i32(4)], raises=r"do not broadcast together"),
    OpCase("Tile/matrix", "Tile", [_MATRIX, _i32(2, 3)], expected=np.tile(_MATRIX, (2, 3))),
    OpCase("Tile/once", "Tile", [_MATRIX, np.array([1, 1])], expected=_MATRIX),
    OpCase("Tile/zero times", "Tile", [_MATRIX, _i32(0, 2)], expected=np.zeros((0, 6), np.float32)),
    OpCase("Tile/scalar", "Tile", [np.float32(2), _i32()], expected=np.float32(2)),
    OpCase("Tile/strings", "Tile", [_STRINGS, _i32(2, 1)], expected=np.concatenate([_STRINGS, _STRINGS])),
    OpCase("Tile/negative", "Tile", [_MATRIX, _i32(-1, 1)], raises=r"a size is negative"),
    OpCase("Tile/too few", "Tile", [_MATRIX, _i32(2)], raises=r"one number for each axis"),
    OpCase("Tile/too large", "Tile", [_MATRIX, np.array([2**40, 2**40])], raises=r"too many elements"),
]
