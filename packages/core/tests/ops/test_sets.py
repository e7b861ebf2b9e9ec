"""hr.unique_* against NumPy, up to the order of the values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import headrace as hr

DTYPES = [np.int8, np.uint8, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.bool_]


def run(function, x, open_shape=False):
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(x.dtype, [None] * x.ndim if open_shape else x.shape)
        result = function(fed)
    return hr.Session(graph).run(result, feeds={fed: x})


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 0), ()], ids=str)
def test_all_four_answers_fit_together(shape, dtype, open_shape):
    x = np.random.default_rng(8).integers(0, 4, shape).astype(dtype)
    found = run(hr.unique_all, x, open_shape)
    flat = x.reshape(-1)
    values, first, counts = np.unique(flat, return_index=True, return_counts=True)
    order = np.argsort(first)
    np.testing.assert_array_equal(found.values, values[order])
    np.testing.assert_array_equal(found.indices, first[order])
    np.testing.assert_array_equal(found.counts, counts[order])
    np.testing.assert_array_equal(found.values[found.inverse_indices], x)
    assert found.inverse_indices.shape == x.shape
    assert {found.indices.dtype, found.inverse_indices.dtype, found.counts.dtype} == {np.dtype(np.int64)}


def test_each_function_gives_its_part_of_them():
    x = np.array([[3, 1], [3, 2]])
    found = run(hr.unique_all, x)
    np.testing.assert_array_equal(run(hr.unique_values, x), found.values)
    counts = run(hr.unique_counts, x)
    np.testing.assert_array_equal(counts.values, found.values)
    np.testing.assert_array_equal(counts.counts, found.counts)
    inverse = run(hr.unique_inverse, x)
    np.testing.assert_array_equal(inverse.values, found.values)
    np.testing.assert_array_equal(inverse.inverse_indices, found.inverse_indices)


def test_each_nan_differs_and_signed_zeros_do_not():
    found = run(hr.unique_all, np.array([np.nan, 0.0, -0.0, np.nan]))
    np.testing.assert_array_equal(found.values, [np.nan, 0.0, np.nan])
    assert found.counts.tolist() == [1, 2, 1]
    assert found.indices.tolist() == [0, 1, 3]


def test_strings_are_told_apart():
    x = np.array([b"b", b"", b"b"], object)
    assert run(hr.unique_values, x).tolist() == [b"b", b""]
