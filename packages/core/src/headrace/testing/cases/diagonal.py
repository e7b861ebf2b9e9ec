"""Cases of operations on diagonals."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_WIDE = np.array([[1.5, -2.0, 0.5], [4.0, 5.0, -6.5]], np.float32)
_CUBE = np.arange(1, 25, dtype=np.float64).reshape(2, 4, 3)

CASES = [
    OpCase(
        "MatrixBandPart/lower triangle", "MatrixBandPart", [_CUBE, np.int64(-1), np.int64(0)], expected=np.tril(_CUBE)
    ),
    OpCase("MatrixBandPart/upper triangle", "MatrixBandPart", [_WIDE, 0, -1], expected=np.triu(_WIDE)),
    OpCase(
        "MatrixBandPart/band",
        "MatrixBandPart",
        [_CUBE, np.int32(1), np.int32(1)],
        expected=np.triu(np.tril(_CUBE, 1), -1),
    ),
    OpCase("MatrixBandPart/all", "MatrixBandPart", [_WIDE, 2, 3], expected=_WIDE),
    OpCase(
        "MatrixBandPart/infinities outside vanish",
        "MatrixBandPart",
        [np.array([[1, np.inf], [np.nan, 2]]), 0, 0],
        expected=np.diag([1.0, 2.0]),
        differentiate=(),
    ),
    OpCase(
        "MatrixBandPart/strings",
        "MatrixBandPart",
        [np.array([[b"a", b"b"]], object), 0, 0],
        expected=np.array([[b"a", b""]], object),
        oracle=False,
    ),
    OpCase("MatrixBandPart/empty", "MatrixBandPart", [np.zeros((2, 0, 3)), 0, 0], expected=np.zeros((2, 0, 3))),
    OpCase("MatrixBandPart/too wide", "MatrixBandPart", [_WIDE, 3, 0], raises=r"num_lower is out of range"),
    OpCase("MatrixBandPart/vector", "MatrixBandPart", [_WIDE[0], 0, 0], raises=r"rank is too low"),
    OpCase(
        "MatrixBandPart/not a scalar",
        "MatrixBandPart",
        [_WIDE, np.array([0, 1]), np.int64(0)],
        raises=r"must be a scalar",
    ),
    OpCase("Diag/vector", "Diag", [np.array([1.0, 2.0])], expected=np.diag([1.0, 2.0])),
    OpCase("Diag/matrix", "Diag", [_WIDE], expected=np.diag(_WIDE.reshape(-1)).reshape(2, 3, 2, 3)),
    OpCase("Diag/empty", "Diag", [np.zeros(0, np.int32)], expected=np.zeros((0, 0), np.int32)),
    OpCase("Diag/scalar", "Diag", [np.float32(1)], raises=r"a scalar has no diagonal"),
    OpCase("DiagPart/matrix", "DiagPart", [np.arange(9.0).reshape(3, 3)], expected=np.array([0.0, 4, 8])),
    OpCase(
        "DiagPart/four axes",
        "DiagPart",
        [np.arange(36.0).reshape(2, 3, 2, 3)],
        expected=np.diag(np.arange(36.0).reshape(6, 6)).reshape(2, 3),
    ),
    OpCase("DiagPart/empty", "DiagPart", [np.zeros((0, 0))], expected=np.zeros(0)),
    OpCase("DiagPart/not square", "DiagPart", [_WIDE], raises=r"two equal halves"),
    OpCase("DiagPart/odd rank", "DiagPart", [np.ones(3)], raises=r"two equal halves"),
    OpCase("MatrixDiag/vector", "MatrixDiag", [np.array([1.0, 2.0])], expected=np.diag([1.0, 2.0])),
    OpCase("MatrixDiag/rows", "MatrixDiag", [_WIDE], expected=np.stack([np.diag(row) for row in _WIDE])),
    OpCase(
        "MatrixDiag/bfloat16",
        "MatrixDiag",
        [np.ones(1, ml_dtypes.bfloat16)],
        expected=np.ones((1, 1), ml_dtypes.bfloat16),
    ),
    OpCase(
        "MatrixDiag/strings",
        "MatrixDiag",
        [np.array([b"a", b"b"], object)],
        expected=np.array([[b"a", b""], [b"", b"b"]], object),
        oracle=False,
    ),
    OpCase("MatrixDiag/empty", "MatrixDiag", [np.zeros((2, 0))], expected=np.zeros((2, 0, 0))),
    OpCase("MatrixDiag/scalar", "MatrixDiag", [np.float32(1)], raises=r"rank is too low"),
    OpCase("MatrixDiagPart/wide", "MatrixDiagPart", [_WIDE], expected=np.array([1.5, 5], np.float32)),
    OpCase("MatrixDiagPart/batch", "MatrixDiagPart", [_CUBE], expected=np.stack([np.diag(matrix) for matrix in _CUBE])),
    OpCase("MatrixDiagPart/empty", "MatrixDiagPart", [np.zeros((2, 0, 3))], expected=np.zeros((2, 0))),
    OpCase("MatrixDiagPart/vector", "MatrixDiagPart", [_WIDE[0]], raises=r"rank is too low"),
    OpCase(
        "MatrixSetDiag/wide",
        "MatrixSetDiag",
        [_WIDE, np.array([7, 8], np.float32)],
        expected=np.array([[7, -2, 0.5], [4, 8, -6.5]], np.float32),
    ),
    OpCase(
        "MatrixSetDiag/empty", "MatrixSetDiag", [np.zeros((0, 2, 2)), np.zeros((0, 2))], expected=np.zeros((0, 2, 2))
    ),
    OpCase(
        "MatrixSetDiag/does not fit", "MatrixSetDiag", [_WIDE, np.ones(3, np.float32)], raises=r"diagonal does not fit"
    ),
]
