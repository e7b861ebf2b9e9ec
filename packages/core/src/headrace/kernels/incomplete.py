"""Incomplete gamma and beta functions of arrays, in float64 and without SciPy, and the NumPy kernels made of them.

Below x = a + 1 the lower incomplete gamma is summed from its power series, above it the upper one from its continued
fraction; their derivatives by a follow the same recurrences. Steps are taken until no element changes.

Sources: NIST Digital Library of Mathematical Functions (DLMF, https://dlmf.nist.gov), 8.11.4, 8.9.2 and 8.17.22.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.kernels.special import digamma, lgamma
from headrace.ops.incomplete import merged_with_scalars
from headrace.types import Array, Shape

__all__ = ["betainc", "igamma", "igamma_slope", "igammac", "random_gamma_slope"]

Floats = NDArray[np.float64]

_ENOUGH = 2.0**-54
"""A term that is smaller than this share of the sum changes no digit."""
_MOST_STEPS = 20_000
"""Steps that are taken; for x near a they grow with the root of a, and this is enough up to a = 1e6."""


def _series(a: Floats, x: Floats) -> tuple[Floats, Floats]:
    """S = sum over n >= 0 of x**n / ((a + 1) ... (a + n)), and its derivative by a (DLMF 8.11.4)."""
    term = np.ones_like(a)
    slope = np.zeros_like(a)  # of the term's logarithm
    total, total_slope = term.copy(), slope.copy()
    for n in range(1, _MOST_STEPS):
        term = term * (x / (a + n))
        slope = slope - 1 / (a + n)
        total += term
        total_slope += term * slope
        if not np.any((term > _ENOUGH * total) | (np.abs(term * slope) > _ENOUGH * np.abs(total_slope))):
            break
    return total, total_slope


def _fraction(a: Floats, x: Floats) -> tuple[Floats, Floats]:
    """The continued fraction h with gamma(a, x) = exp(-x) x**a h, and its derivative by a (DLMF 8.9.2).

    Numerators and denominators of the convergents follow one recurrence; they are scaled down at each step.
    """
    one, zero = np.ones_like(a), np.zeros_like(a)
    # For the numerator then the denominator: the values of two steps, then the derivatives of both.
    state = [(one, x + 1 - a, zero, -one), (zero, one, zero, zero)]
    value, value_slope = one / (x + 1 - a), zero
    for n in range(1, _MOST_STEPS):
        partial, partial_slope, whole = -n * (n - a), float(n), x + 2 * n + 1 - a
        following = []
        for before, last, before_slope, last_slope in state:
            following.append(
                (
                    last,
                    whole * last + partial * before,
                    last_slope,
                    whole * last_slope - last + partial * before_slope + partial_slope * before,
                )
            )
        scale = np.abs(following[0][1])
        scale = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
        state = [(p / scale, q / scale, r / scale, s / scale) for p, q, r, s in following]
        (_, top, _, top_slope), (_, bottom, _, bottom_slope) = state
        found = bottom / top
        found_slope = (bottom_slope - found * top_slope) / top
        moved = (np.abs(found - value) > _ENOUGH * 4 * np.abs(found)) | (
            np.abs(found_slope - value_slope) > _ENOUGH * 4 * np.abs(found_slope)
        )
        value, value_slope = found, found_slope
        if not np.any(moved):
            break
    return value, value_slope


class _Split:
    """The elements at which each method is used; those at which neither is have answers of their own."""

    def __init__(self, a: Floats, x: Floats) -> None:
        self.a, self.x = (item.copy() for item in np.broadcast_arrays(a, x))
        usual = (self.a > 0) & (self.x > 0) & np.isfinite(self.a) & np.isfinite(self.x)
        self.low = usual & (self.x < self.a + 1)
        self.high = usual & ~self.low

    def fill(self, special: Any, low: Callable[..., Floats], high: Callable[..., Floats]) -> Floats:
        result = np.broadcast_to(special, self.a.shape).copy()
        for chosen, compute in ((self.low, low), (self.high, high)):
            if chosen.any():
                result[chosen] = compute(self.a[chosen], self.x[chosen])
        return result


def _weight(a: Floats, x: Floats, order: int) -> Floats:
    """x**a exp(-x) / gamma(a + order)."""
    return np.exp(a * np.log(x) - x - lgamma(a + order))


def _lower(a: Floats, x: Floats) -> Floats:
    return _weight(a, x, 1) * _series(a, x)[0]


def _upper(a: Floats, x: Floats) -> Floats:
    return _weight(a, x, 0) * _fraction(a, x)[0]


def igamma(a: Floats, x: Floats) -> Floats:
    """The regularised lower incomplete gamma function P(a, x); NaN unless a > 0 and x >= 0."""
    split = _Split(a, x)
    a, x = split.a, split.x
    endless = np.where(np.isinf(a) & np.isinf(x), np.nan, np.where(np.isinf(a), 0.0, 1.0))
    special = np.where((a > 0) & (x >= 0), np.where(x == 0, 0.0, endless), np.nan)
    return split.fill(special, _lower, lambda a, x: 1 - _upper(a, x))


def igammac(a: Floats, x: Floats) -> Floats:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    split = _Split(a, x)
    a, x = split.a, split.x
    endless = np.where(np.isinf(a) & np.isinf(x), np.nan, np.where(np.isinf(a), 1.0, 0.0))
    special = np.where((a > 0) & (x >= 0), np.where(x == 0, 1.0, endless), np.nan)
    return split.fill(special, lambda a, x: 1 - _lower(a, x), _upper)


def igamma_slope(a: Floats, x: Floats) -> Floats:
    """The derivative of P(a, x) by a."""
    split = _Split(a, x)
    special = np.where((split.a > 0) & (split.x >= 0), 0.0, np.nan)

    def low(a: Floats, x: Floats) -> Floats:
        total, slope = _series(a, x)
        return _weight(a, x, 1) * (total * (np.log(x) - digamma(a + 1)) + slope)

    def high(a: Floats, x: Floats) -> Floats:
        value, slope = _fraction(a, x)
        return -_weight(a, x, 0) * (value * (np.log(x) - digamma(a)) + slope)

    return split.fill(special, low, high)


def random_gamma_slope(alpha: Floats, sample: Floats) -> Floats:
    """-(dP/da) / (dP/dx) at (alpha, sample), in which the powers of both cancel, so that nothing overflows."""
    split = _Split(alpha, sample)
    special = np.where((split.a > 0) & (split.x >= 0), 0.0, np.nan)

    def low(a: Floats, x: Floats) -> Floats:
        total, slope = _series(a, x)
        return -x / a * (total * (np.log(x) - digamma(a + 1)) + slope)

    def high(a: Floats, x: Floats) -> Floats:
        value, slope = _fraction(a, x)
        return x * (value * (np.log(x) - digamma(a)) + slope)

    return split.fill(special, low, high)


def betainc(a: Floats, b: Floats, x: Floats) -> Floats:
    """The regularised incomplete beta function I_x(a, b); NaN unless a, b > 0 and 0 <= x <= 1."""
    a, b, x = (item.copy() for item in np.broadcast_arrays(a, b, x))
    result = np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), np.where(x == 0, 0.0, 1.0), np.nan)
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    if inside.any():
        result[inside] = _beta_inside(a[inside], b[inside], x[inside])
    return result


def _beta_inside(a: Floats, b: Floats, x: Floats) -> Floats:
    """The continued fraction converges fast below the mean; above it I_x(a, b) = 1 - I_(1 - x)(b, a)."""
    turned = x > (a + 1) / (a + b + 2)
    p, q = np.where(turned, b, a), np.where(turned, a, b)
    y, rest = np.where(turned, 1 - x, x), np.where(turned, np.log(x), np.log1p(-x))
    start = np.where(turned, np.log1p(-x), np.log(x))
    weight: Floats = np.exp(p * start + q * rest + lgamma(p + q) - lgamma(p) - lgamma(q)) / p
    found: Floats = weight * _beta_fraction(p, q, y)
    return np.asarray(np.where(turned, 1 - found, found))


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """DLMF 8.17.22: 1 / (1 + d1 / (1 + d2 / (1 + ...))), by Lentz's method."""
    tiny = 1e-300
    value, ratio, inverse = np.ones_like(a), np.ones_like(a), np.full_like(a, np.inf)
    for step in range(1, _MOST_STEPS):
        m = step // 2
        if step % 2:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        inverse = 1 + part / inverse
        inverse = np.where(np.abs(inverse) < tiny, tiny, inverse)
        ratio = 1 + part / ratio
        ratio = np.where(np.abs(ratio) < tiny, tiny, ratio)
        change = ratio / inverse
        value = value * change
        if not np.any(np.abs(change - 1) > _ENOUGH * 4):
            break
    return 1 / value


def _register(op_type: str, function: Callable[..., Floats]) -> None:
    """A kernel that computes in float64 and rounds once."""

    def kernel(op: OpContext, *inputs: Array) -> Array:
        if op_type == "Betainc":
            merged_with_scalars([Shape(np.shape(item)) for item in inputs])
        wide: Any = [np.asarray(item).astype(np.float64) for item in inputs]
        return function(*wide).astype(inputs[0].dtype)

    register_kernel(op_type)(kernel)


_register("Igamma", igamma)
_register("Igammac", igammac)
_register("IgammaGradA", igamma_slope)
_register("RandomGammaGrad", random_gamma_slope)
_register("Betainc", betainc)
