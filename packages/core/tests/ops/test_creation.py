"""hr.asarray, hr.empty, hr.tril and hr.triu against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient


def run(function, x, open_shape=False):
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(x.dtype, [None] * x.ndim if open_shape else x.shape)
        result = function(fed)
    return hr.Session(graph).run(result, feeds={fed: x})


@pytest.mark.parametrize("dtype", [None, hr.float16, hr.int64, hr.complex64])
def test_asarray_of_python_values(dtype):
    with hr.Graph().as_default() as graph:
        result = hr.asarray([[1, 2], [3, 4]], dtype=dtype)
    value = hr.Session(graph).run(result)
    assert value.tolist() == [[1, 2], [3, 4]]
    assert value.dtype == (np.int32 if dtype is None else dtype.array_type)


def test_asarray_converts_arrays_tensors_and_variables():
    with hr.Graph().as_default() as graph:
        values = [
            hr.asarray(np.array([1.7]), dtype=hr.int32),
            hr.asarray(hr.constant([1.7]), dtype=hr.int32),
            hr.asarray(hr.Variable([1.7]), dtype=hr.int32),
            hr.asarray([hr.constant(1.7)]),
        ]
        same = hr.constant(1)
        assert hr.asarray(same, dtype=hr.int32) is same
        assert hr.asarray(same, copy=True) is same
    results = hr.Session(graph).run(values)
    assert [value.tolist() for value in results[:3]] == [[1], [1], [1]]
    assert results[3].dtype == np.float32


def test_asarray_refuses_what_a_dtype_cannot_hold():
    with hr.Graph().as_default(), pytest.raises(hr.errors.DTypeError, match="does not fit the dtype"):
        hr.asarray([1.5], dtype=hr.int32)


def test_empty_tensors_are_the_same_every_time():
    with hr.Graph().as_default() as graph:
        results = [hr.empty([2, 3]), hr.empty(2, hr.bool), hr.empty_like([1, 2]), hr.empty_like([1], dtype=hr.float64)]
    values = hr.Session(graph).run(results)
    assert [(value.shape, value.dtype.name) for value in values] == [
        ((2, 3), "float32"), ((2,), "bool"), ((2,), "int32"), ((1,), "float64"),
    ]  # fmt: skip
    assert not any(value.any() for value in values)


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("k", [-4, -2, -1, 0, 1, 2, 5])
@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3), (3, 0)], ids=str)
def test_triangles_agree_with_numpy(name, k, shape, open_shape):
    x = np.random.default_rng(1).integers(1, 9, shape).astype(np.float32)
    result = run(lambda x: getattr(hr, name)(x, k=k), x, open_shape)
    np.testing.assert_array_equal(result, getattr(np, name)(x, k))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.complex64])
def test_triangles_of_every_kind(dtype):
    x = np.ones((3, 3), dtype)
    result = run(hr.tril, x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.tril(x))


def test_what_lies_outside_a_triangle_is_zero_even_if_it_was_not_a_number():
    assert run(hr.tril, np.array([[1, np.inf], [2, np.nan]]))[0].tolist() == [1, 0]


def test_a_vector_has_no_triangle():
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="triu needs more axes"):
        hr.triu([1, 2])


def test_gradients_of_triangles():
    check_gradient(lambda xs: [hr.tril(xs[0], k=1), hr.triu(xs[0])], [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])
