"""What bands of diagonals refuse, and where: in the graph if it is known there, in the step otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import HeadraceError, InvalidArgumentError, ShapeError

_MATRICES = np.ones((2, 3, 4), np.float32)
_ROWS = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "error", "message"),
    [
        ("MatrixDiagPartV3", [_MATRICES, [1, 0], 0.0], InvalidArgumentError, r"k is no band[^$]*got: *\[1, 0\]"),
        ("MatrixDiagPartV3", [_MATRICES, [0, 1, 2], 0.0], InvalidArgumentError, "k is no band of diagonals"),
        ("MatrixDiagPartV3", [_MATRICES, 4, 0.0], InvalidArgumentError, "k is out of range[^$]*-3 < k < 4[^$]*got: *4"),
        ("MatrixDiagPartV3", [_MATRICES, [-3, 0], 0.0], InvalidArgumentError, "k is out of range[^$]*got: *-3"),
        ("MatrixSetDiagV3", [_MATRICES, _ROWS[:, :2], 0], ShapeError, r"the diagonals do not fit[^$]*got: *\[2, 2\]"),
        ("MatrixDiagV3", [_ROWS, [-1, 1], -1, -1, 0.0], ShapeError, r"not a row for each[^$]*\[\.\.\., 3, length"),
        ("MatrixDiagV3", [_ROWS, 0, 2, 5, 0.0], InvalidArgumentError, "the diagonals do not fit[^$]*2 rows, 5 columns"),
        ("MatrixDiagV3", [_ROWS, 1, 4, 5, 0.0], InvalidArgumentError, "do not fit[^$]*at least 4 columns[^$]*4 rows"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_graph_and_in_the_step(
    op: str, inputs: list[Any], error: type[HeadraceError], message: str
) -> None:
    with hr.Graph().as_default(), pytest.raises(error, match=message):
        hr.apply_op(op, *inputs)
    with hr.Graph().as_default() as graph:
        fed = [hr.placeholder(_dtype(value), None) for value in inputs]
        result = hr.apply_op(op, *fed, name="late")
    with pytest.raises(error, match=message):
        hr.Session(graph).run(result, feeds=dict(zip(fed, inputs, strict=True)))


def _dtype(value: Any) -> hr.DType:
    return hr.float32 if isinstance(value, (float, np.ndarray)) else hr.int32


@pytest.mark.parametrize(
    ("op", "inputs", "least"),
    [
        ("MatrixDiagPartV3", [_ROWS[0], 0, 0.0], 2),
        ("MatrixSetDiagV3", [_ROWS[0], _ROWS[0], 0], 2),
        ("MatrixDiagV3", [np.float32(1), 0, -1, -1, 0.0], 1),
    ],
)
def test_matrices_and_diagonals_have_axes(op: str, inputs: list[Any], least: int) -> None:
    with hr.Graph().as_default(), pytest.raises(ShapeError, match=f"the rank is too low[^$]*rank >= {least}"):
        hr.apply_op(op, *inputs)
