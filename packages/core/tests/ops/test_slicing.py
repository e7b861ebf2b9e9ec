"""What slicing refuses in the step."""

from __future__ import annotations

import pytest

import headrace as hr


@pytest.mark.parametrize("begin", [0, [0, 0], [[0]]])
def test_bounds_that_show_only_in_the_step_must_be_vectors_of_one_length(begin: object) -> None:
    with hr.Graph().as_default() as graph:
        start = hr.placeholder(hr.int32, None)
        y = hr.apply_op("StridedSlice", [[1, 2, 3]], start, [1], [1])
    with pytest.raises(hr.errors.ShapeError, match="begin, end and strides must be vectors of one length"):
        hr.Session(graph).run(y, feeds={start: begin})
