"""Cases of operations that turn axes around."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

_MATRIX = np.array([[1.5, -2.0, 0.5], [4.0, 5.0, -6.5]], np.float32)
_CUBE = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
_STRINGS = np.array([b"", b"\x00\xff", b"a\x00"], object)
_SIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


CASES = [
    OpCase("ReverseV2/one axis", "ReverseV2", [_MATRIX, _i32(1)], expected=_MATRIX[:, ::-1]),
    OpCase("ReverseV2/two axes", "ReverseV2", [_CUBE, np.array([0, -1])], expected=_CUBE[::-1, :, ::-1]),
    OpCase("ReverseV2/no axis", "ReverseV2", [_MATRIX, _i32()], expected=_MATRIX),
    OpCase("ReverseV2/scalar", "ReverseV2", [np.float32(1), _i32()], expected=np.float32(1)),
    OpCase("ReverseV2/strings", "ReverseV2", [_STRINGS, _i32(0)], expected=_STRINGS[::-1]),
    OpCase("ReverseV2/empty", "ReverseV2", [np.zeros((0, 2)), _i32(0, 1)], expected=np.zeros((0, 2))),
    OpCase("ReverseV2/out of range", "ReverseV2", [_MATRIX, _i32(2)], raises=r"axis is out of range"),
    OpCase("ReverseV2/twice", "ReverseV2", [_MATRIX, _i32(1, -1)], raises=r"axis is given twice"),
    OpCase("ReverseV2/axis is a scalar", "ReverseV2", [_MATRIX, np.int32(1)], raises=r"axis must be a vector"),
    OpCase(
        "ReverseSequence/rows",
        "ReverseSequence",
        [_MATRIX, np.array([2, 3])],
        {"seq_dim": 1},
        np.array([[-2, 1.5, 0.5], [-6.5, 5, 4]], np.float32),
    ),
    OpCase(
        "ReverseSequence/batch behind",
        "ReverseSequence",
        [_CUBE, _i32(0, 1, 2, 2)],
        {"seq_dim": 0, "batch_dim": 2},
        np.concatenate([_CUBE[..., :2], _CUBE[::-1, :, 2:]], 2),
    ),
    OpCase(
        "ReverseSequence/O37 negative axis",
        "ReverseSequence",
        [np.arange(32, dtype=np.float32).reshape(4, 8), np.array([7, 2, 3, 5])],
        {"seq_dim": -1},
        np.stack(
            [
                np.concatenate([row[:n][::-1], row[n:]])
                for row, n in zip(np.arange(32.0).reshape(4, 8), (7, 2, 3, 5), strict=True)
            ]
        ),
        oracle=False,  # TensorFlow's own shape function refuses negative axes
    ),
    OpCase(
        "ReverseSequence/strings",
        "ReverseSequence",
        [_STRINGS.reshape(1, 3), np.array([3])],
        {"seq_dim": 1},
        _STRINGS[::-1].reshape(1, 3),
    ),
    OpCase(
        "ReverseSequence/empty",
        "ReverseSequence",
        [np.zeros((0, 2)), np.zeros(0, np.int64)],
        {"seq_dim": 1},
        np.zeros((0, 2)),
    ),
    OpCase(
        "ReverseSequence/O37 negative length",
        "ReverseSequence",
        [_SIX, np.array([-1, 2])],
        {"seq_dim": 1},
        raises=r"length is out of range",
    ),
    OpCase(
        "ReverseSequence/O37 too long",
        "ReverseSequence",
        [_SIX, np.array([4, 2])],
        {"seq_dim": 1},
        raises=r"length is out of range",
    ),
    OpCase(
        "ReverseSequence/other number of lengths",
        "ReverseSequence",
        [_SIX, np.array([1])],
        {"seq_dim": 1},
        raises=r"one length for each item",
    ),
    OpCase(
        "ReverseSequence/one axis twice",
        "ReverseSequence",
        [_SIX, np.array([1, 1])],
        {"seq_dim": 0},
        raises=r"are the same axis",
    ),
    OpCase(
        "ReverseSequence/out of range",
        "ReverseSequence",
        [_SIX, np.array([1, 1])],
        {"seq_dim": 2},
        raises=r"seq_dim is out of range",
    ),
    OpCase("Roll/one axis", "Roll", [_MATRIX, 1, 1], expected=np.roll(_MATRIX, 1, 1)),
    OpCase("Roll/two axes", "Roll", [_CUBE, _i32(-1, 5), np.array([0, -1])], expected=np.roll(_CUBE, (-1, 5), (0, 2))),
    OpCase("Roll/one axis twice", "Roll", [_MATRIX, _i32(1, 1), _i32(1, 1)], expected=np.roll(_MATRIX, 2, 1)),
    OpCase("Roll/empty", "Roll", [np.zeros((0, 2)), 3, 0], expected=np.zeros((0, 2))),
    OpCase("Roll/strings", "Roll", [_STRINGS, 1, 0], expected=_STRINGS[[2, 0, 1]]),
    OpCase("Roll/scalar", "Roll", [np.float32(1), 1, 0], raises=r"a scalar cannot be rolled"),
    OpCase("Roll/out of range", "Roll", [_MATRIX, 1, 2], raises=r"axis is out of range"),
    OpCase("Roll/other number", "Roll", [_MATRIX, _i32(1, 2), _i32(0)], raises=r"one shift for each axis"),
]
