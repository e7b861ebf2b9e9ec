"""Cases of the quantiles family. Expectations by bisection of Python's own error function."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NAN, _INF = np.nan, np.inf


def _erfinv(x: float) -> float:
    """The middle of the last two floats between which math.erf (or erfc, for large x) passes x."""
    low, high = 0.0, 6.0
    for _ in range(200):
        middle = (low + high) / 2
        below = math.erf(middle) < abs(x) if abs(x) < 0.5 else math.erfc(middle) > 1 - abs(x)
        low, high = (middle, high) if below else (low, middle)
    return math.copysign(low, x)


def _each(function: Callable[[float], float]) -> Callable[..., Any]:
    def expected(x: Any) -> Any:
        values = [function(float(item)) for item in np.reshape(x, -1)]
        return np.array(values, np.float64).reshape(np.shape(x)).astype(x.dtype)

    return expected


def _ndtri(p: float) -> float:
    return _erfinv(2 * p - 1) * math.sqrt(2) if 0.25 < p < 0.75 else NormalDist().inv_cdf(p)


_EDGES = np.array([0, 1, -1, 1.5, -2, _NAN, _INF], np.float32)

CASES = [
    *(
        OpCase(f"Erfinv/{dtype}", "Erfinv", [numbers(dtype, 3, 5, low=-0.95, high=0.95)], expected=_each(_erfinv))
        for dtype in ("float16", "bfloat16", "float32", "float64")
    ),
    *(
        OpCase(f"Ndtri/{dtype}", "Ndtri", [numbers(dtype, 3, 5, low=0.05, high=0.95)], expected=_each(_ndtri))
        for dtype in ("float16", "bfloat16", "float32", "float64")
    ),
    # At the ends of the domain they are infinite, and nothing can be told by differences.
    OpCase(
        "Erfinv/edges",
        "Erfinv",
        [_EDGES],
        expected=np.array([0, _INF, -_INF, _NAN, _NAN, _NAN, _NAN], np.float32),
        differentiate=(),
    ),
    OpCase(
        "Ndtri/edges",
        "Ndtri",
        [_EDGES],
        expected=np.array([-_INF, _INF, _NAN, _NAN, _NAN, _NAN, _NAN], np.float32),
        differentiate=(),
    ),
    OpCase(
        "Erfinv/small and near 1",
        "Erfinv",
        [np.array([1e-300, 1e-12, -3e-5, 0.5, 0.4999999999, 1 - 1e-10, 1 - 2.0**-53])],
        expected=_each(_erfinv),
        deviation="TensorFlow computes (x + 1) / 2, which is 1 already",
        differentiate=(),
    ),
    OpCase(
        "Ndtri/tails",
        "Ndtri",
        [np.array([1e-300, 1e-100, 1e-20, 1e-5, 0.5, 1 - 1e-5])],
        # By 40-digit arithmetic.
        expected=np.array(
            [-37.0470962993612, -21.273453560965326, -9.262340089798407, -4.264890793922825, 0.0, 4.264890793923841]
        ),
        differentiate=(),
    ),
    *(
        OpCase(f"{op}/{what}", op, [np.full(shape, 0.5, np.float32)], expected=_each(function))
        for op, function in (("Erfinv", _erfinv), ("Ndtri", _ndtri))
        for what, shape in (("scalar", ()), ("empty", (0, 3)))
    ),
]
