"""Products of vectors, powers, diagonals and traces of matrices against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import assert_close, check_gradient
from headrace.testing.reference import numbers

DTYPES = ["int8", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def run(function, *arrays, open_shapes=False):
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(x.dtype, [None] * x.ndim if open_shapes else x.shape) for x in arrays]
        result = function(*inputs)
    return hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_vecdot_conjugates_the_first(dtype, open_shapes):
    x, y = numbers(dtype, 2, 1, 4), numbers(dtype, 3, 4, seed=1)
    result = run(hr.vecdot, x, y, open_shapes=open_shapes)
    assert result.dtype == x.dtype
    assert_close(result, np.vecdot(x.astype(complex) if x.dtype.kind == "c" else x, y), what="vecdot")


@pytest.mark.parametrize("axis", [-1, -2])
def test_vecdot_along_an_axis(axis):
    x, y = numbers("float64", 2, 4, 4), numbers("float64", 4, 4, seed=1)
    assert_close(run(lambda x, y: hr.vecdot(x, y, axis=axis), x, y), np.vecdot(x, y, axis=axis), what="vecdot")


def test_vecdot_of_vectors_and_of_nothing():
    assert run(hr.vecdot, np.array([1, 2]), np.array([3, 4])) == 11
    assert run(hr.vecdot, np.zeros((2, 0)), np.zeros(0)).tolist() == [0, 0]


def test_vecdot_says_what_does_not_fit():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match="the axis must be counted from the end"):
            hr.vecdot([1], [1], axis=0)
        with pytest.raises(hr.errors.ShapeError, match="the vectors differ in length"):
            hr.vecdot([1, 2], [1, 2, 3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_outer_agrees_with_numpy(dtype):
    x, y = numbers(dtype, 3), numbers(dtype, 2, seed=1)
    assert_close(run(hr.linalg.outer, x, y), np.outer(x, y), what="outer")


def test_outer_takes_vectors_only():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="rank is wrong"):
        hr.linalg.outer([[1]], [1])


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_agrees_with_numpy(dtype, axis, open_shapes):
    x, y = numbers(dtype, 3, 3), numbers(dtype, 3, 3, seed=1)
    result = run(lambda x, y: hr.linalg.cross(x, y, axis=axis), x, y, open_shapes=open_shapes)
    assert_close(result, np.cross(x.astype(np.float32) if dtype == "float16" else x, y, axis=axis), what="cross")


def test_cross_broadcasts_the_other_axes():
    x, y = numbers("float64", 2, 1, 3), numbers("float64", 4, 3)
    assert_close(run(hr.linalg.cross, x, y), np.cross(x, y), what="cross")


def test_cross_is_that_of_three_dimensions():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="that of three dimensions"):
        hr.linalg.cross([1, 2], [3, 4])


@pytest.mark.parametrize("power", [0, 1, 2, 3, 5, 8, -1, -3])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_matrix_power_agrees_with_numpy(dtype, power):
    x = numbers(dtype, 2, 3, 3, low=-1, high=1)
    result = run(lambda x: hr.linalg.matrix_power(x, power), x)
    np.testing.assert_allclose(result, np.linalg.matrix_power(x, power), rtol=1e-9, atol=1e-9)


def test_matrix_power_of_integers_and_of_open_shapes():
    x = np.array([[1, 1], [0, 1]])
    result = run(lambda x: hr.linalg.matrix_power(x, 7), x, open_shapes=True)
    np.testing.assert_array_equal(result, [[1, 7], [0, 1]])
    np.testing.assert_array_equal(run(lambda x: hr.linalg.matrix_power(x, 0), x, open_shapes=True), np.eye(2))


def test_matrix_power_says_what_does_not_fit():
    with hr.Graph().as_default() as graph:
        with pytest.raises(hr.errors.ShapeError, match="square matrices"):
            hr.linalg.matrix_power(np.ones((2, 3)), 2)
        with pytest.raises(hr.errors.ShapeError, match="needs more axes"):
            hr.linalg.matrix_power([1, 2], 2)
        with pytest.raises(hr.errors.InvalidArgumentError, match="must be an integer"):
            hr.linalg.matrix_power(np.eye(2), 0.5)
        singular = hr.linalg.matrix_power(hr.placeholder_with_default(np.zeros((2, 2)), [2, 2]), -1)
    with pytest.raises(hr.errors.InvalidArgumentError, match="not invertible"):
        hr.Session(graph).run(singular)


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("offset", [-5, -3, -1, 0, 1, 2, 4])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3)], ids=str)
def test_diagonal_and_trace_agree_with_numpy(shape, offset, open_shapes):
    x = np.random.default_rng(0).integers(-9, 9, shape)
    result = run(lambda x: hr.linalg.diagonal(x, offset=offset), x, open_shapes=open_shapes)
    wanted = np.diagonal(x, offset, -2, -1)
    np.testing.assert_array_equal(result, wanted)
    traced = run(lambda x: hr.linalg.trace(x, offset=offset), x, open_shapes=open_shapes)
    np.testing.assert_array_equal(traced, wanted.sum(-1))


def test_trace_adds_narrow_integers_in_the_default_dtype():
    x = np.full((3, 3), 100, np.int8)
    assert run(hr.linalg.trace, x) == 300
    assert run(lambda x: hr.linalg.trace(x, dtype=hr.float64), x).dtype == np.float64


def test_gradients_of_products_agree_with_central_differences():
    x = numbers("float64", 3, 3)
    check_gradient(lambda xs: [hr.vecdot(xs[0], xs[1])], [x, x[0]])
    check_gradient(lambda xs: [hr.linalg.cross(xs[0], xs[1]), hr.linalg.outer(xs[0][0], xs[1])], [x, x[0]])
    check_gradient(lambda xs: [hr.linalg.diagonal(xs[0], offset=1), hr.linalg.trace(xs[0], offset=-1)], [x])
    check_gradient(lambda xs: [hr.linalg.matrix_power(xs[0], 3)], [x / 4])
