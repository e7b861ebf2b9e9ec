"""Gradients of weighted counts."""

from __future__ import annotations

import numpy as np

import headrace as hr


def test_weights_of_unknown_shape_get_the_gradient_of_the_sums_they_were_added_to() -> None:
    with hr.Graph().as_default() as graph:
        numbers, weights = hr.placeholder(hr.int32, [None, None]), hr.placeholder(hr.float64, [None, None])
        sums = hr.bincount(numbers, 3, weights=weights)
        (slope,) = hr.gradients(sums * [1.0, 10.0, 100.0], [weights])
    feeds = {numbers: [[0, 1], [2, 7]], weights: [[0.5, 1.5], [2.5, 3.5]]}
    assert hr.Session(graph).run(slope, feeds=feeds).tolist() == [[1.0, 10.0], [100.0, 0.0]]


def test_no_weights_get_no_gradient() -> None:
    with hr.Graph().as_default() as graph:
        weights = hr.constant(np.zeros(0))
        (slope,) = hr.gradients(hr.astype(hr.bincount([0, 1], 2, weights=weights), hr.float64), [weights])
    assert hr.Session(graph).run(slope).shape == (0,)
