"""Norms of vectors and matrices against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient
from headrace.testing.reference import numbers

INFINITY = float("inf")


def run(function, x, open_shape=False):
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(x.dtype, [None] * x.ndim if open_shape else x.shape)
        result = function(fed)
    return hr.Session(graph).run(result, feeds={fed: x})


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (-1, 0, 1)], ids=str)
@pytest.mark.parametrize("ord", [2, 1, 0, 3, 0.5, -1, INFINITY, -INFINITY])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_vector_norm_agrees_with_numpy(dtype, ord, axis, keepdims):
    x = numbers(dtype, 2, 3, 4)
    result = run(lambda x: hr.linalg.vector_norm(x, axis=axis, ord=ord, keepdims=keepdims), x)
    wanted = np.linalg.vector_norm(x, axis=axis, ord=ord, keepdims=keepdims)
    assert result.dtype == np.abs(x).dtype
    np.testing.assert_allclose(result, wanted, rtol=2e-6)


def test_vector_norm_of_integers_is_a_float():
    result = run(hr.linalg.vector_norm, np.array([3, -4], np.int8))
    assert (result, result.dtype) == (5.0, np.float32)


def test_vector_norm_of_nothing_and_of_a_scalar():
    assert run(hr.linalg.vector_norm, np.zeros(0)) == 0
    assert run(hr.linalg.vector_norm, np.float32(-3)) == 3


def test_vector_norm_neither_overflows_nor_hides_nan():
    assert run(hr.linalg.vector_norm, np.array([3e300, 4e300])) == 5e300
    assert np.isnan(run(hr.linalg.vector_norm, np.array([1.0, np.nan])))


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, INFINITY, -INFINITY])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_matrix_norm_agrees_with_numpy(dtype, ord, keepdims, open_shape):
    x = numbers(dtype, 2, 3, 4)
    result = run(lambda x: hr.linalg.matrix_norm(x, ord=ord, keepdims=keepdims), x, open_shape)
    wanted = np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=3e-6)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1])
def test_matrix_norm_of_integers_is_a_float(ord):
    x = np.array([[1, -2], [3, 4]])
    result = run(lambda x: hr.linalg.matrix_norm(x, ord=ord), x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.linalg.matrix_norm(x, ord=ord), rtol=2e-6)


def test_matrix_norm_says_what_it_does_not_know():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match=r"no matrix norm of that order(.|\n)*ord 3"):
            hr.linalg.matrix_norm(np.eye(2), ord=3)
        with pytest.raises(hr.errors.ShapeError, match="matrix_norm needs more axes"):
            hr.linalg.matrix_norm([1.0, 2.0])


@pytest.mark.parametrize("ord", [2, 1, 3, INFINITY])
def test_gradient_of_vector_norm(ord):
    check_gradient(lambda xs: [hr.linalg.vector_norm(xs[0], axis=-1, ord=ord)], [numbers("float64", 2, 3)])


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, 2, -2])
def test_gradient_of_matrix_norm(ord):
    check_gradient(lambda xs: [hr.linalg.matrix_norm(xs[0], ord=ord)], [numbers("float64", 2, 2, 3)])


def test_gradient_of_the_length_of_zero_is_zero():
    with hr.Graph().as_default() as graph:
        x = hr.constant([0.0, 0.0])
        slope = hr.gradients(hr.linalg.vector_norm(x), [x])[0]
    assert hr.Session(graph).run(slope).tolist() == [0, 0]
