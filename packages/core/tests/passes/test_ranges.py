"""Ranges of numbers that come batch by batch: ends, percentiles, and the threshold of least divergence."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headrace.passes.ranges import HALF, LEVELS, Spread

Array = Any


def spread(method: Any, *batches: Array, percentile: float = 100.0) -> tuple[float, float]:
    found = Spread(method, percentile)
    for batch in batches:
        found.add(np.asarray(batch, np.float32))
    return found.range()


def normal(size: int, seed: int = 0, scale: float = 1.0) -> Array:
    return (scale * np.random.default_rng(seed).standard_normal(size)).astype(np.float32)


def divergence(counts: list[int], kept: int) -> float:
    """Of the first bins, the others put into the last of them, from their levels: one by one."""
    level_of = [int(Fraction(place * LEVELS, kept)) for place in range(kept)]
    clipped = [*counts[: kept - 1], sum(counts[kept - 1 :])]
    total, result = sum(counts), 0.0
    for level in range(LEVELS):
        members = [place for place in range(kept) if level_of[place] == level and clipped[place]]
        inside = max(sum(counts[place] for place in members), 1)
        result += sum(clipped[place] * math.log(clipped[place] * len(members) / inside) for place in members) / total
    return result


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
@pytest.mark.parametrize(
    ("values", "ends"),
    [
        (np.zeros((5, 4)), (0, 0)),
        ([3.0], (0, 3)),
        ([-3.0], (-3, 0)),
        (np.full((10, 4), 0.1), (0, np.float32(0.1))),
        ([[0, 0, 7]], (0, 7)),
        (np.linspace(-1, 1, 9000), (-1, 1)),
        ([1e-45], (0, 1.4012984643248171e-45)),
        ([-3.4e38, 3.4e38], (-np.float32(3.4e38), np.float32(3.4e38))),
    ],
)
def test_where_nothing_is_far_the_range_is_exactly_that_of_the_numbers(method: Any, values: Any, ends: Any) -> None:
    assert spread(method, values) == ends
    assert spread(method, np.zeros(3), values, values) == ends


def test_the_ends_are_those_of_all_batches_with_zero_between_them() -> None:
    assert spread("minmax", [2, 3], [5, 1], [4]) == (0, 5)
    assert spread("minmax", [-2, 3], [-5], [1]) == (-5, 3)


@pytest.mark.parametrize("percentile", [61, 90, 99, 99.9])
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_percentiles_are_those_of_all_numbers_within_a_bin(percentile: float, shift: float) -> None:
    """The first batch is the smallest: bins are joined many times."""
    batches = [normal(4997, seed, scale=4.0**seed) + np.float32(shift) for seed in range(5)]
    batches[2][:3000] = 0
    low, high = spread("percentile", *batches, percentile=percentile)
    everything = np.concatenate(batches)
    bin_width = 2 * float(np.abs(everything).max()) / HALF
    ordered, cut = np.sort(everything).tolist(), int(len(everything) * (100 - percentile) / 100)
    assert low == pytest.approx(min(ordered[cut], 0), abs=bin_width)
    assert high == pytest.approx(max(ordered[-1 - cut], 0), abs=bin_width)


@pytest.mark.parametrize(
    "values",
    [
        normal(20_000),
        np.append(normal(20_000), np.float32(60)),
        np.maximum(normal(3000, 1), 0),
        np.random.default_rng(2).laplace(size=20_000).astype(np.float32),
        np.random.default_rng(3).standard_t(3, 20_000).astype(np.float32),
        normal(500, 4, scale=0.1) + 2,
    ],
    ids=["normal", "one far out", "relu", "laplace", "heavy tails", "far from 0"],
)
def test_the_threshold_has_the_least_divergence(values: Array) -> None:
    magnitudes = np.abs(values[values != 0]).astype(np.float64)
    reach = magnitudes.max()
    counts = np.histogram(magnitudes, HALF, (0, reach))[0].tolist()
    low, high = spread("entropy", values)
    kept = round(max(-low, high) / reach * HALF)
    assert max(-low, high) == pytest.approx(min(kept * reach / HALF, reach))
    candidates = {*range(LEVELS, HALF + 1, 97), HALF, *range(max(kept - 2, LEVELS), min(kept + 3, HALF + 1))}
    found = divergence(counts, kept)
    assert all(divergence(counts, other) >= found - 1e-12 for other in candidates)
    assert all(divergence(counts, other) > found + 1e-12 for other in candidates if other > kept)


def test_one_number_far_out_is_left_out_and_the_others_stay() -> None:
    values = np.append(normal(100_000), np.float32(100))
    low, high = spread("entropy", values)
    assert low == values.min()
    assert -values.min() < high < 10


def test_numbers_far_from_zero_are_not_all_left_out() -> None:
    values = normal(30_000, scale=0.1) + 2
    low, high = spread("entropy", values)
    assert low == 0
    assert (values > high).mean() < 0.001


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_joined_bins_count_what_wide_ones_would_have_counted(method: Any) -> None:
    """Four times as far is two times joined, so that batches give the very range that one array gives."""
    values = np.random.default_rng(5).standard_t(3, 60_000).astype(np.float32)
    values = np.append(values[np.abs(values) < 7], np.array([2, 8], np.float32))
    near = np.abs(values) <= 2
    batches = [np.zeros(100), values[near], *np.split(values[~near], [1000, 2000])]
    found = spread(method, *batches, percentile=99.5)
    assert found == spread(method, values, np.zeros(100), percentile=99.5)
    assert found[1] < 8
