"""Estimates: they grow with what is done, and tell work that threads should share from work that they should not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from laid_out import laid_out

import headrace as hr
from headrace_cpu.driver.estimates import (
    SERIAL_NANOSECONDS,
    contains_blocks,
    estimate,
    shared_nanoseconds,
    shared_points,
)
from headrace_cpu.layout import Unit


class Loop:
    """Stands for a loop or branch: it has the layouts of blocks."""

    layouts = ()


def unit(call: Any = "a library") -> Unit:
    return Unit(None, call, (1,), (1,), ())


def taken(build: Callable[..., hr.Tensor], *shape: int, dtype: hr.DType = hr.float32) -> float:
    """What the regions of a graph of one input take together."""
    return sum(shared_nanoseconds(found) for found in laid_out(build, (dtype, shape)).units)


def test_an_estimate_grows_with_what_is_touched_and_leaves_loops_to_themselves() -> None:
    small, large = (estimate([unit()], lambda key, size=size: size) for size in (10**3, 10**7))
    assert 0 < small < large
    assert estimate([unit(Loop())], lambda key: 10**9) < 100
    assert estimate([unit(), unit()], lambda key: 10**5) < 2 * estimate([unit()], lambda key: 10**5)
    assert estimate([], lambda key: 0) > 0  # so that a loop of an empty block ends its slice some time


def test_loops_and_branches_contain_blocks() -> None:
    assert contains_blocks(unit(Loop()))
    assert not contains_blocks(unit())


def test_a_region_is_shared_by_its_outer_points() -> None:
    (rows,) = laid_out(hr.nn.softmax, (hr.float32, (7, 5))).units
    (flat,) = laid_out(hr.exp, (hr.float32, (7, 5))).units
    assert (shared_points(rows), shared_points(flat)) == (7, 1)


@pytest.mark.parametrize(
    ("build", "size", "woken"),
    [
        (lambda x: x * 2.0 + 1.0, 100_000, False),  # measured: 4 us, twice less than waking a thread takes
        (lambda x: x * 2.0 + 1.0, 2_000_000, True),
        (hr.exp, 30_000, False),
        (hr.exp, 300_000, True),
        (lambda x: x**1.7, 30_000, True),
    ],
)
def test_threads_are_woken_for_what_takes_longer_than_that(build: Any, size: int, woken: bool) -> None:
    assert (taken(build, size) >= SERIAL_NANOSECONDS) is woken


def test_short_rows_take_longer_than_long_ones_and_wide_elements_than_narrow_ones() -> None:
    assert taken(hr.nn.softmax, 4096, 4) > 2 * taken(hr.nn.softmax, 16, 1024)
    assert taken(hr.exp, 4096, dtype=hr.float64) > 1.5 * taken(hr.exp, 4096)


def test_loads_from_places_apart_take_longer() -> None:
    assert taken(lambda x: hr.permute_dims(x, [1, 0]) + 1.0, 64, 64) > 2 * taken(lambda x: x + 1.0, 64, 64)
