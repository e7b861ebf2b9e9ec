"""Cases of padding."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_MATRIX = np.array([[1.5, -2.0, 0.5], [4.0, 5.0, -6.5]], np.float32)
_STRINGS = np.array([b"", b"\x00\xff"], object)
_AROUND = np.array([[1, 0], [2, 1]], np.int32)
_REFLECT, _SYMMETRIC = {"mode": "REFLECT"}, {"mode": "SYMMETRIC"}


def _fold(g: np.ndarray, size: int, before: int, mode: str) -> np.ndarray:
    """The transpose of mirroring a vector, by definition: which element does each position show?"""
    shown = np.pad(np.arange(size), (before, len(g) - size - before), mode.lower())  # type: ignore[call-overload]
    return np.array([g[shown == index].sum() for index in range(size)])


CASES = [
    OpCase("Pad/matrix", "Pad", [_MATRIX, _AROUND], expected=np.pad(_MATRIX, _AROUND)),
    OpCase("Pad/nothing", "Pad", [_MATRIX, np.zeros((2, 2), np.int64)], expected=_MATRIX),
    OpCase("Pad/scalar", "Pad", [np.float32(2), np.zeros((0, 2), np.int32)], expected=np.float32(2)),
    OpCase("Pad/empty", "Pad", [np.zeros((0, 1)), np.array([[1, 1], [0, 1]])], expected=np.zeros((2, 2))),
    OpCase("Pad/strings", "Pad", [_STRINGS, np.array([[1, 0]])], expected=np.array([b"", b"", b"\x00\xff"], object)),
    OpCase("Pad/negative", "Pad", [_MATRIX, np.array([[0, 0], [-1, 0]])], raises=r"paddings are negative"),
    OpCase("Pad/wrong rank", "Pad", [_MATRIX, np.zeros((1, 2), np.int32)], raises=r"one pair for each axis"),
    OpCase("Pad/a vector", "Pad", [_MATRIX, np.zeros(2, np.int32)], raises=r"one pair for each axis"),
    OpCase("Pad/too large", "Pad", [_MATRIX, np.array([[2**40, 0], [2**40, 0]])], raises=r"too many elements"),
    OpCase(
        "PadV2/matrix",
        "PadV2",
        [_MATRIX, _AROUND, np.float32(9)],
        expected=np.pad(_MATRIX, _AROUND, constant_values=9),
    ),
    OpCase(
        "PadV2/bfloat16",
        "PadV2",
        [np.ones(2, ml_dtypes.bfloat16), np.array([[0, 1]]), ml_dtypes.bfloat16(2)],
        expected=np.array([1, 1, 2], ml_dtypes.bfloat16),
    ),
    OpCase(
        "PadV2/strings",
        "PadV2",
        [_STRINGS, np.array([[1, 0]]), np.array(b"pad", object)],
        expected=np.array([b"pad", b"", b"\x00\xff"], object),
    ),
    OpCase("PadV2/value is a vector", "PadV2", [_MATRIX, _AROUND, _MATRIX[0]], raises=r"must be a scalar"),
    OpCase("MirrorPad/reflect", "MirrorPad", [_MATRIX, _AROUND], _REFLECT, np.pad(_MATRIX, _AROUND, "reflect")),
    OpCase(
        "MirrorPad/symmetric",
        "MirrorPad",
        [_MATRIX, np.array([[2, 1], [3, 0]])],
        _SYMMETRIC,
        np.pad(_MATRIX, [(2, 1), (3, 0)], "symmetric"),
    ),
    OpCase(
        "MirrorPad/nothing of nothing",
        "MirrorPad",
        [np.zeros((0,)), np.array([[0, 0]])],
        _REFLECT,
        np.zeros(0),
        oracle=False,
    ),
    OpCase("MirrorPad/scalar", "MirrorPad", [np.float64(1), np.zeros((0, 2), np.int32)], _SYMMETRIC, np.float64(1)),
    OpCase(
        "MirrorPad/strings",
        "MirrorPad",
        [_STRINGS, np.array([[0, 1]])],
        _REFLECT,
        np.array([b"", b"\x00\xff", b""], object),
    ),
    OpCase(
        "MirrorPad/too much to reflect",
        "MirrorPad",
        [_MATRIX, np.array([[2, 0], [0, 0]])],
        _REFLECT,
        raises=r"too short",
    ),
    OpCase(
        "MirrorPad/too much, symmetric",
        "MirrorPad",
        [_MATRIX, np.array([[0, 0], [0, 4]])],
        _SYMMETRIC,
        raises=r"too short",
    ),
    OpCase("MirrorPad/mode not known", "MirrorPad", [_MATRIX, _AROUND], {"mode": "EDGE"}, raises=r"attr 'mode'"),
    OpCase(
        "MirrorPadGrad/reflect",
        "MirrorPadGrad",
        [np.arange(7.0), np.array([[2, 2]])],
        _REFLECT,
        _fold(np.arange(7.0), 3, 2, "reflect"),
    ),
    OpCase(
        "MirrorPadGrad/symmetric",
        "MirrorPadGrad",
        [np.arange(8.0), np.array([[3, 2]])],
        _SYMMETRIC,
        _fold(np.arange(8.0), 3, 3, "symmetric"),
    ),
    OpCase(
        "MirrorPadGrad/two axes",
        "MirrorPadGrad",
        [np.ones((3, 4), np.float32), np.array([[1, 0], [1, 1]])],
        _SYMMETRIC,
        np.array([[4, 4], [2, 2]], np.float32),
    ),
    OpCase(
        "MirrorPadGrad/scalar", "MirrorPadGrad", [np.float64(1), np.zeros((0, 2), np.int32)], _SYMMETRIC, np.float64(1)
    ),
    OpCase(
        "MirrorPadGrad/too much",
        "MirrorPadGrad",
        [np.ones(3), np.array([[2, 2]])],
        _SYMMETRIC,
        raises=r"exceeds the tensor",
    ),
]
