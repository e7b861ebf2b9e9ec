"""Gamma and Poisson numbers, drawn by rejection from Philox blocks: the same on every machine and thread count.

Each attempt takes one stretch of the stream with a place for every element, so what an element becomes follows from the
stream and its index alone.

Sources: G. Marsaglia, W. Tsang, *A simple method for generating gamma variables*, ACM TOMS 26 (2000); W. Hoermann, *The
transformed rejection method for generating Poisson random variables*, Insurance: Mathematics and Economics 12 (1993).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.distributions import normal, uniform
from headrace.kernels.philox import PhiloxState
from headrace.kernels.special import lgamma

__all__ = ["gamma", "poisson"]

Floats = NDArray[np.float64]
Attempt = Callable[[PhiloxState, NDArray[np.intp]], tuple[Floats, NDArray[np.bool_]]]
"""From a stretch of the stream and the elements that are still wanted to numbers, and which of them are accepted."""

_ATTEMPTS = 64
"""Attempts for which the stream is reserved; one in 10**80 elements would need more."""
_STEP_UP = 10.0
"""The rate from which Poisson numbers are drawn by transformed rejection, below by a product of uniform numbers."""


def _until_accepted(state: PhiloxState, count: int, blocks: int, attempt: Attempt) -> Floats:
    result = np.zeros(count)
    wanted = np.arange(count)
    for number in range(_ATTEMPTS):
        if not wanted.size:
            break
        values, accepted = attempt(state.skip(number * blocks * count), wanted)
        result[wanted[accepted]] = values[accepted]
        wanted = wanted[~accepted]
    return result


def _uniforms(state: PhiloxState, count: int, chosen: NDArray[np.intp]) -> Floats:
    """Numbers in (0, 1] for the chosen ones of `count` elements; two elements share a block."""
    return np.asarray(1.0 - uniform(state, (count,), np.float64))[chosen]


def gamma(state: PhiloxState, alpha: Floats) -> Floats:
    """Numbers of the gamma distribution with scale 1.

    Args:
      state: where in the stream to start; three blocks for each element and attempt are used.
      alpha: the shapes, `[n]`, above 0; NaN for others.
    Returns:
      float64 `[n]`.
    """
    count = len(alpha)
    small = alpha < 1
    d = np.where(small, alpha + 1, alpha) - 1 / 3
    c = 1 / np.sqrt(9 * np.where(d > 0, d, np.nan))

    def attempt(at: PhiloxState, wanted: NDArray[np.intp]) -> tuple[Floats, NDArray[np.bool_]]:
        x = normal(at, (count,), np.float64)[wanted]
        u = _uniforms(at.skip(count), count, wanted)
        v = (1 + c[wanted] * x) ** 3
        inside = v > 0
        bound = 0.5 * x * x + d[wanted] * (1 - v + np.log(np.where(inside, v, 1.0)))
        accepted = (inside & (np.log(u) < bound)) | np.isnan(v)
        return d[wanted] * v, accepted

    drawn = _until_accepted(state, count, 3, attempt)
    boost = _uniforms(state.skip(3 * _ATTEMPTS * count), count, np.arange(count))
    return np.where(small, drawn * boost ** (1 / np.where(small, alpha, 1.0)), drawn)


def poisson(state: PhiloxState, rate: Floats) -> Floats:
    """Numbers of the Poisson distribution.

    Args:
      state: where in the stream to start; two blocks for each element and attempt are used.
      rate: the means, `[n]`, at least 0; NaN for others.
    Returns:
      Whole numbers, float64 `[n]`.
    """
    count = len(rate)
    low = np.flatnonzero(rate < _STEP_UP)
    result = np.full(count, np.nan)
    valid = np.isfinite(rate) & (rate >= 0)
    result[low] = _by_products(state, rate, low)
    high = _until_accepted(state, count, 2, lambda at, wanted: _transformed(at, rate, wanted))
    result = np.where(rate < _STEP_UP, result, high)
    return np.where(valid, result, np.nan)


def _by_products(state: PhiloxState, rate: Floats, chosen: NDArray[np.intp]) -> Floats:
    """How many uniform numbers can be multiplied before the product falls below exp(-rate)."""
    count = len(rate)
    limit = np.exp(-np.maximum(rate[chosen], 0))
    product = np.ones(len(chosen))
    total = np.zeros(len(chosen))
    alive = np.ones(len(chosen), bool)
    for number in range(_ATTEMPTS):
        if not alive.any():
            break
        product *= np.asarray(1.0 - uniform(state.skip(number * count), (count,), np.float64))[chosen]
        alive &= product > limit
        total += alive
    return total


def _transformed(at: PhiloxState, rate: Floats, wanted: NDArray[np.intp]) -> tuple[Floats, NDArray[np.bool_]]:
    count, mean = len(rate), rate[wanted]
    plain = ~(mean >= _STEP_UP) | ~np.isfinite(mean)
    mean = np.where(plain, _STEP_UP, mean)
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    edge = 0.9277 - 3.6224 / (b - 2)
    u = _uniforms(at, count, wanted) - 0.5
    v = _uniforms(at.skip(count), count, wanted)
    near = 0.5 - np.abs(u)
    near = np.where(near > 0, near, np.finfo(np.float64).tiny)
    k = np.floor((2 * a / near + b) * u + mean + 0.43)
    quick = (near >= 0.07) & (v <= edge)
    refused = (k < 0) | ((near < 0.013) & (v > near))
    safe = np.maximum(k, 0)
    slow = np.log(v * inverse / (a / (near * near) + b)) <= safe * np.log(mean) - mean - lgamma(safe + 1)
    return k, plain | quick | (~refused & slow)
