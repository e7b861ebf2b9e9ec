"""Initial values have the spread that their formula says, and repeat with a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.layers import initializers


def values(initializer: initializers.Initializer, shape: list[int], dtype: Any = hr.float32) -> Any:
    graph = hr.Graph()
    with graph.as_default():
        value = initializer(shape, dtype)
    assert value.dtype is dtype
    with hr.Session(graph) as session:
        return session.run(value)


def test_constant_initializers_fill_any_shape_and_dtype() -> None:
    assert values(initializers.zeros(), [2]).tolist() == [0.0, 0.0]
    assert values(initializers.ones(), [2], hr.float64).tolist() == [1.0, 1.0]
    assert values(initializers.constant(0.5), []).tolist() == 0.5


def test_glorot_uniform_fills_the_range_of_its_fans() -> None:
    kernel = values(initializers.glorot_uniform(seed=1), [3, 3, 40, 60])
    limit = np.sqrt(6 / (9 * 40 + 9 * 60))
    assert np.abs(kernel).max() <= limit
    assert np.abs(kernel).max() > 0.99 * limit
    assert kernel.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)


def test_he_normal_has_the_deviation_of_its_fan() -> None:
    kernel = values(initializers.he_normal(seed=1), [200, 300])
    assert kernel.std() == pytest.approx(np.sqrt(2 / 200), rel=0.02)
    assert np.abs(kernel).max() <= 2 * np.sqrt(2 / 200) / 0.8796256


def test_truncated_normal_stays_within_two_deviations() -> None:
    kernel = values(initializers.truncated_normal(0.5, 3.0, seed=1), [200, 300])
    assert kernel.mean() == pytest.approx(3.0, abs=0.01)
    assert np.abs(kernel - 3.0).max() <= 1.0


@pytest.mark.parametrize("shape", [[], [5], [0, 3]])
def test_shapes_without_two_sizes_have_a_spread_too(shape: list[int]) -> None:
    assert np.isfinite(values(initializers.glorot_uniform(seed=1), shape)).all()
    assert np.isfinite(values(initializers.he_normal(seed=1), shape)).all()


@pytest.mark.parametrize("make", [initializers.glorot_uniform, initializers.he_normal, initializers.truncated_normal])
def test_a_seed_gives_the_same_values_again(make: Callable[..., initializers.Initializer]) -> None:
    first, again, other = (values(make(seed=seed), [4, 4]) for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
