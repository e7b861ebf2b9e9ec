"""Masks, and what the gradient of a choice is where the other side has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize(
    ("lengths", "options", "expected"),
    [
        ([1, 3, 0], {}, [[1, 0, 0], [1, 1, 1], [0, 0, 0]]),
        ([[2], [1]], {"maxlen": 3}, [[[1, 1, 0]], [[1, 0, 0]]]),
        (2, {"maxlen": 1}, [1]),
        (np.zeros(0, np.int64), {}, np.zeros((0, 0))),
        ([-1, 1], {}, [[0], [1]]),
    ],
    ids=["rows", "maxlen", "scalar", "no sequences", "negative"],
)
def test_a_mask_says_which_positions_lie_within_their_sequence(lengths: Any, options: Any, expected: Any) -> None:
    for dtype in (hr.bool, hr.float32):
        with hr.Graph().as_default() as graph:
            mask = hr.sequence_mask(lengths, dtype=dtype, **options)
        assert mask.dtype is dtype
        np.testing.assert_array_equal(hr.Session(graph).run(mask), np.asarray(expected, dtype.array_type))


def test_lengths_that_are_fed_leave_the_number_of_positions_open() -> None:
    with hr.Graph().as_default() as graph:
        lengths = hr.placeholder(hr.int64, [None])
        mask, bounded = hr.sequence_mask(lengths), hr.sequence_mask(lengths, 4)
    assert mask.shape == hr.Shape([None, None])
    assert bounded.shape == hr.Shape([None, 4])
    assert hr.Session(graph).run(mask, feeds={lengths: [2, 1]}).tolist() == [[True, True], [True, False]]


def test_lengths_are_integers() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(hr.errors.DTypeError, match="the lengths of sequence_mask are no integers"),
    ):
        hr.sequence_mask([1.0])


def test_D17_the_gradient_of_the_side_that_is_not_chosen_is_zero_times_its_slope() -> None:
    """As in TensorFlow; the documentation of hr.where shows the way out."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        (plain,) = hr.gradients(hr.where(x > 0.0, hr.log(x), 0.0), [x])
        (guarded,) = hr.gradients(hr.where(x > 0.0, hr.log(hr.where(x > 0.0, x, 1.0)), 0.0), [x])
    found, finite = hr.Session(graph).run([plain, guarded], feeds={x: [0.0, 2.0]})
    np.testing.assert_array_equal(found, np.array([np.nan, 0.5], np.float32))
    np.testing.assert_array_equal(finite, np.array([0.0, 0.5], np.float32))
