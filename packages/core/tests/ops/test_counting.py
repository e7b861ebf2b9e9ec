"""What counting refuses in the step."""

from __future__ import annotations

import pytest

import headrace as hr


def test_the_range_of_a_histogram_has_two_bounds() -> None:
    with hr.Graph().as_default() as graph:
        bounds = hr.placeholder(hr.float32, None)
        y = hr.apply_op("HistogramFixedWidth", [1.0, 2.0], bounds, 4)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match="value_range must have two elements"):
        session.run(y, feeds={bounds: [0.0, 1.0, 2.0]})
    assert session.run(y, feeds={bounds: [0.0, 4.0]}).tolist() == [0, 1, 1, 0]


def test_numbers_that_are_counted_are_a_vector_or_a_matrix() -> None:
    message = r"the rank of the numbers is wrong[^$]*rank 1 or 2[^$]*\[1, 1, 2\]"
    with hr.Graph().as_default() as graph:
        numbers = hr.placeholder(hr.int32, None)
        counts = hr.apply_op("DenseBincount", numbers, 3, hr.zeros([0]))
        with pytest.raises(hr.errors.ShapeError, match=message):
            hr.apply_op("DenseBincount", [[[1, 2]]], 3, hr.zeros([0]))
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match=message):
        session.run(counts, feeds={numbers: [[[1, 2]]]})
    assert session.run(counts, feeds={numbers: [[1, 2]]}).tolist() == [[0, 1, 1]]
