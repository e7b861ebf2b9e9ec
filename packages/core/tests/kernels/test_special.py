"""Error and gamma functions against arithmetic of 40 digits (mpmath) and SciPy, where they are installed, and math."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace.kernels import special

RNG_SEED = 7


@pytest.fixture(autouse=True)
def _as_in_a_plan() -> Iterator[None]:
    """Plans run kernels with NumPy's warnings off: a branch that is not chosen may divide by zero."""
    with np.errstate(all="ignore"):
        yield


def _points(low: float, high: float, count: int = 300) -> Any:
    return np.random.default_rng(RNG_SEED).uniform(low, high, count)


def _tiny_to_large() -> Any:
    return 10.0 ** np.random.default_rng(RNG_SEED).uniform(-300, 30, 200)


def _log_gamma(mp: Any, x: Any) -> Any:
    return mp.log(abs(mp.gamma(x)))


ACCURACY: list[tuple[str, Callable[..., Any], Callable[..., Any], Any, float]] = [
    ("erf", special.erf, lambda mp, x: mp.erf(x), _points(-6, 6), 1e-15),
    ("erf of small numbers", special.erf, lambda mp, x: mp.erf(x), 10.0 ** _points(-300, 0, 100), 1e-15),
    ("erfc", special.erfc, lambda mp, x: mp.erfc(x), _points(-6, 26), 1e-15),
    ("lgamma", special.lgamma, _log_gamma, _points(0, 12), 1e-15),
    ("lgamma of small and large numbers", special.lgamma, lambda mp, x: mp.loggamma(x), _tiny_to_large(), 1e-15),
    ("digamma", special.digamma, lambda mp, x: mp.digamma(x), _points(2, 30), 1e-14),
    ("digamma of small and large numbers", special.digamma, lambda mp, x: mp.digamma(x), _tiny_to_large(), 1e-14),
    (
        "trigamma",
        lambda x: special.polygamma(np.array(1.0), x),
        lambda mp, x: mp.polygamma(1, x),
        _points(0.01, 30),
        1e-14,
    ),
    (
        "polygamma 5",
        lambda x: special.polygamma(np.array(5.0), x),
        lambda mp, x: mp.polygamma(5, x),
        _points(0.01, 30),
        2e-14,
    ),
    ("zeta", lambda q: special.zeta(np.array(2.5), q), lambda mp, q: mp.zeta(2.5, q), _points(0.01, 30), 1e-14),
]


@pytest.mark.parametrize(
    ("what", "function", "reference", "points", "limit"), ACCURACY, ids=[row[0] for row in ACCURACY]
)
def test_relative_error_stays_below_its_limit(
    what: str, function: Any, reference: Any, points: Any, limit: float
) -> None:
    mp = pytest.importorskip("mpmath")
    with mp.workdps(40):
        exact = [reference(mp, mp.mpf(float(x))) for x in points]
        worst = max(abs(mp.mpf(float(y)) / r - 1) for y, r in zip(function(points), exact, strict=True))
    assert worst < limit


@pytest.mark.parametrize(
    ("function", "reference"), [(special.lgamma, _log_gamma), (special.digamma, lambda mp, x: mp.digamma(x))]
)
def test_absolute_error_at_negative_numbers(function: Any, reference: Any) -> None:
    mp = pytest.importorskip("mpmath")
    points = _points(-20, 0)
    points = points[np.abs(points - np.rint(points)) > 0.01]
    with mp.workdps(40):
        exact = [float(reference(mp, mp.mpf(float(x)))) for x in points]
    np.testing.assert_allclose(function(points), exact, rtol=1e-14, atol=5e-13)


@pytest.mark.parametrize("name", ["erf", "erfc", "gammaln", "psi"])
def test_agrees_with_scipy(name: str) -> None:
    scipy_special = pytest.importorskip("scipy.special")
    ours = {"gammaln": special.lgamma, "psi": special.digamma}.get(name) or getattr(special, name)
    points = _points(0.1, 20)
    np.testing.assert_allclose(ours(points), getattr(scipy_special, name)(points), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(special.erf, math.erf), (special.erfc, math.erfc), (special.lgamma, math.lgamma)]
)
def test_agrees_with_the_standard_library(ours: Any, theirs: Any) -> None:
    points = _points(0.05, 20)
    np.testing.assert_allclose(ours(points), [theirs(float(x)) for x in points], rtol=1e-13)


def test_polygamma_by_its_recurrence() -> None:
    points = _points(0.5, 9)
    for n in (1, 2, 3):
        order = np.array(float(n))
        step = (-1) ** n * math.factorial(n) / points ** (n + 1)
        expected = special.polygamma(order, points + 1) - step
        np.testing.assert_allclose(special.polygamma(order, points), expected, rtol=1e-12)


def test_functions_keep_the_shape_of_scalars() -> None:
    for function in (special.erf, special.erfc, special.lgamma, special.digamma):
        assert function(np.array(1.5)).shape == ()
        assert function(np.zeros([0, 2])).shape == (0, 2)
