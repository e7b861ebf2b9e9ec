"""Registers and points side by side, sums apart: the bits of one after the other, in whole vectors and in the rest."""

from __future__ import annotations

import numpy as np
import pytest
from regions import native

from headrace import loops
from headrace.loops.ir import Region
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value, map_values
from headrace.types import Array, DType, bfloat16, float16, float32, float64
from headrace_cpu.loops import loop_code, printer
from headrace_cpu.loops.chains import points_together, registers_together, sums_apart


def region_of(value: Value, shape: tuple[int, ...], axes: tuple[int, ...] = ()) -> tuple[Region, list[str]]:
    (lowered,) = lower(shape, axes, {}, [Output("y", value)])
    return lowered.region, [str(key) for key in lowered.keys]


def result(region: Region, keys: list[str], x: Array, out: Array) -> Array:
    native(region)([{"x": x, "y": out}[key] for key in keys])
    return out


def registers(value: Value, shape: tuple[int, ...], axes: tuple[int, ...] = ()) -> list[int]:
    return [registers_together(loop, 16) for loop in region_of(value, shape, axes)[0].loops if loop.axes]


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [("tanh", float32, 8), ("exp", float16, 8), ("sin", float32, 4), ("tanh", float64, 4), ("abs", float32, 1)],
    ids=str,
)
def test_functions_are_computed_for_several_registers(name: str, dtype: DType, wanted: int) -> None:
    value = Value("input", dtype, (3, 1000), (), "x")
    assert registers(map_values(name, value) + value, (3, 1000)) == [wanted]


@pytest.mark.parametrize(("length", "wanted"), [(15, 1), (16, 1), (31, 1), (32, 2), (100, 4), (127, 4), (128, 8)])
def test_there_are_no_more_registers_than_the_row_has(length: int, wanted: int) -> None:
    assert registers(map_values("exp", Value("input", float32, (length,), (), "x")), (length,)) == [wanted]


def test_an_accumulator_does_not_wait_for_itself() -> None:
    x = Value("input", float32, (3, 1000), (), "x")
    assert registers(loops.sum(x, [1]), (3, 1000), (1,)) == [4]


def test_lanes_that_do_not_lie_side_by_side_are_not_joined() -> None:
    x = Value("input", float32, (3, 1000), (), "x")
    turned = map_values("exp", loops.transpose(x, (1, 0)))
    assert registers(turned, (1000, 3)) == [1]


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "exp", "log", "erf", "sin", "expm1", "rsqrt"])
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16], ids=str)
@pytest.mark.parametrize("length", [15, 17, 127, 128, 129, 150, 2000])
def test_several_registers_give_the_bits_of_each_alone(
    name: str, dtype: DType, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = Value("input", dtype, (3, length), (), "x")
    region, keys = region_of(value * map_values(name, value * 3.0), (3, length))
    x = np.random.default_rng(0).normal(size=(3, length)).astype(dtype.array_type)
    x[:2, 0] = np.nan, -np.nan
    joined = result(region, keys, x, np.zeros_like(x))
    monkeypatch.setattr(loop_code, "registers_together", lambda loop, lanes: 1)
    assert joined.tobytes() == result(region, keys, x, np.zeros_like(x)).tobytes()


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 700, 4096])
def test_reductions_over_several_registers_miss_nothing(op: str, length: int) -> None:
    x = Value("input", float32, (5, length), (), "x")
    region, keys = region_of(getattr(loops, op)(x, [1]), (5, length), (1,))
    data = np.random.default_rng(0).integers(-1000, 1000, (5, length)).astype(np.float32)
    found = result(region, keys, data, np.zeros(5, np.float32))
    assert found.tolist() == getattr(np, op)(data, axis=1).tolist()


def test_a_sum_of_functions_over_registers_and_the_rest() -> None:
    x = Value("input", float32, (5, 700), (), "x")
    region, keys = region_of(loops.sum(map_values("sigmoid", x * x), [1]), (5, 700), (1,))
    data = np.random.default_rng(0).normal(size=(5, 700)).astype(np.float32)
    found = result(region, keys, data, np.zeros(5, np.float32))
    np.testing.assert_allclose(found, (1 / (1 + np.exp(-(data.astype(np.float64) ** 2)))).sum(1), rtol=2e-7)


