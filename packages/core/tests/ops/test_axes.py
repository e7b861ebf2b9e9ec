"""hr.moveaxis and hr.matrix_transpose against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

CUBE = np.arange(24).reshape(2, 3, 4)


def run(function, x, open_shape=False):
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(x.dtype, [None] * x.ndim if open_shape else x.shape)
        result = function(fed)
    return hr.Session(graph).run(result, feeds={fed: x})


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize(
    ("source", "destination"),
    [(0, -1), (-1, 0), (1, 1), ([0, 1], [1, 2]), ((2, 0), (0, 1)), ([], []), ([0, 2], [-1, 0])],
)
def test_moveaxis_agrees_with_numpy(source, destination, open_shape):
    result = run(lambda x: hr.moveaxis(x, source, destination), CUBE, open_shape)
    np.testing.assert_array_equal(result, np.moveaxis(CUBE, source, destination))


def test_moveaxis_of_a_scalar_without_axes():
    assert run(lambda x: hr.moveaxis(x, (), ()), np.float32(3)) == 3


def test_moveaxis_says_what_does_not_fit():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.ShapeError, match="source is out of range"):
            hr.moveaxis(CUBE, 3, 0)
        with pytest.raises(hr.errors.ShapeError, match="destination is given twice"):
            hr.moveaxis(CUBE, [0, 1], [2, -1])
        with pytest.raises(hr.errors.ShapeError, match="each moved axis needs one destination"):
            hr.moveaxis(CUBE, [0, 1], [2])
        with pytest.raises(hr.errors.ShapeError, match=r"moveaxis needs a known rank(.|\n)*hr.ensure_shape"):
            hr.moveaxis(hr.placeholder(hr.float32), 0, 1)


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (0, 3), (2, 1, 0, 3)])
def test_matrix_transpose_agrees_with_numpy(shape, open_shape):
    x = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_array_equal(run(hr.matrix_transpose, x, open_shape), np.swapaxes(x, -1, -2))


def test_matrix_transpose_of_a_vector_is_refused():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="matrix_transpose needs more axes"):
        hr.matrix_transpose([1, 2])


def test_gradients_of_moved_axes_agree_with_central_differences():
    check_gradient(lambda xs: [hr.moveaxis(xs[0], 0, 2) * hr.constant(1.5, hr.float64)], [CUBE[:, :2, :2]])
    check_gradient(lambda xs: [hr.matrix_transpose(xs[0])], [CUBE[0]])


def test_T_and_mT_of_tensors_and_variables():
    with hr.Graph().as_default() as graph:
        x, many, v = hr.constant(CUBE[0]), hr.constant(CUBE), hr.Variable(CUBE[0])
        results = [x.T, x.mT, many.mT, v.T]
        with pytest.raises(hr.errors.ShapeError, match=r"transpose of a matrix(.|\n)*x.mT"):
            _ = many.T
    values = hr.Session(graph).run(results)
    for value, wanted in zip(values, [CUBE[0].T, CUBE[0].T, CUBE.mT, CUBE[0].T], strict=True):
        np.testing.assert_array_equal(value, wanted)
