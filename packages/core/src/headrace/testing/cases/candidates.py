"""Cases of the candidates family. The samplers have tests of their own: what they give depends on what went before."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

_LOWEST = np.finfo(np.float32).min


def _hits(classes: Any, sampled: Any) -> Any:
    found = [
        (row, position, _LOWEST)
        for row, given in enumerate(classes)
        for value in given
        for position, drawn in enumerate(sampled)
        if drawn == value
    ]
    rows, positions, weights = zip(*found, strict=True) if found else ((), (), ())
    return np.array(rows, np.int32), np.array(positions, np.int64), np.array(weights, np.float32)


def _case(what: str, classes: Any, sampled: Any, true: int, raises: str | None = None) -> OpCase:
    inputs = [np.array(classes, np.int64), np.array(sampled, np.int64)]
    expected = None if raises else _hits
    name = f"ComputeAccidentalHits/{what}"
    return OpCase(name, "ComputeAccidentalHits", inputs, {"num_true": true}, expected=expected, raises=raises)


CASES = [
    _case("one true class", [[3], [5], [3]], [5, 1, 3], 1),
    _case("two true classes", [[3, 1], [5, 9], [0, 0]], [5, 1, 3, 7], 2),
    _case("a class twice", [[3, 3]], [3, 4], 2),
    _case("no hits", [[3], [5]], [1, 2], 1),
    _case("no examples", np.zeros((0, 2)), [1, 2], 2),
    _case("no candidates", [[3]], [], 1),
    _case("large classes", [[2**40]], [2**40, 2**41], 1),
    _case("another number of classes", [[3, 1]], [1], 1, "num_true classes"),
    _case("candidates of rank 2", [[3]], [[1]], 1, "rank|vector"),
    _case("classes of rank 1", [3], [1], 1, "rank|num_true classes"),
    OpCase(
        "ComputeAccidentalHits/candidate twice",
        "ComputeAccidentalHits",
        [np.array([[4]]), np.array([4, 2, 4])],
        {"num_true": 1},
        expected=(np.array([0], np.int32), np.array([2]), np.array([_LOWEST], np.float32)),
    ),
]
