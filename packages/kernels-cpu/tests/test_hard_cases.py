"""Inputs that broke other compilers (group 8 of the hard cases): interpreted, compiled, fused, at lengths 1 to 33."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr

NAN, INF = float("nan"), float("inf")
LENGTHS = [1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33]


def ways(build: Callable[..., Any], *arrays: Any) -> list[Any]:
    """The result on the NumPy backend, compiled alone, and fused with a neighbour that reads and one that writes."""
    found = []
    for backend, fused in (("numpy", False), ("cpu", False), ("cpu", True)):
        graph = hr.Graph()
        with graph.as_default():
            inputs = [hr.placeholder(array.dtype, array.shape) for array in arrays]
            given = [hr.where(x == x, x, x) if fused and x.dtype.is_floating else x for x in inputs]
            result = build(*given)
            outputs = [result, hr.identity(result) + result] if fused and result.dtype.is_floating else [result]
        with hr.Session(graph, config=hr.config(backend=backend)) as session:
            found.append(session.run(outputs, feeds=dict(zip(inputs, arrays, strict=True)))[0])
    return found


def check(build: Callable[..., Any], wanted: Any, *arrays: Any, rtol: float = 0.0) -> None:
    for value in ways(build, *arrays):
        np.testing.assert_allclose(value, wanted, rtol=rtol, atol=0)
        if value.dtype.kind == "f":
            signs = np.signbit(np.broadcast_to(wanted, value.shape))
            np.testing.assert_array_equal(np.signbit(value)[~np.isnan(value)], signs[~np.isnan(value)])


def filled(values: list[float], length: int) -> Any:
    return np.resize(np.array(values, np.float32), length)


@pytest.mark.parametrize("length", LENGTHS)
def test_C01_nan_survives_max_min_and_relu(length: int) -> None:
    x = filled([NAN, 1, 3, 2], length)
    for build in (hr.max, hr.min):
        check(lambda t, f=build: f(t, axis=0), NAN, x)
    five = np.full(length, 5, np.float32)
    nans = np.full(length, NAN, np.float32)
    for f in (hr.maximum, hr.minimum):
        check(f, nans, five, nans)
        check(f, nans, nans, five)
    for g in (hr.nn.relu, hr.nn.relu6, lambda t: hr.clip(t, 0.0, 1.0)):
        check(g, nans, nans)


def test_C01_nan_survives_a_product_with_relu_behind_it() -> None:
    a = np.array([[NAN, 1.0], [1.0, 1.0]], np.float32)
    wanted = [[NAN, NAN], [2.0, 2.0]]
    check(lambda x, y: hr.nn.relu(x @ y), wanted, a, np.ones((2, 2), np.float32))


@pytest.mark.parametrize("length", LENGTHS)
def test_C03_nothing_is_folded_that_infinities_forbid(length: int) -> None:
    x = filled([1, INF, NAN, 0, -2], length)
    check(lambda t: t * 0.0, filled([0, NAN, NAN, 0, -0.0], length), x)
    check(lambda t: t - t, filled([0, NAN, NAN, 0, 0], length), x)
    for value in ways(lambda t: t / t, x):
        np.testing.assert_array_equal(value, filled([1, NAN, NAN, NAN, 1], length))
    for value in ways(lambda t: hr.constant(np.float32(0)) / t, x):
        np.testing.assert_array_equal(value, filled([0, 0, NAN, NAN, -0.0], length))


def test_C05_a_reciprocal_twice_is_no_identity() -> None:
    x = np.array([7, 49, 0], np.float32)
    one = np.float32(1)
    with np.errstate(divide="ignore"):
        check(lambda t: hr.reciprocal(hr.reciprocal(t)), one / (one / x), x)


def test_C07_a_gate_of_another_tensor_is_no_swish() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        a, b = hr.split(x, 2, axis=2)
        result: hr.Tensor = hr.sigmoid(a) * b
        return result

    check(build, [[[2.6423912]]], np.array([[[2, 3]]], np.float32), rtol=1e-6)


@pytest.mark.parametrize("length", range(15, 19))
def test_C09_reductions_start_from_the_right_element(length: int) -> None:
    x = np.array([5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80], np.uint8)[:length]
    check(lambda t: hr.min(t, axis=0), 1, x)
    check(lambda t: hr.argmin(t, axis=0), 1, x)
    low = -x.astype(np.int8)
    check(lambda t: hr.max(t, axis=0), -1, low)
    check(lambda t: hr.argmax(t, axis=0), 1, low)


@pytest.mark.parametrize("dtype", [hr.float32, hr.bfloat16])
def test_C11_tanh_stays_within_one(dtype: hr.DType) -> None:
    x = np.append(np.arange(7, 9.1, 0.001), -8.51089).astype(np.float32)
    for value in ways(lambda t: hr.astype(hr.tanh(hr.astype(t, dtype)), hr.float32), x):
        assert np.abs(value).max() <= 1


@pytest.mark.parametrize("length", LENGTHS)
def test_C13_denormals_are_numbers(length: int) -> None:
    tiny = np.full(length, 1e-40, np.float32)
    check(hr.log, np.full(length, np.log(np.float64(np.float32(1e-40)))), tiny, rtol=1e-6)
    check(hr.sqrt, np.full(length, 1e-20), tiny, rtol=1e-5)
    check(hr.rsqrt, np.full(length, 1e20), tiny, rtol=1e-5)
    check(lambda t: t * 1e5, np.full(length, 1e-35), tiny, rtol=1e-5)
    least = np.full(length, np.nextafter(np.float32(0), np.float32(1)))
    check(lambda t: t * INF, np.full(length, INF), least)
    check(lambda t: hr.equal(t, 0.0), np.zeros(length, np.bool_), tiny)


def test_C13_library_threads_leave_denormals_alone() -> None:
    x = np.ones((64, 64), np.float32)
    tiny = np.full((64, 64), 1e-40, np.float32)
    check(lambda a, b: (a @ a) * 0.0 + b * 1e5, np.full((64, 64), 1e-35), x, tiny, rtol=1e-5)


def test_C15_softmax_far_from_zero() -> None:
    check(hr.nn.softmax, np.ones((10, 1)), np.full((10, 1), -1.7e14, np.float32))
    check(hr.nn.softmax, np.full((1, 10), 0.1), np.full((1, 10), 3e38, np.float32), rtol=1e-6)
    row = np.array([[-INF, 0, 1]], np.float32)
    check(hr.nn.softmax, [[0, 0.26894143, 0.7310586]], row, rtol=1e-6)
    for value in ways(hr.nn.softmax, np.full((1, 2), -INF, np.float32)):
        assert np.isnan(value).all()


def test_C17_long_sums_keep_their_digits() -> None:
    check(hr.sum, 77160, np.full((250, 250), 1.23456, np.float32), rtol=1e-5)
    check(hr.sum, 100_000, np.full(10**6, 0.1, np.float32), rtol=1e-5)


def test_C17_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 70)).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        graph = hr.Graph()
        with graph.as_default():
            p = hr.placeholder(hr.float32, x.shape)
            outputs = [hr.sum(p), hr.sum(p, axis=0), hr.sum(p, axis=1), hr.nn.softmax(p), hr.mean(hr.exp(p))]
        options = hr.config(backend="cpu", threads=threads, deterministic=True)
        with hr.Session(graph, config=options) as session:
            found.append([value.tobytes() for value in session.run(outputs, feeds={p: x})])
    assert found[0] == found[1] == found[2]


def test_O25_floats_that_do_not_fit_an_integer() -> None:
    low = np.iinfo(np.int32).min
    for length in (5, 8, 13, 33):
        x = filled([NAN, INF, -INF, 3e9, -1.7], length)
        check(lambda t: hr.astype(t, hr.int32), np.resize([low, low, low, low, -1], length), x)
