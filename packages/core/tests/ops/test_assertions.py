"""Assertions: what holds passes, what does not names the user's line, and what is known is checked at once."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, ShapeError

PAIRS = [
    (hr.assert_equal, [1, 2], [1, 2], [1, 3]),
    (hr.assert_not_equal, [1, 2], [2, 1], [1, 3]),
    (hr.assert_less, [1, 2], [2, 3], [2, 2]),
    (hr.assert_less_equal, [1, 2], [1, 3], [0, 2]),
    (hr.assert_greater, [1, 2], [0, 1], [0, 2]),
    (hr.assert_greater_equal, [1, 2], [1, 2], [2, 2]),
    (hr.assert_near, [1.0, 2.0], [1.0, 2.00001], [1.0, 2.1]),
]


@pytest.mark.parametrize(("function", "x", "holds", "fails"), PAIRS, ids=lambda item: getattr(item, "__name__", ""))
@pytest.mark.parametrize("rank_known", [True, False])
def test_comparisons(function, x, holds, fails, rank_known):
    with hr.Graph().as_default() as graph:
        y = hr.placeholder(hr.constant(x).dtype, [2] if rank_known else None)
        check = function(x, y); line = sys._getframe().f_lineno  # fmt: skip # noqa: E702
    session = hr.Session(graph)
    session.run(check, feeds={y: holds})
    with pytest.raises(InvalidArgumentError, match="an assertion does not hold") as caught:
        session.run(check, feeds={y: fails})
    assert f"test_assertions.py:{line}" in str(caught.value.where)


def test_the_error_shows_message_and_values():
    with hr.Graph().as_default() as graph:
        check = hr.assert_equal([1, 2, 3, 4], 0, message="sizes differ", summarize=2)
    with pytest.raises(InvalidArgumentError, match=r"sizes differ; x is, \[1 2 \.\.\.\], y is, 0"):
        hr.Session(graph).run(check)


@pytest.mark.parametrize(
    ("function", "holds", "fails"),
    [
        (hr.assert_positive, [1.0], [0.0]),
        (hr.assert_non_negative, [0.0], [-1.0]),
        (hr.assert_finite, [0.0], [np.nan]),
    ],
)
def test_properties_of_one_tensor(function, holds, fails):
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [1])
        check = function(x)
    session = hr.Session(graph)
    session.run(check, feeds={x: holds})
    with pytest.raises(InvalidArgumentError, match="an assertion does not hold"):
        session.run(check, feeds={x: fails})


def test_shapes_that_only_the_step_knows():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, None)
        checks = [hr.assert_rank(x, 2), hr.assert_shape(x, [None, 3])]
    session = hr.Session(graph)
    session.run(checks, feeds={x: np.zeros((5, 3))})
    for check, wrong in ((0, np.zeros(3)), (1, np.zeros((5, 4))), (1, np.zeros(3)), (1, np.zeros((1, 3, 3)))):
        with pytest.raises(InvalidArgumentError, match=r"x must have (rank 2|shape \[\?, 3\]); its shape is"):
            session.run(checks[check], feeds={x: wrong})


def test_shapes_that_are_known_are_checked_at_once():
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [None, 4])
        with pytest.raises(ShapeError, match="x must have rank 3"):
            hr.assert_rank(x, 3)
        with pytest.raises(ShapeError, match="wrong columns"):
            hr.assert_shape(x, [None, 3], message="wrong columns")
        hr.assert_shape(x, None)


def test_runs_by_itself_inside_a_function():
    @hr.function
    def root(x):
        hr.assert_non_negative(x)
        return hr.sqrt(x)

    assert root(np.float32(4)) == 2
    with pytest.raises(InvalidArgumentError, match="x >= 0"):
        root(np.float32(-4))
