"""hr.take and hr.take_along_axis against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

CUBE = np.arange(24.0).reshape(2, 3, 4)


def run(function, *arrays, open_shapes=False):
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(x.dtype, [None] * x.ndim if open_shapes else x.shape) for x in arrays]
        result = function(*inputs)
    return hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_take_counts_negative_indices_from_the_end(axis, dtype, open_shapes):
    picks = np.array([1, -1, 0, -2], dtype)
    result = run(lambda x, i: hr.take(x, i, axis=axis), CUBE, picks, open_shapes=open_shapes)
    np.testing.assert_array_equal(result, np.take(CUBE, picks, axis))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_take_by_unsigned_indices(dtype):
    picks = np.array([2, 0], dtype)
    np.testing.assert_array_equal(run(lambda x, i: hr.take(x, i, axis=1), CUBE, picks), np.take(CUBE, picks, 1))


def test_take_from_a_vector_needs_no_axis():
    assert run(lambda x: hr.take(x, [-1, 0]), np.array([5, 6, 7])).tolist() == [7, 5]
    assert run(lambda x: hr.take(x, -1), np.array([5, 6, 7])) == 7
    assert run(lambda x: hr.take(x, np.zeros(0, np.int64)), np.array([5, 6, 7])).shape == (0,)


def test_take_says_what_does_not_fit():
    with hr.Graph().as_default() as graph:
        with pytest.raises(hr.errors.InvalidArgumentError, match="take must know the axis"):
            hr.take(CUBE, [0])
        with pytest.raises(hr.errors.DTypeError, match="indices must be integers"):
            hr.take([1, 2], [0.5])
        beyond = hr.take([1, 2, 3], hr.placeholder_with_default([-4], [None]))
    with pytest.raises(hr.errors.OutOfRangeError, match="an index is out of range"):
        hr.Session(graph).run(beyond)


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_take_along_axis_agrees_with_numpy(axis, open_shapes):
    shape = list(CUBE.shape)
    size, shape[axis] = shape[axis], 5
    picks = np.random.default_rng(2).integers(-size, size, shape)
    result = run(lambda x, i: hr.take_along_axis(x, i, axis=axis), CUBE, picks, open_shapes=open_shapes)
    np.testing.assert_array_equal(result, np.take_along_axis(CUBE, picks, axis))


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("shape", [(1, 3, 2), (2, 1, 2), (1, 1, 2), (1, 1, 0)])
def test_take_along_axis_broadcasts_the_other_axes(shape, open_shapes):
    picks = np.random.default_rng(2).integers(-4, 4, shape)
    result = run(hr.take_along_axis, CUBE, picks, open_shapes=open_shapes)
    np.testing.assert_array_equal(result, np.take_along_axis(CUBE, picks, -1))
    narrow = CUBE[:, :1]
    picks = np.broadcast_to(picks, (2, 3, shape[-1]))
    result = run(hr.take_along_axis, narrow, picks, open_shapes=open_shapes)
    np.testing.assert_array_equal(result, np.take_along_axis(narrow, picks, -1))


def test_take_along_axis_undoes_argsort():
    x = np.random.default_rng(5).normal(size=(4, 6))
    np.testing.assert_array_equal(
        run(lambda x: hr.take_along_axis(x, hr.argsort(x, axis=0), axis=0), x), np.sort(x, axis=0)
    )


def test_take_along_axis_says_what_does_not_fit():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.ShapeError, match="as many axes as the tensor"):
            hr.take_along_axis(CUBE, [0])
        with pytest.raises(hr.errors.ShapeError, match="axis is out of range"):
            hr.take_along_axis(CUBE, np.zeros((2, 3, 4), int), axis=3)
        with pytest.raises(hr.errors.ShapeError, match="do not broadcast"):
            hr.take_along_axis(CUBE, np.zeros((2, 2, 4), int))
        with pytest.raises(hr.errors.DTypeError, match="indices must be integers"):
            hr.take_along_axis(CUBE, CUBE)


def test_gradients_go_where_the_elements_came_from():
    picks = np.array([[[2, -1], [0, 0], [1, -3]]])
    check_gradient(lambda xs: [hr.take_along_axis(xs[0], picks)], [CUBE])
    check_gradient(lambda xs: [hr.take(xs[0], [1, -1, 1], axis=1)], [CUBE])
