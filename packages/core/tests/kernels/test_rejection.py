"""Gamma and Poisson numbers have the distribution they are named after, and are the same for the same stream."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.kernels.philox import PhiloxState
from headrace.kernels.rejection import gamma, poisson

COUNT = 40_000
STATE = PhiloxState.from_seeds(3, 5)


@pytest.mark.parametrize("alpha", [0.2, 0.9, 1.0, 3.5, 200.0])
def test_gamma_numbers_have_their_first_moments(alpha):
    drawn = gamma(STATE, np.full(COUNT, alpha))
    assert (drawn >= 0).all()
    # Mean and variance are alpha, the third central moment 2 alpha; bounds are five standard errors.
    assert drawn.mean() == pytest.approx(alpha, abs=5 * np.sqrt(alpha / COUNT))
    fourth = 3 * alpha**2 + 6 * alpha
    assert drawn.var() == pytest.approx(alpha, abs=5 * np.sqrt((fourth - alpha**2) / COUNT))
    assert np.log(drawn).mean() == pytest.approx(
        np.log(gamma(STATE.skip(1 << 40), np.full(COUNT, alpha))).mean(), abs=0.2
    )


@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 9.9, 10.0, 35.0, 3000.0])
def test_poisson_numbers_have_their_first_moments(rate):
    drawn = poisson(STATE, np.full(COUNT, rate))
    assert (drawn == np.floor(drawn)).all()
    assert (drawn >= 0).all()
    assert drawn.mean() == pytest.approx(rate, abs=5 * np.sqrt(rate / COUNT) + 1e-12)
    assert drawn.var() == pytest.approx(rate, abs=5 * np.sqrt((rate + 2 * rate**2) / COUNT) + 1e-12)


@pytest.mark.parametrize(("rate", "count"), [(2.0, 6), (20.0, 36)])
def test_each_poisson_number_is_as_frequent_as_it_should_be(rate, count):
    drawn = poisson(STATE, np.full(COUNT, rate)).astype(int)
    chances = np.exp(-rate) * np.cumprod([1.0, *(rate / np.arange(1, count))])
    found = np.bincount(drawn, minlength=count)[:count] / COUNT
    np.testing.assert_allclose(found, chances, atol=5 * np.sqrt(chances.max() / COUNT))


def test_numbers_that_are_no_parameters_give_nan_and_leave_the_others_alone():
    parameters = np.array([np.nan, -1.0, 2.0, 50.0])
    for draw in (gamma, poisson):
        drawn = draw(STATE, parameters)
        assert np.isnan(drawn[:2]).all()
        np.testing.assert_array_equal(drawn, draw(STATE, parameters))
        assert (drawn[2:] >= 0).all()
