"""Signs, neighbours, lengths and logarithms of floating point numbers against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.testing import assert_close, check_gradient

NARROW = [np.float16, ml_dtypes.bfloat16]
DTYPES = [*NARROW, np.float32, np.float64]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, np.inf, -np.inf, np.nan, -np.nan]


def run(function, *arrays):
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(array.dtype, array.shape) for array in arrays]
        result = function(*inputs)
    return hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))


def pairs(dtype):
    x, y = np.meshgrid(np.array(SPECIAL), np.array(SPECIAL))
    return x.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_signbit_sees_the_sign_of_zeros_and_nan(dtype):
    x = np.array(SPECIAL, np.float64).astype(dtype)
    np.testing.assert_array_equal(run(hr.signbit, x), np.signbit(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_copysign_agrees_with_numpy(dtype):
    x, y = pairs(dtype)
    result = run(hr.copysign, x, y)
    assert result.dtype == dtype
    assert result.tobytes() == np.copysign(x, y).astype(dtype).tobytes()


def test_copysign_broadcasts_and_promotes():
    result = run(lambda x: hr.copysign(x, [[-1.0], [1.0]]), np.array([1.0, -2.0]))
    np.testing.assert_array_equal(result, [[-1.0, -2.0], [1.0, 2.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter_agrees_with_numpy(dtype):
    x, y = pairs(dtype)
    np.testing.assert_array_equal(run(hr.nextafter, x, y), np.nextafter(x, y))


@pytest.mark.parametrize("dtype", DTYPES)
def test_hypot_agrees_with_numpy(dtype):
    x, y = pairs(dtype)
    result = run(hr.hypot, x, y)
    assert result.dtype == dtype
    assert_close(result, np.hypot(x.astype(np.float64), y.astype(np.float64)), what="hypot")


def test_hypot_neither_overflows_nor_vanishes():
    x = np.array([1e300, 1e-300, 3.0])
    np.testing.assert_allclose(run(hr.hypot, x, x), np.hypot(x, x), rtol=1e-15)
    huge = np.array([6e4], np.float16)
    assert run(hr.hypot, huge, np.array([1], np.float16)) == huge


@pytest.mark.parametrize("dtype", DTYPES)
def test_logaddexp_agrees_with_numpy(dtype):
    x, y = pairs(dtype)
    result = run(hr.logaddexp, x, y)
    assert result.dtype == dtype
    with np.errstate(invalid="ignore"):
        assert_close(result, np.logaddexp(x.astype(np.float64), y.astype(np.float64)), what="logaddexp")


def test_logaddexp_keeps_what_is_small_beside_zero():
    result = run(hr.logaddexp, np.array([0.0, -40.0, 1.0]), np.array([-40.0, 0.0, -1e10]))
    np.testing.assert_allclose(result, [np.exp(-40), np.exp(-40), 1.0], rtol=1e-15)


@pytest.mark.parametrize("function", ["log2", "log10"])
@pytest.mark.parametrize("dtype", [*DTYPES, np.complex64, np.complex128])
def test_logarithms_agree_with_numpy(function, dtype):
    x = np.array([0.25, 0.5, 1.0, 2.0, 3.0, 10.0, 100.0, 1e4], np.float64).astype(dtype)
    result = run(getattr(hr, function), x)
    assert result.dtype == dtype
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    assert_close(result, getattr(np, function)(x.astype(wide)), what=function)


@pytest.mark.parametrize("function", ["log2", "log10"])
def test_logarithms_of_special_values(function):
    x = np.array([0.0, -0.0, 1.0, np.inf, np.nan, -1.0])
    np.testing.assert_array_equal(run(getattr(hr, function), x), [-np.inf, -np.inf, 0.0, np.inf, np.nan, np.nan])
    assert run(getattr(hr, function), np.array([complex(np.inf, 0)])).real == np.inf


@pytest.mark.parametrize("function", [hr.copysign, hr.hypot, hr.logaddexp, hr.nextafter])
def test_empty_tensors_and_scalars(function):
    assert run(function, np.zeros((0, 3)), np.zeros(3)).shape == (0, 3)
    assert run(function, np.float64(1.0), np.float64(2.0)).shape == ()


@pytest.mark.parametrize("function", [hr.copysign, hr.hypot, hr.logaddexp])
def test_integers_are_refused(function):
    with hr.Graph().as_default(), pytest.raises(hr.errors.DTypeError, match="takes floating numbers"):
        function(1, 2)


def test_signbit_of_integers_is_refused():
    with hr.Graph().as_default(), pytest.raises(hr.errors.DTypeError, match="signbit takes floating numbers"):
        hr.signbit([1, 2])


@pytest.mark.parametrize("function", [hr.hypot, hr.logaddexp])
def test_gradients_by_both(function):
    check_gradient(lambda xs: [function(xs[0], xs[1])], [[1.0, -2.0, 3.0], [2.0, 0.5, -1.0]])


def test_copysign_has_a_gradient_by_x_only():
    with hr.Graph().as_default() as graph:
        x, y = hr.constant([1.0, -2.0, 3.0]), hr.constant([-1.0, -1.0, 1.0])
        by_x, by_y = hr.gradients(hr.copysign(x, y), [x, y])
    assert by_y is None
    np.testing.assert_array_equal(hr.Session(graph).run(by_x), [-1.0, 1.0, 1.0])


def test_equal_operands_of_logaddexp_share_the_gradient():
    check_gradient(lambda xs: [hr.logaddexp(xs[0], xs[1])], [[2.0, 0.0], [2.0, 0.0]])


def test_gradient_of_hypot_at_zero_is_zero():
    with hr.Graph().as_default() as graph:
        x = hr.constant(0.0)
        slope = hr.gradients(hr.hypot(x, 0.0), [x])
    assert hr.Session(graph).run(slope) == [0.0]


@pytest.mark.parametrize("function", [hr.log2, hr.log10])
def test_gradients_of_logarithms(function):
    check_gradient(lambda xs: [function(xs[0])], [[0.5, 2.0, 30.0]])
