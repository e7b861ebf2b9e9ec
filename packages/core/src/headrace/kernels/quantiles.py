"""NumPy kernels of the quantiles family: Newton's method on the functions that they invert, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.kernels.special import erf, erfc
from headrace.types import Array

Floats = NDArray[np.float64]

_STEPS = 9
"""Steps after which the farthest start has converged; each doubles the digits."""
_ROOT_HALF = math.sqrt(0.5)


def ndtri(p: Floats) -> Floats:
    """The standard normal quantile: by erf around the middle, where it goes through 0, else by its lower tail."""
    middle = _near(np.where(np.abs(p - 0.5) < 0.25, 2 * p - 1, 0.0)) * math.sqrt(2)
    lower = _lower_quantile(np.minimum(p, 1 - p))
    outer = np.where((p < 0) | (p > 1), np.nan, np.where(p <= 0.5, lower, -lower))
    return np.where(np.abs(p - 0.5) < 0.25, middle, outer)


def _lower_quantile(p: Floats) -> Floats:
    """The quantile of p <= 1/2.

    log(cdf) is concave, so Newton's method on it, started left of the root, stays left of it and converges from
    everywhere; -sqrt(-2 log p) is left of it, since cdf(-t) <= exp(-t**2 / 2).
    """
    x = -np.sqrt(-2 * np.log(np.maximum(p, 5e-324)))
    for _ in range(_STEPS):
        cdf = np.maximum(erfc(-x * _ROOT_HALF) / 2, 5e-324)
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        x = x - np.log(cdf / p) * cdf / density
    return np.where(p > 0, x, np.where(p == 0, -np.inf, np.nan))


def erfinv(x: Floats) -> Floats:
    """The inverse error function: directly where |x| < 1/2, else by the tail, which 1 - |x| gives without loss."""
    size = np.abs(x)
    near = _near(np.where(size < 0.5, x, 0.0))
    far = np.copysign(-_lower_quantile((1 - np.maximum(size, 0.5)) / 2) * _ROOT_HALF, x)
    return np.where(size > 1, np.nan, np.where(size < 0.5, near, far))


def _near(x: Floats) -> Floats:
    """erfinv of |x| <= 1/2."""
    y = x * (math.sqrt(math.pi) / 2)
    for _ in range(5):
        y = y - (erf(y) - x) * np.exp(y * y) * (math.sqrt(math.pi) / 2)
    return y


def _register(op_type: str, function: Callable[[Floats], Floats]) -> None:
    """A kernel that computes in float64 and rounds once."""

    def kernel(op: OpContext, x: Array) -> Array:
        return function(np.asarray(x).astype(np.float64)).astype(x.dtype)

    register_kernel(op_type)(kernel)


_register("Erfinv", erfinv)
_register("Ndtri", ndtri)
