"""hr.roll against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize(
    ("shift", "axis"), [(1, None), (-2, None), (13, None), (1, 0), (-1, -1), ((1, 2), (0, 1))], ids=str
)
def test_roll_agrees_with_numpy(shift, axis, open_shape):
    x = np.arange(12).reshape(3, 4)
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(hr.int64, [None, None] if open_shape else x.shape)
        result = hr.roll(fed, shift, axis=axis)
    np.testing.assert_array_equal(hr.Session(graph).run(result, feeds={fed: x}), np.roll(x, shift, axis))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)], ids=str)
def test_roll_of_a_scalar_and_of_nothing(shape):
    with hr.Graph().as_default() as graph:
        result = hr.roll(hr.ones(shape), 3)
    assert hr.Session(graph).run(result).shape == shape


def test_the_axes_to_reverse_are_a_vector_in_the_step_too() -> None:
    with hr.Graph().as_default() as graph:
        axes = hr.placeholder(hr.int32, None)
        y = hr.apply_op("ReverseV2", np.arange(3), axes)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match="axis must be a vector"):
        session.run(y, feeds={axes: 0})
    assert session.run(y, feeds={axes: [0]}).tolist() == [2, 1, 0]
