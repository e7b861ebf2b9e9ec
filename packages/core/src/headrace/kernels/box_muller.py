"""The Box-Muller transform in arithmetic that gives the same bits on every machine.

`np.log`, `np.sin` and `np.cos` are whatever the installed NumPy, its vector units and the C library make of them: they
differ in the last bit between machines, and so would the weights of a freshly initialised network.  Here the three
functions are built from IEEE additions, multiplications, divisions and square roots alone, each rounded correctly
everywhere, in one fixed order.  Any backend that keeps that order (and does not contract to fused multiply-adds) yields
equal bits.  All of it works in float64; in float32, logarithm, sine and cosine are rounded from that, which
gives the correctly rounded values but for about one in 10**8.

Source: G. Box, M. Muller, "A note on the generation of random normal deviates", 1958; the clamp at 1e-7, the rounding
of intermediate values to the result's precision, and sine before cosine are TensorFlow's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["box_muller", "log_unit", "sincos_turn"]

_SMALLEST_UNIFORM = 1e-7
_SQRT_HALF_BITS = np.uint64(np.float64(math.sqrt(0.5)).view(np.uint64))
_EXPONENT_OF_ONE = np.uint64(np.float64(1).view(np.uint64))
_MANTISSA = np.uint64((1 << 52) - 1)

# pi/2 and log(2) as sums of two float64, the first with so few bits that its small multiples are exact.
_HALF_PI = (float.fromhex("0x1.921fb54442d00p+0"), float.fromhex("0x1.8469898cc5170p-48"))
_LOG_2 = (float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45"))

# Taylor series: on the reduced ranges their next terms are below 2**-57 of the result, so fitted coefficients would buy
# two terms and cost a page of explanation.
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(2, 9)]
_ATANH = [2 / (2 * k + 1) for k in range(1, 12)]

# sin and cos of q quarter turns, q = 0 ... 4
_QUARTER_SINE = np.array([0.0, 1.0, 0.0, -1.0, 0.0])
_QUARTER_COSINE = np.array([1.0, 0.0, -1.0, 0.0, 1.0])


def box_muller(
    radius_uniform: NDArray[np.float64], angle_uniform: NDArray[np.float64], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn pairs of independent uniform numbers into pairs of independent standard normal ones.

    Args:
      radius_uniform: float64 `[...]` in [0, 1); values below 1e-7 count as 1e-7, which bounds the result by 5.68.
      angle_uniform: float64 `[...]` in [0, 1), in turns.
      dtype: float32 or float64: the precision in which radius, angle and product are rounded.
    Returns:
      Two arrays `[...]` of `dtype`: radius * sin(angle) and radius * cos(angle).
    """
    clamped = np.maximum(radius_uniform, float(dtype.type(_SMALLEST_UNIFORM)))
    radius = np.sqrt(log_unit(clamped).astype(dtype) * dtype.type(-2))
    angle = (angle_uniform * (2 * math.pi)).astype(dtype)
    sine, cosine = sincos_turn(angle.astype(np.float64))
    return sine.astype(dtype) * radius, cosine.astype(dtype) * radius


def log_unit(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the natural logarithm, within 1 ulp.

    Args:
      value: float64 `[...]`, normal and positive.
    Returns:
      float64 `[...]`.
    """
    # value = 2**exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))
    bits = value.view(np.uint64) + (_EXPONENT_OF_ONE - _SQRT_HALF_BITS)
    exponent = (bits >> np.uint64(52)).astype(np.float64)
    exponent -= 1023.0
    bits &= _MANTISSA
    bits += _SQRT_HALF_BITS
    f = bits.view(np.float64)
    f -= 1.0
    # log(1 + f) = 2 atanh(s), s = f / (2 + f); with h = f**2 / 2 it is f - (h - s * (h + series)), where every rounding
    # is made on something small beside f.
    s = f / (f + 2.0)
    square = s * s
    series = _polynomial(square, _ATANH)
    series *= square
    h = f * f
    h *= 0.5
    series += h
    series *= s
    series += exponent * _LOG_2[1]
    h -= series
    h -= f
    exponent *= _LOG_2[0]
    exponent -= h
    return exponent


def sincos_turn(angle: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute sine and cosine of angles of one turn, within 1 ulp or, beside their zeros, within 2**-100.

    Args:
      angle: float64 `[...]` in [0, 2 pi], radians.
    Returns:
      sine and cosine, float64 `[...]`.
    """
    quarters = np.rint(angle * (2 / math.pi))
    exact = angle - quarters * _HALF_PI[0]
    correction = quarters * _HALF_PI[1]
    rest = exact - correction
    tail = (exact - rest) - correction  # what rounding took from rest: sin(x + t) = sin x + t, cos(x + t) = cos x - x t
    index = quarters.astype(np.intp)
    turn_sine, turn_cosine = _QUARTER_SINE[index], _QUARTER_COSINE[index]

    square = rest * rest
    sine = _polynomial(square, _SINE)
    sine *= square
    sine *= rest
    sine += tail
    sine += rest

    # 1 - half loses half's last bits; (1 - rounded) - half is what was lost, exactly.
    half = square * 0.5
    rounded = 1.0 - half
    lost = 1.0 - rounded
    lost -= half
    cosine = _polynomial(square, _COSINE)
    cosine *= square
    cosine *= square
    lost -= tail * rest
    cosine += lost
    cosine += rounded

    # Rotation by whole quarters; factors 0 and 1, so exact.
    return sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine


def _polynomial(x: NDArray[np.float64], coefficients: list[float]) -> NDArray[np.float64]:
    """Horner's rule; `coefficients` from the constant term up."""
    total = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= x
    total += coefficients[0]
    return total
