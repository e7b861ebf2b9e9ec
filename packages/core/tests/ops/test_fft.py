"""Discrete Fourier transforms against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient
from headrace.testing.reference import numbers

NORMS = ["backward", "ortho", "forward"]
CLOSE = {"complex64": 2e-6, "float32": 2e-6, "complex128": 1e-13, "float64": 1e-13}
CUBE = numbers("complex128", 3, 4, 5)


def run(function, x, open_shape=False):
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(x.dtype, [None] * x.ndim if open_shape else x.shape)
        result = function(fed)
    return hr.Session(graph).run(result, feeds={fed: x})


def assert_same(actual, wanted):
    assert actual.dtype == wanted.dtype
    close = CLOSE[actual.dtype.name]
    np.testing.assert_allclose(actual, wanted, rtol=close, atol=20 * close)


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("n", [None, 2, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transform_of_one_axis_agrees_with_numpy(name, n, axis, norm, open_shape):
    x = CUBE.real if name in ("rfft", "ihfft") else CUBE
    result = run(lambda x: getattr(hr.fft, name)(x, n=n, axis=axis, norm=norm), x, open_shape)
    assert_same(result, getattr(np.fft, name)(x, n, axis, norm))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_precision_is_that_of_the_input(name):
    x = CUBE.real.astype(np.float32) if name in ("rfft", "ihfft") else CUBE.astype(np.complex64)
    assert_same(run(getattr(hr.fft, name), x), getattr(np.fft, name)(x))


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("s", "axes"), [(None, None), (None, [0]), (None, [-1, 0]), ([2, 6], [1, 2]), ([3, 5, 8], [2, 0, 1])], ids=str
)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transform_of_several_axes_agrees_with_numpy(name, s, axes, norm, open_shape):
    x = CUBE.real if name == "rfftn" else CUBE
    result = run(lambda x: getattr(hr.fft, name)(x, s=s, axes=axes, norm=norm), x, open_shape)
    assert_same(result, getattr(np.fft, name)(x, s, axes, norm))


def test_lengths_without_axes_are_those_of_the_last_ones():
    assert_same(run(lambda x: hr.fft.fftn(x, s=[2, 6]), CUBE), np.fft.fftn(CUBE, [2, 6], [-2, -1]))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_real_numbers_become_complex(dtype):
    x = np.arange(6).astype(dtype)
    assert_same(run(hr.fft.fft, x), np.fft.fft(x.astype(np.float32 if dtype is np.int32 else dtype)))


def test_inverses_give_the_numbers_back():
    x = CUBE.real
    np.testing.assert_allclose(run(lambda x: hr.fft.irfft(hr.fft.rfft(x), n=5), x), x, atol=1e-14)
    np.testing.assert_allclose(run(lambda x: hr.fft.irfftn(hr.fft.rfftn(x), s=[3, 4, 5]), x), x, atol=1e-14)
    np.testing.assert_allclose(run(lambda x: hr.fft.ifftn(hr.fft.fftn(x)), CUBE), CUBE, atol=1e-14)


def test_transforms_of_nothing():
    assert run(hr.fft.fft, np.zeros((2, 0), np.complex64)).shape == (2, 0)
    assert run(hr.fft.rfft, np.zeros((0, 4), np.float32)).shape == (0, 3)
    assert run(lambda x: hr.fft.rfft(x, n=4), np.zeros((2, 0), np.float32)).shape == (2, 3)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_agree_with_numpy(name, n):
    with hr.Graph().as_default() as graph:
        result = [getattr(hr.fft, name)(n, d=0.5, dtype=dtype) for dtype in (hr.float64, hr.float32)]
    wide, narrow = hr.Session(graph).run(result)
    np.testing.assert_array_equal(wide, getattr(np.fft, name)(n, 0.5))
    assert narrow.dtype == np.float32


@pytest.mark.parametrize("open_shape", [False, True])
@pytest.mark.parametrize("axes", [None, 1, (0, 2), -1, ()], ids=str)
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts_agree_with_numpy(name, axes, open_shape):
    result = run(lambda x: getattr(hr.fft, name)(x, axes=axes), CUBE.real, open_shape)
    np.testing.assert_array_equal(result, getattr(np.fft, name)(CUBE.real, axes))


def test_what_does_not_fit_is_said():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match=r"the norm is not known(.|\n)*'sideways'"):
            hr.fft.fft([1.0], norm="sideways")
        for wrong in (lambda: hr.fft.fft([1.0], n=0), lambda: hr.fft.rfft([1.0], n=-1), lambda: hr.fft.fftfreq(0)):
            with pytest.raises(hr.errors.InvalidArgumentError, match="length of a transform must be positive"):
                wrong()
        with pytest.raises(hr.errors.InvalidArgumentError, match=r"rfft transforms real numbers(.|\n)*hr.fft.fft"):
            hr.fft.rfft([1j])
        with pytest.raises(hr.errors.InvalidArgumentError, match="one length for each axis"):
            hr.fft.fftn(CUBE, s=[2], axes=[0, 1])
        with pytest.raises(hr.errors.ShapeError, match="axis is given twice"):
            hr.fft.fftn(CUBE, axes=[0, 0])
        with pytest.raises(hr.errors.ShapeError, match="rank >= 1"):
            hr.fft.fft(1.0)


def parts(tensor):
    return [hr.real(tensor), hr.imag(tensor)]


@pytest.mark.parametrize("n", [None, 3, 4, 7, 8])
@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft"])
def test_gradients_by_both_parts(name, n):
    def build(xs):
        return parts(getattr(hr.fft, name)(hr.complex(xs[0], xs[1]), n=n))

    check_gradient(build, [CUBE[0].real, CUBE[0].imag])


@pytest.mark.parametrize("n", [None, 3, 4, 7, 8])
@pytest.mark.parametrize("name", ["rfft", "ihfft"])
def test_gradients_by_real_numbers(name, n):
    check_gradient(lambda xs: parts(getattr(hr.fft, name)(xs[0], n=n, norm="ortho")), [CUBE[0].real])


def test_gradients_along_several_axes():
    check_gradient(lambda xs: parts(hr.fft.rfftn(xs[0])), [CUBE[0].real])


@pytest.mark.parametrize("op", ["FFT2D", "IFFT2D", "FFT3D", "IFFT3D"])
def test_gradients_of_what_transforms_several_axes(op):
    def build(xs):
        whole = hr.apply_op("Complex", *xs, Tout=hr.complex128)
        return parts(hr.apply_op(op, whole, Tcomplex=hr.complex128))

    check_gradient(build, [CUBE.real, CUBE.imag])
