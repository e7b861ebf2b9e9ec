"""What kernels remember between steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.errors import ShapeError
from headrace.kernels.memo import memoized


def test_equal_vectors_are_computed_once() -> None:
    calls: list[Any] = []

    def function(shape: Any, axes: Any) -> int:
        calls.append((shape, axes))
        return len(calls)

    assert memoized(function, (2, 3), np.array([1, 0])) == 1
    assert memoized(function, (2, 3), np.array([1, 0], np.int64)) == 1
    assert memoized(function, (2, 3), np.array([0, 1])) == 2
    assert memoized(function, (3, 2), np.array([1, 0])) == 3


def test_arrays_that_are_no_vectors_are_passed_on_every_time() -> None:
    seen: list[Any] = []
    for _ in range(2):
        memoized(lambda shape: seen.append(shape), np.zeros((0, 2)))
    assert [shape.shape for shape in seen] == [(0, 2), (0, 2)]


def test_errors_are_raised_every_time() -> None:
    def function(axes: Any) -> None:
        raise ShapeError(f"not {axes}")

    for _ in range(2):
        with pytest.raises(ShapeError, match="not"):
            memoized(function, np.array([1]))
