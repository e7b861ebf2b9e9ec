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
