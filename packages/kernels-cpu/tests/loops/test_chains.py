"""Functions in two halves and points loop by loop: the same bits as in one piece, in whole vectors and in the rest."""

from __future__ import annotations

import numpy as np
import pytest
from regions import native

from headrace import loops
from headrace.loops.ir import Region
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value, map_values
from headrace.types import Array, DType, bfloat16, float16, float32, float64
from headrace_cpu.loops import printer
from headrace_cpu.loops.chains import cut_functions, points_together, stored_sums


def region_of(value: Value, shape: tuple[int, ...], axes: tuple[int, ...] = ()) -> tuple[Region, list[str]]:
    (lowered,) = lower("test", shape, axes, {}, [Output("y", value)])
    return lowered.region, [str(key) for key in lowered.keys]


def cut_ops(region: Region) -> list[str]:
    return [expr.op for loop in region.loops for expr in cut_functions(loop)]


def result(region: Region, keys: list[str], x: Array, out: Array) -> Array:
    native(region)([{"x": x, "y": out}[key] for key in keys])
    return out


def test_sigmoid_and_tanh_of_what_is_cheap_are_cut() -> None:
    x = Value("input", float32, (64,), (), "x")
    inner = map_values("sigmoid", x * 2.0 + 1.0)
    region, _ = region_of(map_values("tanh", x) + map_values("tanh", inner) * map_values("exp", x), (64,))
    assert sorted(cut_ops(region)) == ["sigmoid", "tanh"]


def test_float64_is_not_cut() -> None:
    region, _ = region_of(map_values("tanh", Value("input", float64, (64,), (), "x")), (64,))
    assert cut_ops(region) == []


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16], ids=str)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 500, 512, 513, 2000])
def test_halves_give_the_bits_of_the_whole(
    name: str, dtype: DType, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = Value("input", dtype, (3, length), (), "x")
    region, keys = region_of(value * map_values(name, value * 3.0), (3, length))
    assert cut_ops(region) == [name]
    x = np.random.default_rng(0).normal(size=(3, length)).astype(dtype.array_type)
    x[0, 0] = np.nan
    cut = result(region, keys, x, np.zeros_like(x))
    monkeypatch.setattr(printer, "cut_functions", lambda loop: [])
    printer._printed.cache_clear()
    assert cut.tobytes() == result(region, keys, x, np.zeros_like(x)).tobytes()


def test_a_sum_of_halves_in_rows_that_are_not_whole_blocks() -> None:
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
    printer._printed.cache_clear()
    assert together.tobytes() == result(region, keys, x, np.zeros_like(x)).tobytes()
    assert np.isnan(together).all(axis=1).tolist() == [row == points // 2 for row in range(points)]


@pytest.mark.parametrize("points", [1, 9])
@pytest.mark.parametrize("length", [128, 511, 512, 513, 2000])
def test_a_sum_of_what_was_stored_has_the_bits_of_one_on_the_way(
    points: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    region, keys = region_of(softmax(Value("input", float32, (points, length), (), "x")), (points, length), (1,))
    assert [len(stored_sums(loop)) for loop in region.loops] == [0, 1, 0]
    x = np.random.default_rng(0).normal(size=(points, length)).astype(np.float32)
    x[0, 5] = -np.inf
    stored = result(region, keys, x, np.zeros_like(x))
    monkeypatch.setattr(printer, "stored_sums", lambda loop: [])
    printer._printed.cache_clear()
    assert stored.tobytes() == result(region, keys, x, np.zeros_like(x)).tobytes()


def test_short_rows_and_sums_of_what_is_cheap_are_added_up_on_the_way() -> None:
    def sums(value: Value, total: Value, length: int) -> list[int]:
        outputs = [Output("y", value), Output("total", total)]
        (lowered,) = lower("test", (3, length), (1,), {}, outputs)
        return [len(stored_sums(loop)) for loop in lowered.region.loops]

    for length, wanted in ((200, 1), (100, 0)):
        x = Value("input", float32, (3, length), (), "x")
        e, doubled = loops.exp(x), x + x
        assert max(sums(e, loops.sum(e, -1), length)) == wanted
        assert max(sums(doubled, loops.sum(doubled, -1), length)) == 0


@pytest.mark.parametrize("shape", [(4, 100), (64, 4000)])
def test_few_points_and_long_rows_are_computed_one_by_one(shape: tuple[int, int]) -> None:
    region, _ = region_of(softmax(Value("input", float32, shape, (), "x")), shape, (1,))
    assert points_together(region) == 1


def test_points_that_wait_for_no_total_are_computed_one_by_one() -> None:
    region, _ = region_of(loops.exp(Value("input", float32, (64, 100), (), "x")), (64, 100))
    assert points_together(region) == 1
