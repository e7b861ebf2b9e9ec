"""Gradients of reductions, scans, segments, Einstein sums and factorisations beyond what the cases check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import GradientError
from headrace.testing import check_gradient


def gradient_of(function: Callable[..., Any], *points: Any, dtype: hr.DType = hr.float64) -> Any:
    """The gradients of a function of constants."""
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.constant(point, dtype) for point in points]
        found = hr.gradients(function(*inputs), inputs)
    return hr.Session(graph).run(found)


@pytest.mark.parametrize("dtype", [hr.float32, hr.float64])
@pytest.mark.parametrize("function", [hr.linalg.vector_norm])
@pytest.mark.parametrize(
    ("point", "expected"), [([0.0, 0.0], [0, 0]), ([1e-19, 0.0], [1, 0]), ([3.0, 4.0], [0.6, 0.8])]
)
def test_g01_gradient_of_the_norm_is_finite(function: Any, dtype: hr.DType, point: Any, expected: Any) -> None:
    np.testing.assert_allclose(gradient_of(function, point, dtype=dtype)[0], expected, rtol=1e-6)


@pytest.mark.parametrize(("point", "expected"), [([0.0, 2.0], [2, 0]), ([0.0, 0.0, 3.0], [0, 0, 0]), ([0.0], [1])])
def test_g03_gradient_of_a_product_with_zeros(point: Any, expected: Any) -> None:
    np.testing.assert_array_equal(gradient_of(hr.prod, point)[0], expected)


@pytest.mark.parametrize(("x", "y"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (2.0, 3.0)])
def test_g03_mixed_second_derivative_of_a_product_is_one(x: float, y: float) -> None:
    graph = hr.Graph()
    with graph.as_default():
        first, second = hr.constant(x), hr.constant(y)
        product = hr.prod(hr.stack([first, second]))
        by_first, by_second = hr.gradients(product, [first, second])
        mixed = [hr.gradients(by_first, [second])[0], hr.gradients(by_second, [first])[0]]
    assert hr.Session(graph).run(mixed) == [1.0, 1.0]


def test_g05_the_largest_elements_share_the_gradient() -> None:
    np.testing.assert_array_equal(gradient_of(hr.max, [0.6, 0.6, 0.3])[0], [0.5, 0.5, 0])
    np.testing.assert_array_equal(gradient_of(hr.min, [0.6, 0.3, 0.3])[0], [0, 0.5, 0.5])


@pytest.mark.parametrize("function", [hr.segment_max, hr.segment_min])
def test_equal_rows_of_a_segment_share_the_gradient(function: Any) -> None:
    found = gradient_of(lambda x: function(x, [0, 0, 1]), [2.0, 2.0, 7.0])[0]
    np.testing.assert_array_equal(found, [0.5, 0.5, 1])


@pytest.mark.parametrize("function", [hr.unsorted_segment_max, hr.unsorted_segment_min])
def test_equal_rows_of_an_unsorted_segment_share_the_gradient(function: Any) -> None:
    found = gradient_of(lambda x: function(x, [1, -1, 1, 0], 3), [2.0, 2.0, 2.0, 7.0])[0]
    np.testing.assert_array_equal(found, [0.5, 0, 0.5, 1])


@pytest.mark.parametrize("function", [hr.sum, hr.mean, hr.max, hr.linalg.vector_norm])
@pytest.mark.parametrize("axis", [0, -1, [0, 1], None])
@pytest.mark.parametrize("rank_known", [True, False])
def test_reductions_are_differentiable_without_static_shapes(function: Any, axis: Any, rank_known: bool) -> None:
    values = np.random.default_rng(0).uniform(1, 2, (2, 3))
    static, dynamic = hr.Graph(), hr.Graph()
    with static.as_default():
        x = hr.constant(values)
        expected = hr.Session(static).run(hr.gradients(function(x, axis=axis), [x]))[0]
    with dynamic.as_default():
        y = hr.placeholder(hr.float64, [None, None] if rank_known else None)
        axes = hr.placeholder(hr.int32, [None]) if isinstance(axis, list) else axis
        found = hr.gradients(function(y, axis=axes), [y])
    feeds = {y: values} | ({axes: np.array(axis, np.int32)} if isinstance(axis, list) else {})
    np.testing.assert_allclose(hr.Session(dynamic).run(found, feeds=feeds)[0], expected, rtol=1e-12)


def test_gradient_of_a_product_along_unknown_axes_says_what_is_missing() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [2, 3])
        product = hr.prod(x, axis=hr.placeholder(hr.int32, [None]))
        with pytest.raises(GradientError, match="axes that are not known"):
            hr.gradients(product, [x])


def test_gradient_of_a_running_product_of_unknown_length_says_what_is_missing() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [None])
        with pytest.raises(GradientError, match="an axis whose size is not known"):
            hr.gradients(hr.cumulative_prod(x), [x])


@pytest.mark.parametrize("reverse", [False, True])
def test_exclusive_log_sum_exp_is_differentiable_where_it_is_finite(reverse: bool) -> None:
    def build(xs: Any) -> Any:
        y = hr.cumulative_logsumexp(xs[0], exclusive=True, reverse=reverse)
        return [y[:-1] if reverse else y[1:]]

    check_gradient(build, [[0.3, -1.0, 2.0, 0.5]])


@pytest.mark.parametrize("function", [hr.logsumexp, hr.std, hr.var])
def test_composed_reductions_are_differentiable(function: Any) -> None:
    check_gradient(lambda xs: [function(xs[0], axis=1)], [[[0.3, -1.0, 2.0], [0.1, 0.4, -0.7]]])


def test_cholesky_gradient_is_that_of_symmetric_matrices() -> None:
    base = np.array([[2.0, 0.3, -0.2], [0.1, 1.5, 0.4], [0.2, -0.3, 1.8]])

    def build(xs: Any) -> Any:
        symmetric = hr.matmul(xs[0], xs[0], transpose_b=True)
        return [hr.linalg.cholesky(symmetric)]

    check_gradient(build, [base])


@pytest.mark.parametrize("op_type", ["MatrixInverse", "MatrixDeterminant", "Cholesky"])
def test_complex_factorisations_are_differentiable(op_type: str) -> None:
    real, imag = np.array([[2.0, 0.3], [0.1, 1.5]]), np.array([[0.1, 0.4], [-0.3, 0.2]])

    def build(xs: Any) -> Any:
        x = hr.complex(xs[0], xs[1])
        x = hr.apply_op("BatchMatMulV2", x, x, adj_y=True) if op_type == "Cholesky" else x
        y = hr.apply_op(op_type, x)
        return [hr.real(y), hr.imag(y)]

    check_gradient(build, [real, imag])


@pytest.mark.parametrize("adjoint", [False, True])
def test_complex_solutions_are_differentiable(adjoint: bool) -> None:
    parts = [np.array([[2.0, 0.3], [0.1, 1.5]]), np.array([[0.1, 0.4], [-0.3, 0.2]]), np.array([[1.0], [2.0]])]

    def build(xs: Any) -> Any:
        x = hr.apply_op("MatrixSolve", hr.complex(xs[0], xs[1]), hr.complex(xs[2], xs[2]), adjoint=adjoint)
        return [hr.real(x), hr.imag(x)]

    check_gradient(build, parts)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ii,ij->j", "...i,...i->...", "ij->"])
def test_complex_einstein_sums_are_differentiable(equation: str) -> None:
    count = 1 + equation.count(",")
    parts = [np.random.default_rng(seed).normal(size=(2, 2)) for seed in range(2 * count)]

    def build(xs: Any) -> Any:
        y = hr.einsum(equation, *(hr.complex(xs[2 * index], xs[2 * index + 1]) for index in range(count)))
        return [hr.real(y), hr.imag(y)]

    check_gradient(build, parts)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_complex_matrix_products_are_differentiable(first: bool, second: bool) -> None:
    parts = [np.random.default_rng(seed).normal(size=(2, 2)) for seed in range(4)]

    def build(xs: Any) -> Any:
        y = hr.matmul(hr.complex(xs[0], xs[1]), hr.complex(xs[2], xs[3]), transpose_a=first, transpose_b=second)
        return [hr.real(y), hr.imag(y)]

    check_gradient(build, parts)


def test_einstein_sums_are_differentiable_without_static_sizes() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x, y = hr.placeholder(hr.float64, [None, None, None]), hr.placeholder(hr.float64, [None, None])
        found = hr.gradients(hr.einsum("...ij,jk->...i", x, y), [x, y])
    a, b = np.random.default_rng(0).normal(size=(2, 3, 4)), np.random.default_rng(1).normal(size=(4, 2))
    dx, dy = hr.Session(graph).run(found, feeds={x: a, y: b})
    np.testing.assert_allclose(dx, np.broadcast_to(b.sum(1), a.shape))
    np.testing.assert_allclose(dy, np.repeat(a.sum((0, 1))[:, None], 2, 1))
