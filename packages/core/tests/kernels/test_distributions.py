"""Random numbers: TensorFlow's own, the same however they are cut, and with the moments they should have."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.kernels import distributions
from headrace.kernels.philox import CHUNK, PhiloxState

GOLDEN = json.loads((Path(__file__).parent / "goldens" / "random_numbers.json").read_text(encoding="utf-8"))["cases"]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
ULPS_FROM_TENSORFLOW = {"float16": 0, "bfloat16": 0, "float32": 2, "float64": 3}
Distribution = Callable[..., np.ndarray]
CONTINUOUS: list[Distribution] = [distributions.uniform, distributions.normal, distributions.truncated_normal]


def golden(*ops: str) -> list[Any]:
    chosen = [case for case in GOLDEN if case["op"] in ops]
    return [pytest.param(case, id=f"{case['op']}-{case['dtype']}-{number}") for number, case in enumerate(chosen)]


def start(case: dict[str, Any], blocks_per_execution: int | None = None) -> PhiloxState:
    """Where the operation of a golden case stood in its stream."""
    if "seeds" in case:
        return PhiloxState.from_stateless_seed(tuple(case["seeds"]))
    if blocks_per_execution is None:
        blocks_per_execution = math.prod(case["shape"]) * distributions.RESERVED_BLOCKS_PER_ELEMENT
    return PhiloxState.from_seeds(case["seed"], case["seed2"]).skip(case["execution"] * blocks_per_execution)


def ordered_bits(values: np.ndarray) -> list[int]:
    """Bit patterns as integers whose differences count representable numbers."""
    patterns = [int(bits) for bits in values.view(f"u{values.itemsize}")]
    sign = 1 << (8 * values.itemsize - 1)
    return [sign - pattern if pattern >= sign else pattern for pattern in patterns]


def expected(case: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(case["dtype"])
    return np.array([int(bits, 16) for bits in case["bits"]], f"u{dtype.itemsize}").view(dtype)


def at_places(values: np.ndarray, case: dict[str, Any]) -> np.ndarray:
    assert values.dtype == np.dtype(case["dtype"])
    assert list(values.shape) == case["shape"]
    return values.reshape(-1)[case["places"]]


@pytest.mark.parametrize("case", golden("RandomUniform", "StatelessRandomUniform"))
def test_uniform_equals_tensorflow(case: dict[str, Any]) -> None:
    values = distributions.uniform(start(case), tuple(case["shape"]), case["dtype"])
    assert np.array_equal(at_places(values, case), expected(case))


@pytest.mark.parametrize("case", golden("RandomUniformInt", "StatelessRandomUniformInt"))
def test_uniform_int_equals_tensorflow(case: dict[str, Any]) -> None:
    values = distributions.uniform_int(start(case), tuple(case["shape"]), case["low"], case["high"], case["dtype"])
    assert np.array_equal(at_places(values, case), expected(case))


@pytest.mark.parametrize("case", golden("StatelessRandomUniformFullInt"))
def test_uniform_full_int_equals_tensorflow(case: dict[str, Any]) -> None:
    values = distributions.uniform_full_int(start(case), tuple(case["shape"]), case["dtype"])
    assert np.array_equal(at_places(values, case), expected(case))


@pytest.mark.parametrize("case", golden("RandomStandardNormal", "StatelessRandomNormal"))
def test_normal_is_within_ulps_of_tensorflow(case: dict[str, Any]) -> None:
    values = at_places(distributions.normal(start(case), tuple(case["shape"]), case["dtype"]), case)
    pairs = zip(ordered_bits(values), ordered_bits(expected(case)), strict=True)
    assert max(abs(ours - theirs) for ours, theirs in pairs) <= ULPS_FROM_TENSORFLOW[case["dtype"]]


@pytest.mark.parametrize("case", golden("TruncatedNormal", "StatelessTruncatedNormal"))
def test_truncated_normal_is_within_ulps_of_tensorflow(case: dict[str, Any]) -> None:
    values = at_places(distributions.truncated_normal(start(case), tuple(case["shape"]), case["dtype"]), case)
    pairs = zip(ordered_bits(values), ordered_bits(expected(case)), strict=True)
    assert max(abs(ours - theirs) for ours, theirs in pairs) <= ULPS_FROM_TENSORFLOW[case["dtype"]]


@pytest.mark.parametrize("case", golden("RandomShuffle"))
def test_permutation_equals_tensorflow(case: dict[str, Any]) -> None:
    (size,) = case["shape"]
    order = distributions.permutation(start(case, (size + 2) // 4), size)
    assert order[case["places"]].tolist() == expected(case).tolist()


@pytest.mark.parametrize("case", golden("Multinomial"))
def test_categorical_equals_tensorflow(case: dict[str, Any]) -> None:
    samples = case["shape"][1]
    reserved = 3 * (-(-samples // 4) * 4) * 2 * distributions.RESERVED_BLOCKS_PER_ELEMENT
    state = start(case, reserved)
    values = distributions.categorical(state, np.array(case["logits"], np.float32), samples, np.int64)
    assert np.array_equal(at_places(values, case), expected(case))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("draw", CONTINUOUS)
def test_elements_do_not_depend_on_how_the_work_is_cut(draw: Distribution, dtype: Any) -> None:
    state = PhiloxState.from_seeds(6, 1)
    size = 4 * CHUNK + 7
    whole = draw(state, (size,), dtype)
    group = 2 if np.dtype(dtype) == np.float64 else 4
    blocks_per_group = 64 * group if draw is distributions.truncated_normal else 1
    cuts = [0, 4, 400, 4 * 999, 2 * CHUNK, size]
    with ThreadPoolExecutor(4) as pool:
        pieces = pool.map(
            lambda first, last: draw(state.skip(first // group * blocks_per_group), (last - first,), dtype),
            cuts[:-1],
            cuts[1:],
        )
        assert np.array_equal(whole, np.concatenate(list(pieces)))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("draw", CONTINUOUS)
def test_shape_and_dtype_are_those_asked_for(draw: Distribution, dtype: Any, shape: tuple[int, ...]) -> None:
    values = draw(PhiloxState(3, 4), shape, dtype)
    assert values.shape == shape
    assert values.dtype == dtype
    assert np.array_equal(values.reshape(-1), draw(PhiloxState(3, 4), (100,), dtype)[: values.size])


@pytest.mark.parametrize(("dtype", "bits"), list(zip(FLOATS, [10, 7, 23, 52], strict=True)))
def test_uniform_fills_the_unit_interval_evenly(dtype: Any, bits: int) -> None:
    values = distributions.uniform(PhiloxState.from_seeds(1, 3), (100000,), dtype).astype(np.float64)
    assert values.min() >= 0
    assert values.max() <= 1 - 2.0**-bits
    assert np.array_equal(values * 2.0**bits, np.rint(values * 2.0**bits))
    counts = np.bincount((values * 64).astype(int), minlength=64)
    chi_square = float(np.sum((counts - 100000 / 64) ** 2) / (100000 / 64))
    assert 30 < chi_square < 105  # 63 degrees of freedom: each bound is passed once in several thousand seeds


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_has_normal_moments(dtype: Any) -> None:
    values = distributions.normal(PhiloxState.from_seeds(1, 4), (200000,), dtype).astype(np.float64)
    moments = [np.mean(values**power) for power in (1, 2, 3, 4)]
    errors = np.array([1, 2, 15, 96]) ** 0.5 / 200000**0.5
    assert np.all(np.abs(np.array(moments) - [0, 1, 0, 3]) < 4.5 * errors)
    assert abs(np.mean(values[::2] * values[1::2])) < 4.5 / 100000**0.5


@pytest.mark.parametrize("dtype", FLOATS)
def test_truncated_normal_has_the_truncated_moments(dtype: Any) -> None:
    values = distributions.truncated_normal(PhiloxState.from_seeds(1, 5), (200000,), dtype).astype(np.float64)
    inside = math.erf(2**0.5)
    variance = 1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / inside
    assert np.abs(values).max() <= 2
    assert abs(values.mean()) < 4.5 * variance**0.5 / 200000**0.5
    assert values.var() == pytest.approx(variance, abs=0.01)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(np.int32, -3, 4), (np.int64, -3, 4), (np.int32, -(2**31), 2**31 - 1), (np.int64, 2**62, 2**62 + 1)],
)
def test_uniform_int_stays_in_its_half_open_range(dtype: Any, low: int, high: int) -> None:
    values = distributions.uniform_int(PhiloxState.from_seeds(1, 6), (70000,), low, high, dtype)
    assert values.dtype == dtype
    assert low <= int(values.min())
    assert int(values.max()) < high


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_uniform_int_draws_every_value_equally_often(dtype: Any) -> None:
    values = distributions.uniform_int(PhiloxState.from_seeds(1, 6), (70000,), -3, 4, dtype)
    assert np.all(np.abs(np.bincount(values + 3, minlength=7) - 10000) < 4.5 * 10000**0.5)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 257])
def test_permutation_holds_every_place_once(size: int) -> None:
    order = distributions.permutation(PhiloxState.from_seeds(1, 7), size)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(size))


def test_every_order_is_equally_likely() -> None:
    orders = [tuple(distributions.permutation(PhiloxState(8, block), 3).tolist()) for block in range(6000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    assert max(abs(count - 1000) for count in counts) < 4.5 * 1000**0.5


@pytest.mark.parametrize("dtype", FLOATS)
def test_categorical_follows_the_logits_and_never_draws_what_is_not_finite(dtype: Any) -> None:
    logits = np.array([[70, 69.5, 68, np.inf], [-3, -3, -2.5, np.nan], [-np.inf, 0, -1, 1]], dtype)
    values = distributions.categorical(PhiloxState.from_seeds(1, 8), logits, 40000, np.int32)
    assert values.dtype == np.int32
    weights = np.where(np.isfinite(logits), np.exp(logits.astype(np.float64)), 0)
    for row, probabilities in zip(values, weights / weights.sum(axis=1, keepdims=True), strict=True):
        frequencies = np.bincount(row, minlength=4) / 40000
        assert np.all(np.abs(frequencies - probabilities) <= 4.5 * (probabilities / 40000) ** 0.5)


def test_categorical_without_a_finite_logit_gives_the_number_of_classes() -> None:
    logits = np.array([[-np.inf, np.nan], [0.0, -np.inf]], np.float32)
    assert distributions.categorical(PhiloxState(1, 1), logits, 3, np.int64).tolist() == [[2, 2, 2], [0, 0, 0]]


@pytest.mark.parametrize("size", [1, 4 * CHUNK + 3])
@pytest.mark.parametrize("draw", CONTINUOUS)
def test_numbers_are_written_where_they_are_wanted(draw: Distribution, size: int) -> None:
    for dtype in FLOATS:
        memory = np.zeros(size + 2, dtype)
        result = draw(PhiloxState(3, 9), (size,), dtype, memory[1:-1])
        assert np.shares_memory(result, memory)
        assert np.array_equal(memory[1:-1], draw(PhiloxState(3, 9), (size,), dtype))
        assert memory[0] == memory[-1] == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_are_written_where_they_are_wanted(dtype: Any) -> None:
    memory = np.zeros((3, 5), dtype)
    assert distributions.uniform_int(PhiloxState(3, 9), (3, 5), 5, 9, dtype, memory) is not None
    assert np.array_equal(memory, distributions.uniform_int(PhiloxState(3, 9), (3, 5), 5, 9, dtype))
    distributions.uniform_full_int(PhiloxState(3, 9), (3, 5), dtype, memory)
    assert np.array_equal(memory, distributions.uniform_full_int(PhiloxState(3, 9), (3, 5), dtype))
