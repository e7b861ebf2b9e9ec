"""Incomplete gamma functions: the derivative by the shape, which has none of its own."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.kernels.incomplete import betainc, igamma, igammac
from headrace.testing import check_gradient

SHAPES, POINTS = [0.5, 2.5, 10.0], [0.75, 4.0, 8.0]


@pytest.mark.parametrize("function", [hr.igamma, hr.igammac])
def test_gradient_by_the_shape(function):
    check_gradient(lambda xs: [function(xs[0], xs[1])], [SHAPES, POINTS], second_order=False)


def test_no_second_derivative_by_the_shape_and_the_reason():
    with hr.Graph().as_default():
        a = hr.constant(SHAPES)
        (first,) = hr.gradients(hr.igamma(a, POINTS), [a])
        assert hr.gradients(first, [a]) == [None]
        assert "second derivative of the incomplete gamma" in hr.explain_gradient(first, a)


def test_gradient_of_betainc_is_by_x_only():
    with hr.Graph().as_default():
        a, b, x = hr.constant(2.0), hr.constant(3.0), hr.constant(0.25)
        by_a, by_b, by_x = hr.gradients(hr.betainc(a, b, x), [a, b, x])
    assert by_a is None
    assert by_b is None
    assert hr.Session(by_x.graph).run(by_x) == pytest.approx(12 * 0.25 * 0.75**2)


def test_many_shapes_agree_with_sums_of_powers():
    """P(n, x) = 1 - exp(-x) sum of x**k / k! over k < n."""
    x = np.linspace(0.1, 60, 40)
    for n in (1, 4, 30):
        terms = np.cumprod(np.concatenate([np.ones((1, 40)), x / np.arange(1, n)[:, None]]), axis=0)
        upper = np.exp(-x) * terms.sum(0)
        np.testing.assert_allclose(igammac(np.array(float(n)), x), upper, rtol=1e-11)
        np.testing.assert_allclose(igamma(np.array(float(n)), x), 1 - upper, atol=1e-12)


def test_a_large_shape_stays_exact():
    """At its median, about a - 1 / 3, a gamma distribution of any shape has the probability 1 / 2."""
    for a in (1e3, 1e5):
        assert igamma(np.array([a]), np.array([a - 1 / 3 + 8 / 405 / a]))[0] == pytest.approx(0.5, abs=1e-9)


def test_betainc_is_symmetric():
    rng = np.random.default_rng(0)
    a, b, x = rng.uniform(0.1, 20, 200), rng.uniform(0.1, 20, 200), rng.uniform(0, 1, 200)
    np.testing.assert_allclose(betainc(a, b, x) + betainc(b, a, 1 - x), 1, atol=1e-12)
