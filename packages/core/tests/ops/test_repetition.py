"""hr.broadcast_arrays, hr.meshgrid and hr.repeat against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient


def run(function, *arrays, open_shapes=False):
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(x.dtype, [None] * x.ndim if open_shapes else x.shape) for x in arrays]
        result = function(*inputs)
    return hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))


SHAPES = [[(2, 1), (3,)], [(2, 3), (2, 3)], [(), (2,), (4, 1)], [(0, 1), (3,)], [(5,)], [(1,), ()]]


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcast_arrays_agrees_with_numpy(shapes, open_shapes):
    arrays = [
        np.random.default_rng(i).normal(size=shape).astype([np.float32, np.int8][i % 2])
        for i, shape in enumerate(shapes)
    ]
    results = run(hr.broadcast_arrays, *arrays, open_shapes=open_shapes)
    for result, wanted, array in zip(results, np.broadcast_arrays(*arrays), arrays, strict=True):
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, wanted)


def test_broadcast_arrays_of_nothing_is_nothing():
    with hr.Graph().as_default():
        assert hr.broadcast_arrays() == []


def test_broadcast_arrays_refuses_other_shapes():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="do not broadcast together"):
        hr.broadcast_arrays([1, 2], [1, 2, 3])


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_meshgrid_agrees_with_numpy(count, indexing, open_shapes):
    vectors = [np.arange(size) + 10 * size for size in range(2, 2 + count)]
    results = run(lambda *xs: hr.meshgrid(*xs, indexing=indexing), *vectors, open_shapes=open_shapes)
    for result, wanted in zip(results, np.meshgrid(*vectors, indexing=indexing), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_meshgrid_takes_scalars_and_empty_vectors():
    for result, wanted in zip(
        run(hr.meshgrid, np.float32(1), np.zeros(0)), np.meshgrid(np.float32(1), np.zeros(0)), strict=True
    ):
        assert result.shape == wanted.shape


def test_meshgrid_says_what_it_does_not_take():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match="the indexing is not known"):
            hr.meshgrid([1], indexing="yx")
        with pytest.raises(hr.errors.ShapeError, match="meshgrid takes vectors"):
            hr.meshgrid([[1]])


CUBE = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize(
    ("repeats", "axis"),
    [(2, None), (0, None), (3, 0), (2, 1), (2, -1), ([2, 0], 0), ([1, 3, 0], 1), ([1, 0, 0, 2], -1), ([2], 1)],
    ids=str,
)
def test_repeat_agrees_with_numpy(repeats, axis, open_shapes):
    result = run(lambda x: hr.repeat(x, repeats, axis=axis), CUBE, open_shapes=open_shapes)
    np.testing.assert_array_equal(result, np.repeat(CUBE, repeats, axis))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_repeat_takes_numbers_that_are_computed(dtype):
    counts = np.array([2, 0, 1], dtype)
    result = run(lambda x, n: hr.repeat(x, n, axis=1), CUBE, counts)
    np.testing.assert_array_equal(result, np.repeat(CUBE, counts, 1))
    assert run(lambda x, n: hr.repeat(x, n), np.float32(7), np.array(2, dtype)).tolist() == [7, 7]


def test_computed_numbers_below_zero_count_as_none():
    assert run(lambda x, n: hr.repeat(x, n), np.array([1, 2, 3]), np.array([1, -5, 2])).tolist() == [1, 3, 3]


def test_repeat_of_strings_and_of_nothing():
    assert run(lambda x: hr.repeat(x, 2), np.array([b"a", b""], object)).tolist() == [b"a", b"a", b"", b""]
    assert run(lambda x: hr.repeat(x, 2, axis=0), np.zeros((0, 3))).shape == (0, 3)
    assert run(lambda x: hr.repeat(x, [], axis=0), np.zeros((0, 3))).shape == (0, 3)


def test_repeat_says_what_does_not_fit():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match="number of repetitions is negative"):
            hr.repeat([1, 2], -1)
        with pytest.raises(hr.errors.DTypeError, match="must be integers"):
            hr.repeat([1, 2], 1.5)
        with pytest.raises(hr.errors.DTypeError, match="must be integers"):
            hr.repeat([1, 2], hr.constant([1.0, 2.0]))
        with pytest.raises(hr.errors.ShapeError, match="one number for each slice"):
            hr.repeat([1, 2], [1, 2, 3])


def test_gradients_add_what_was_repeated():
    check_gradient(lambda xs: [hr.repeat(xs[0], [2, 0, 1], axis=1)], [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])
    check_gradient(lambda xs: hr.meshgrid(xs[0], xs[1]), [[1.0, 2.0], [3.0, 4.0, 5.0]])
