"""Accuracy of the portable logarithm and sine, and the bits themselves."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from headrace.kernels.box_muller import box_muller, log_unit, sincos_turn
from headrace.kernels.philox import PhiloxState, philox_words


def uniforms(count: int) -> np.ndarray:
    return (philox_words(PhiloxState.from_seeds(1, 1), count)[:, 0] / 2**32).astype(np.float64)


def ulps(values: np.ndarray, exact: list[float], absolute: float = 0.0) -> float:
    """Largest error in units of the last place, the C library's half a unit included; errors to `absolute` are none."""
    reference = np.array(exact)
    error = np.abs(values - reference)
    return float(np.max(np.where(error <= absolute, 0, error) / np.spacing(np.abs(reference))))


def test_logarithm_is_within_an_ulp_of_the_c_library() -> None:
    near_one = 1.0 - 2.0 ** -np.arange(1, 53)
    powers = 2.0 ** np.arange(-24.0, 1.0)
    values = np.concatenate(
        [np.maximum(uniforms(20000), 1e-7), near_one, powers, powers * 1.4142135, powers * 1.4142136]
    )
    assert ulps(log_unit(values), [math.log(value) for value in values]) <= 1


@pytest.mark.parametrize("function", ["sine", "cosine"])
def test_sine_and_cosine_are_within_an_ulp_of_the_c_library(function: str) -> None:
    near_quarters = [
        math.pi / 2 * quarter + delta for quarter in range(1, 4) for delta in (-1e-15, -1e-9, 0, 1e-9, 1e-3)
    ]
    angles = np.concatenate(
        [uniforms(20000) * 2 * math.pi, near_quarters, np.arange(1, 8) * math.pi / 4, [1e-300, 0.0]]
    )
    values = sincos_turn(angles)[["sine", "cosine"].index(function)]
    exact = {"sine": math.sin, "cosine": math.cos}[function]
    assert ulps(values, [exact(angle) for angle in angles], absolute=2.0**-100) <= 1


def test_radius_is_clamped_at_the_smallest_uniform() -> None:
    sine, cosine = box_muller(np.array([0.0, 1e-8]), np.array([0.25, 0.0]), np.dtype(np.float64))
    bound = math.sqrt(-2 * math.log(1e-7))
    assert sine[0] == pytest.approx(bound, rel=1e-15)
    assert cosine[1] == pytest.approx(bound, rel=1e-15)


@pytest.mark.parametrize(
    ("dtype", "digest"),
    [
        (np.float32, "2474256ad645a536"),
        (np.float64, "bc1ef7b4c2e0f57e"),
    ],
)
def test_bits_are_the_same_on_every_machine(dtype: type, digest: str) -> None:
    pairs = philox_words(PhiloxState.from_seeds(2, 2), 10000).astype(np.float64) / 2**32
    values = np.stack(box_muller(pairs[:, 0], pairs[:, 1], np.dtype(dtype)))
    assert hashlib.sha256(values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()).hexdigest()[:16] == digest
