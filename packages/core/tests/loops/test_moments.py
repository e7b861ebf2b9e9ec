"""Mean and mean square distance from one walk over a row: as exact as from two, where one walk is known to fail too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headrace import loops
from headrace.loops.interpreter import run_region
from headrace.loops.lowering import LoweredRegion, Output, lower
from headrace.loops.value import Value
from headrace.loops.verifier import verify_region
from headrace.types import Array, DType, float32, float64


def lowered(shape: tuple[int, int], build: Callable[[Value], list[Value]], dtype: DType = float32) -> LoweredRegion:
    x = Value("input", dtype, shape, (), "x")
    outputs = [Output(number, value) for number, value in enumerate(build(x))]
    (region,) = lower(shape, (1,), {}, outputs)
    verify_region(region.region)
    return region


def moments(x: Value) -> list[Value]:
    mean = loops.mean(x, -1, keepdims=True)
    return [mean, loops.mean((x - mean) * (x - mean), -1, keepdims=True)]


def normalized(x: Value) -> list[Value]:
    mean, variance = moments(x)
    return [(x - mean) / loops.sqrt(variance + 1e-5)]


def results(region: LoweredRegion, x: Array) -> dict[object, Array]:
    given = (buffer for buffer in region.region.buffers if buffer.role != "row")
    memory = {
        key: np.zeros(buffer.size, buffer.dtype.array_type) for key, buffer in zip(region.keys, given, strict=True)
    }
    memory["x"] = np.ascontiguousarray(x).reshape(-1)
    run_region(region.region, [memory[key] for key in region.keys])
    return memory


def walks(region: LoweredRegion) -> int:
    return sum(bool(loop.axes) for loop in region.region.loops)


def test_a_row_is_walked_once_for_both_and_once_for_what_follows() -> None:
    assert walks(lowered((3, 40), moments)) == 1
    assert walks(lowered((3, 40), normalized)) == 2


def test_the_order_of_a_difference_does_not_matter() -> None:
    def build(x: Value) -> list[Value]:
        distance = loops.mean(x, -1, keepdims=True) - x
        return [loops.sum(distance * distance, -1)]

    assert walks(lowered((3, 40), build)) == 1


def test_what_is_computed_before_is_summed_too() -> None:
    assert walks(lowered((3, 40), lambda x: normalized(x * 2.0 + x))) == 2


def test_distances_from_something_else_and_in_float64_are_walked_over_again() -> None:
    def from_the_largest(x: Value) -> list[Value]:
        distance = x - loops.max(x, -1, keepdims=True)
        return [loops.sum(distance * distance, -1), loops.sum(x, -1)]

    assert walks(lowered((3, 40), from_the_largest)) == 2
    assert walks(lowered((3, 40), moments, float64)) == 2


def test_a_result_may_still_lie_where_its_operand_does() -> None:
    region = lowered((3, 40), normalized)
    assert "x" in region.identity
    x = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    apart = results(region, x)[0]
    memory = x.copy().reshape(-1)
    run_region(region.region, [memory] * len(region.keys))
    np.testing.assert_array_equal(memory, apart)


OFFSETS: dict[str, Callable[[np.random.Generator], Array]] = {
    "around zero": lambda rng: rng.normal(size=500),
    "far from zero": lambda rng: 1e6 + rng.normal(size=500),
    "one unit in the last place": lambda rng: 1.0 + 2.0**-23 * rng.integers(0, 2, 500),
    "an outlier comes first": lambda rng: np.concatenate([[1e8], rng.normal(size=499)]),
    "an outlier comes last": lambda rng: np.concatenate([rng.normal(size=499), [1e8]]),
    "an outlier first, the rest far from zero": lambda rng: np.concatenate([[-3e7], 1e6 + rng.normal(size=499)]),
    "denormals": lambda rng: 1e-40 * rng.normal(size=500),
    "one element": lambda rng: rng.normal(size=1),
    "a constant": lambda rng: np.full(500, 0.1),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_as_exact_as_float64(name: str) -> None:
    x = OFFSETS[name](np.random.default_rng(0)).astype(np.float32)[None]
    found = results(lowered((1, x.size), moments), x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found[0], wide.mean(1), rtol=3e-7, atol=1e-45)
    around = np.square(wide - found[0]).mean(1)  # the mean that distances are from is rounded, as it always was
    np.testing.assert_allclose(found[1], around, rtol=3e-7, atol=1e-45)


def test_a_sum_on_the_way_may_be_larger_than_float32() -> None:
    x = np.array([[3e38, 3e38, -3e38, -3e38]], np.float32)
    total = results(lowered((1, 4), lambda x: [loops.sum(x, -1), *moments(x)]), x)
    np.testing.assert_array_equal(total[0], np.float32(0))


@pytest.mark.parametrize(("row", "mean"), [
    ([1, np.inf, 2], np.inf), ([np.inf, 1, 2], np.inf), ([-np.inf, 1], -np.inf), ([np.inf, -np.inf], np.nan),
    ([np.nan, 1, 2], np.nan), ([1, np.nan], np.nan), ([np.inf, np.inf], np.inf),
])  # fmt: skip
def test_what_is_not_finite_stays_so(row: list[float], mean: float) -> None:
    found = results(lowered((1, len(row)), moments), np.asarray([row], np.float32))
    np.testing.assert_array_equal(found[0], np.float32(mean))
    assert np.isnan(found[1]).all()