def test_a_result_may_lie_where_its_operand_does() -> None:
    x = Value("input", float32, (1100,), (), "x")
    region, keys = region_of(x * map_values("sigmoid", x + 1.0), (1100,))
    data = np.random.default_rng(0).normal(size=1100).astype(np.float32)
    apart = result(region, keys, data, np.zeros_like(data))
    assert result(region, keys, data, data).tobytes() == apart.tobytes()


def softmax(x: Value) -> Value:
    e = loops.exp(x - loops.max(x, -1, keepdims=True))
    return e / loops.sum(e, -1, keepdims=True)


@pytest.mark.parametrize("length", [1, 16, 100])
@pytest.mark.parametrize("points", [8, 9, 23])
def test_points_loop_by_loop_have_the_bits_of_each_alone(
    points: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    region, keys = region_of(softmax(Value("input", float32, (points, length), (), "x")), (points, length), (1,))
    assert points_together(region) == 2
    x = np.random.default_rng(0).normal(size=(points, length)).astype(np.float32)
    x[points // 2, 0] = np.nan
    together = result(region, keys, x, np.zeros_like(x))
    monkeypatch.setattr(printer, "points_together", lambda region: 1)
    assert together.tobytes() == result(region, keys, x, np.zeros_like(x)).tobytes()
    assert np.isnan(together).all(axis=1).tolist() == [row == points // 2 for row in range(points)]


@pytest.mark.parametrize("points", [1, 9])
@pytest.mark.parametrize("length", [128, 511, 512, 513, 2000])
def test_a_sum_of_what_was_stored_has_the_bits_of_one_on_the_way(
    points: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    region, keys = region_of(softmax(Value("input", float32, (points, length), (), "x")), (points, length), (1,))
    assert [len(loop.accumulates) for loop in sums_apart(region, frozenset()).loops] == [1, 0, 1, 0]
    x = np.random.default_rng(0).normal(size=(points, length)).astype(np.float32)
    x[0, 5] = -np.inf
    stored = result(region, keys, x, np.zeros_like(x))
    monkeypatch.setattr(printer, "sums_apart", lambda region, streamed: region)
    assert stored.tobytes() == result(region, keys, x, np.zeros_like(x)).tobytes()


def summed(value: Value, total: Value, length: int) -> Region:
    outputs = [Output("y", value), Output("total", total)]
    (lowered,) = lower((3, length), (1,), {}, outputs)
    return lowered.region


@pytest.mark.parametrize(("length", "is_apart"), [(200, True), (100, False)])
def test_short_rows_are_added_up_on_the_way(length: int, is_apart: bool) -> None:
    e = loops.exp(Value("input", float32, (3, length), (), "x"))
    region = summed(e, loops.sum(e, -1), length)
    assert (sums_apart(region, frozenset()) is not region) is is_apart


def test_sums_of_what_is_cheap_or_written_past_the_caches_are_added_up_on_the_way() -> None:
    x = Value("input", float32, (3, 200), (), "x")
    cheap = summed(x + x, loops.sum(x + x, -1), 200)
    assert sums_apart(cheap, frozenset()) is cheap
    region = summed(loops.exp(x), loops.sum(loops.exp(x), -1), 200)
    assert sums_apart(region, frozenset(range(len(region.buffers)))) is region


@pytest.mark.parametrize("shape", [(4, 100), (64, 4000)])
def test_few_points_and_long_rows_are_computed_one_by_one(shape: tuple[int, int]) -> None:
    region, _ = region_of(softmax(Value("input", float32, shape, (), "x")), shape, (1,))
    assert points_together(region) == 1


def test_points_that_wait_for_no_total_are_computed_one_by_one() -> None:
    region, _ = region_of(loops.exp(Value("input", float32, (64, 100), (), "x")), (64, 100))
    assert points_together(region) == 1
