"""hr.sort, hr.argsort, hr.searchsorted against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace as hr
from headrace.testing import check_gradient

DTYPES = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, ml_dtypes.bfloat16,
    np.float32, np.float64,
]  # fmt: skip


def run(function, *arrays, open_shapes=False):
    """The value of a function of fed arrays, with their static shapes or with open ones of the same rank."""
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(array.dtype, [None] * array.ndim if open_shapes else array.shape) for array in arrays]
        result = function(*inputs)
    return hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))


def shuffled(dtype, *shape):
    return np.random.default_rng(3).integers(0, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("open_shapes", [False, True])
def test_sort_and_argsort_agree_with_numpy(dtype, axis, open_shapes):
    x = shuffled(dtype, 6, 5)
    result = run(lambda x: hr.sort(x, axis=axis), x, open_shapes=open_shapes)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, np.sort(x, axis))
    places = run(lambda x: hr.argsort(x, axis=axis), x, open_shapes=open_shapes)
    assert places.dtype == np.int64
    np.testing.assert_array_equal(places, np.argsort(x, axis, kind="stable"))


@pytest.mark.parametrize("axis", [0, -1])
def test_descending_order_is_stable_too(axis):
    x = shuffled(np.int32, 7, 4)
    places = run(lambda x: hr.argsort(x, axis=axis, descending=True), x)
    np.testing.assert_array_equal(places, np.argsort(-x, axis, kind="stable"))
    values = run(lambda x: hr.sort(x, axis=axis, descending=True), x)
    np.testing.assert_array_equal(values, -np.sort(-x, axis))


def test_O33_lowest_and_unsigned_integers_have_no_opposite():
    assert run(hr.sort, np.array([5, -(2**31), 7], np.int32)).tolist() == [-(2**31), 5, 7]
    assert run(hr.argsort, np.array([0, 255, 3], np.uint8)).tolist() == [0, 2, 1]
    assert run(hr.argsort, np.array([2, 1, 2, 1], np.int32)).tolist() == [1, 3, 0, 2]
    lowest = np.array([0, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    assert run(lambda x: hr.argsort(x, descending=True), lowest).tolist() == [2, 0, 1]


def test_nan_counts_as_the_largest():
    x = np.array([np.nan, 1.0, -np.inf, np.inf, np.nan, 0.0])
    np.testing.assert_array_equal(run(hr.sort, x), np.sort(x))
    assert run(hr.argsort, x).tolist() == [2, 5, 1, 3, 0, 4]
    assert run(lambda x: hr.argsort(x, descending=True), x).tolist() == [0, 4, 3, 1, 5, 2]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (1,)])
def test_sort_of_empty_tensors(shape):
    x = np.zeros(shape, np.float32)
    assert run(hr.sort, x).shape == shape
    assert run(hr.argsort, x).shape == shape


def test_argsort_gives_the_dtype_that_is_asked_for():
    assert run(lambda x: hr.argsort(x, dtype=hr.int32), np.array([2, 1])).dtype == np.int32


def test_a_scalar_has_no_order():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="must have rows|needs more axes"):
        hr.sort(1.0)
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="axis is out of range"):
        hr.sort([1.0], axis=1)


def test_another_axis_needs_a_known_rank():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="sort needs a known rank"):
        hr.sort(hr.placeholder(hr.float32), axis=0)


@pytest.mark.parametrize("descending", [False, True])
def test_gradient_goes_where_the_element_came_from(descending):
    points = [[[3.0, 1.0, 2.0], [0.5, -1.0, 7.0]]]
    check_gradient(lambda xs: [hr.sort(xs[0], axis=0, descending=descending)], points)
    check_gradient(lambda xs: [hr.sort(xs[0], descending=descending)], points)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("open_shapes", [False, True])
def test_searchsorted_agrees_with_numpy(side, dtype, open_shapes):
    row, values = np.array([1, 3, 3, 7], dtype), np.array([[3, 0, 9], [1, 7, 4]], dtype)
    places = run(lambda row, x: hr.searchsorted(row, x, side=side), row, values, open_shapes=open_shapes)
    assert places.dtype == np.int64
    np.testing.assert_array_equal(places, np.searchsorted(row, values, side))


def test_searchsorted_of_a_scalar_and_of_nothing():
    assert run(lambda x: hr.searchsorted(x, 4.5), np.array([1.0, 5.0])) == 1
    assert run(lambda x: hr.searchsorted(x, 4.5), np.array([])) == 0
    assert run(lambda x: hr.searchsorted(x, np.zeros((2, 0))), np.array([1.0])).shape == (2, 0)


def test_searchsorted_takes_the_order_of_an_unsorted_vector():
    x = np.array([5, 1, 3])
    places = run(lambda x: hr.searchsorted(x, [2, 3, 9], sorter=hr.argsort(x)), x)
    np.testing.assert_array_equal(places, np.searchsorted(x, [2, 3, 9], sorter=np.argsort(x)))


def test_searchsorted_refuses_what_it_cannot_search():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match="the side is not known"):
            hr.searchsorted([1, 2], 1, side="middle")
        with pytest.raises(hr.errors.ShapeError, match="rank is wrong"):
            hr.searchsorted([[1, 2]], 1)


@settings(max_examples=30, deadline=None)
@given(hnp.arrays(np.int16, st.integers(0, 12), elements=st.integers(-5, 5)), st.booleans())
def test_argsort_of_any_vector_is_the_stable_order(x, descending):
    places = run(lambda x: hr.argsort(x, descending=descending), x)
    assert places.tolist() == sorted(range(x.size), key=lambda index: -x[index] if descending else x[index])
