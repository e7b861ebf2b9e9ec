"""Running sums and products, and differences, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

PAIRS = [(hr.cumulative_sum, np.cumulative_sum), (hr.cumulative_prod, np.cumulative_prod)]
X = np.random.default_rng(4).integers(1, 4, (2, 3, 4)).astype(np.float64)


def run(function, x, open_shape=False):
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(x.dtype, [None] * x.ndim if open_shape else x.shape)
        result = function(fed)
    return hr.Session(graph).run(result, feeds={fed: x})


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["sum", "prod"])
def test_scans_agree_with_numpy(ours, theirs, axis, initial, open_shape):
    result = run(lambda x: ours(x, axis=axis, include_initial=initial), X, open_shape)
    np.testing.assert_array_equal(result, theirs(X, axis=axis, include_initial=initial))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["sum", "prod"])
def test_scans_of_vectors_need_no_axis(ours, theirs):
    x = X[0, 0]
    np.testing.assert_array_equal(run(ours, x), theirs(x))
    assert run(lambda x: ours(x, include_initial=True), np.zeros(0)).tolist() == [float(theirs is np.cumulative_prod)]
    with hr.Graph().as_default(), pytest.raises(hr.errors.InvalidArgumentError, match="the axis must be given"):
        ours(X)


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [(np.bool_, np.int32), (np.int8, np.int32), (np.int16, np.int32), (np.int64, np.int64), (np.uint8, np.uint32),
     (np.uint16, np.uint32), (np.uint64, np.uint64), (np.float32, np.float32)],
)  # fmt: skip
@pytest.mark.parametrize("function", [hr.sum, hr.prod, hr.cumulative_sum, hr.cumulative_prod])
def test_narrow_integers_are_counted_in_the_default_dtype(function, dtype, wanted):
    x = np.array([1, 1, 1], dtype)
    assert run(function, x).dtype == wanted
    assert run(lambda x: function(x, dtype=hr.float64), x).dtype == np.float64


def test_sums_of_narrow_integers_do_not_wrap():
    assert run(hr.sum, np.full(3, 100, np.int8)) == 300
    assert run(hr.prod, np.full(3, 100, np.uint8)) == 1_000_000
    assert run(lambda x: hr.sum(x, dtype=hr.int8), np.full(3, 100, np.int8)) == 44


def test_reversed_scans_end_with_the_initial_value():
    result = run(lambda x: hr.cumulative_sum(x, reverse=True, include_initial=True), np.array([1, 2, 3]))
    assert result.tolist() == [6, 5, 3, 0]


def test_a_scan_has_one_beginning():
    with hr.Graph().as_default(), pytest.raises(hr.errors.InvalidArgumentError, match="include_initial or exclusive"):
        hr.cumulative_sum([1], include_initial=True, exclusive=True)


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_diff_agrees_with_numpy(axis, n, open_shape):
    result = run(lambda x: hr.diff(x, axis=axis, n=n), X, open_shape)
    np.testing.assert_array_equal(result, np.diff(X, n, axis))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.float32, np.complex64])
def test_diff_of_every_kind(dtype):
    x = np.array([1, 0, 3, 3]).astype(dtype)
    result = run(hr.diff, x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.diff(x))


def test_diff_takes_what_comes_before_and_after():
    before, after = np.zeros((2, 1, 4)), np.ones((2, 2, 4))
    result = run(lambda x: hr.diff(x, axis=1, prepend=before, append=after), X)
    np.testing.assert_array_equal(result, np.diff(X, axis=1, prepend=before, append=after))


def test_diff_says_what_does_not_fit():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match="number of differences is negative"):
            hr.diff([1], n=-1)
        with pytest.raises(hr.errors.InvalidArgumentError, match="axis is out of range"):
            hr.diff([1], axis=1)
        with pytest.raises(hr.errors.ShapeError, match="diff needs more axes"):
            hr.diff(1)


def test_gradients_of_scans_and_differences_agree_with_central_differences():
    check_gradient(lambda xs: [hr.cumulative_sum(xs[0], axis=1, include_initial=True)], [X])
    check_gradient(lambda xs: [hr.cumulative_prod(xs[0], axis=-1, include_initial=True)], [X])
    check_gradient(lambda xs: [hr.diff(xs[0], axis=1, n=2)], [X])
