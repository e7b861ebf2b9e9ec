"""hr.count_nonzero and hr.nonzero against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import headrace as hr

DTYPES = [np.bool_, np.int8, np.uint32, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64]


def run(function, x, open_shape=False):
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(x.dtype, [None] * x.ndim if open_shape else x.shape)
        result = function(fed)
    return hr.Session(graph).run(result, feeds={fed: x})


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_count_nonzero_agrees_with_numpy(dtype, axis, keepdims):
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(dtype)
    result = run(lambda x: hr.count_nonzero(x, axis=axis, keepdims=keepdims), x)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, np.count_nonzero(x, axis, keepdims=keepdims))


def test_count_nonzero_of_nan_strings_and_nothing():
    assert run(hr.count_nonzero, np.array([np.nan, 0.0, -0.0])) == 1
    assert run(hr.count_nonzero, np.array([b"a", b"", b"b"], object)) == 2
    assert run(hr.count_nonzero, np.float32(3)) == 1
    assert run(lambda x: hr.count_nonzero(x, axis=1, dtype=hr.int32), np.zeros((2, 0))).tolist() == [0, 0]


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 0)], ids=str)
@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.float32, np.complex128])
def test_nonzero_agrees_with_numpy(dtype, shape, open_shape):
    x = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    found = run(hr.nonzero, x, open_shape)
    assert isinstance(found, tuple)
    for ours, theirs in zip(found, np.nonzero(x), strict=True):
        assert ours.dtype == np.int64
        np.testing.assert_array_equal(ours, theirs)


def test_a_scalar_has_no_coordinates():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="nonzero needs more axes"):
        hr.nonzero(1)
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="nonzero needs a known rank"):
        hr.nonzero(hr.placeholder(hr.bool))
