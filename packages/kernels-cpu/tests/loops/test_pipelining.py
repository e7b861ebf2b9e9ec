"""Rows in stages: the bits of one row after the other, wherever threads begin and end, also in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from regions import native

from headrace import loops
from headrace.loops.interpreter import run_region
from headrace.loops.ir import Region
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value, map_values
from headrace.types import Array, DType, bfloat16, float16, float32, float64, int32
from headrace_cpu.loops import pipelining
from headrace_cpu.loops.chains import sums_apart
from headrace_cpu.loops.pipelining import MANY, pipeline_of

THREADS = 4
ROWS = THREADS * MANY + 9


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelining, "_threads", lambda: THREADS)


def softmax(x: Value) -> Value:
    e = loops.exp(x - loops.max(x, -1, keepdims=True))
    return e * (1.0 / loops.sum(e, -1, keepdims=True))


def log_softmax(x: Value) -> Value:
    shifted = x - loops.max(x, -1, keepdims=True)
    return shifted - map_values("log", loops.sum(loops.exp(shifted), -1, keepdims=True))


def normalized(x: Value) -> Value:
    centered = x - loops.mean(x, -1, keepdims=True)
    return centered * map_values("rsqrt", loops.mean(centered * centered, -1, keepdims=True) + 1e-5)


def above_mean(x: Value) -> Value:
    return x > loops.mean(x, -1, keepdims=True)


FORMS: list[Callable[[Value], Value]] = [softmax, log_softmax, normalized, above_mean]


def region_of(outputs: Sequence[Value], shape: tuple[int, ...]) -> tuple[Region, list[str]]:
    named = [Output(f"y{number}", value) for number, value in enumerate(outputs)]
    (lowered,) = lower(shape, (len(shape) - 1,), {}, named)
    return lowered.region, [str(key) for key in lowered.keys]


def given(name: str, shape: tuple[int, ...], dtype: DType = float32) -> Value:
    return Value("input", dtype, shape, (), name)


def data(shape: tuple[int, ...], dtype: DType = float32) -> Array:
    x = np.random.default_rng(0).normal(size=shape) * 3
    x = x.astype(dtype.array_type)
    if dtype.is_floating:
        x[3, 5], x[7], x[8, 2], x[-1, -1] = np.nan, -np.inf, np.inf, np.nan
    return x


def both(
    monkeypatch: pytest.MonkeyPatch, region: Region, keys: Sequence[str], arrays: dict[str, Array], **how: Any
) -> list[dict[str, Array]]:
    """What a region makes of arrays, pipelined and not."""
    results = []
    for setting in ("on", "off"):
        monkeypatch.setenv("HEADRACE_PIPELINING", setting)
        assert (pipeline_of(region) is not None) is (setting == "on")
        copies = {key: array.copy() for key, array in arrays.items()}
        native(region, **how)([copies[key] for key in keys])
        results.append(copies)
    return results


def assert_same_bits(one: dict[str, Array], other: dict[str, Array]) -> None:
    assert {key: array.tobytes() for key, array in one.items()} == {
        key: array.tobytes() for key, array in other.items()
    }


@pytest.mark.parametrize("length", [128, 129, 200, 512, 600, 1100])
@pytest.mark.parametrize("form", FORMS)
def test_the_bits_of_one_row_after_the_other(
    form: Callable[[Value], Value], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (ROWS, length)
    y = form(given("x", shape))
    region, keys = region_of([y], shape)
    arrays = {"x": data(shape), "y0": np.zeros(shape, y.dtype.array_type)}
    staged, plain = both(monkeypatch, region, keys, arrays)
    assert_same_bits(staged, plain)
    assert staged["y0"].any()


@pytest.mark.parametrize("dtype", [float16, bfloat16, float64, int32], ids=str)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_other_types_and_registers(dtype: DType, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (ROWS, 150)
    x = given("x", shape, dtype)
    y = x - loops.max(x, -1, keepdims=True) if dtype is int32 else normalized(x)
    region, keys = region_of([y], shape)
    arrays = {"x": data(shape, dtype), "y0": np.zeros(shape, dtype.array_type)}
    assert_same_bits(*both(monkeypatch, region, keys, arrays, lanes=lanes))


@pytest.mark.parametrize("cuts", [(1,), (0,), (ROWS - 1,), (ROWS,), (2, 5), (1, 2, 3, 4), (200, 200, 203)], ids=str)
def test_threads_may_have_few_rows_or_none(cuts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (ROWS, 140)
    region, keys = region_of([softmax(given("x", shape))], shape)
    longer = (ROWS + 1, 140)  # a row behind the others that nothing may be written to
    staged, plain = both(monkeypatch, region, keys, {"x": data(longer), "y0": np.zeros(longer, np.float32)}, cuts=cuts)
    assert_same_bits(staged, plain)
    assert not staged["y0"][ROWS].any()


@pytest.mark.parametrize("form", [softmax, log_softmax, normalized])
@pytest.mark.parametrize("length", [200, 700])
def test_a_result_may_lie_where_the_rows_do(
    form: Callable[[Value], Value], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late stages write rows of which early ones are already beyond; in vain they must write elsewhere."""
    shape = (ROWS, length)
    region, keys = region_of([form(given("x", shape))], shape)
    apart, _ = both(monkeypatch, region, keys, {"x": data(shape), "y0": np.zeros(shape, np.float32)})
    monkeypatch.setenv("HEADRACE_PIPELINING", "on")
    x = data(shape)
    native(region, cuts=(7, 300))([x for _ in keys])
    assert x.tobytes() == apart["y0"].tobytes()


def test_several_results_and_operands_and_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (ROWS, 260)
    x, dy = given("x", shape), given("dy", shape)
    gains = loops.broadcast_to(given("gains", shape[1:]), shape)
    y = softmax(x * gains)
    gradient = y * (dy - loops.sum(dy * y, -1, keepdims=True))
    total = loops.sum(gradient * gradient, -1)
    region, keys = region_of([y, gradient, total], shape)
    arrays = {"x": data(shape), "dy": data(shape)[::-1].copy(), "gains": data(shape)[0]}
    arrays |= {"y0": np.zeros(shape, np.float32), "y1": np.zeros(shape, np.float32), "y2": np.zeros(ROWS, np.float32)}
    staged, plain = both(monkeypatch, region, keys, arrays, cuts=(1, 100))
    assert_same_bits(staged, plain)
    assert np.isfinite(staged["y2"]).sum() > ROWS // 2


def test_rows_of_several_outer_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (3, ROWS // 2, 130)
    x = loops.transpose(given("x", (ROWS // 2, 3, 130)), (1, 0, 2))
    region, keys = region_of([softmax(x)], shape)
    turned = np.ascontiguousarray(data((3 * (ROWS // 2), 130)).reshape(ROWS // 2, 3, 130))
    assert_same_bits(*both(monkeypatch, region, keys, {"x": turned, "y0": np.zeros(shape, np.float32)}))


def test_the_interpreter_agrees() -> None:
    shape = (ROWS, 131)
    region, keys = region_of([softmax(given("x", shape))], shape)
    assert pipeline_of(region) is not None
    arrays = {"x": data(shape), "y0": np.zeros(shape, np.float32)}
    native(region)([arrays[key] for key in keys])
    wanted = {"x": arrays["x"], "y0": np.zeros(shape, np.float32)}
    run_region(region, [wanted[key].reshape(-1) for key in keys])
    np.testing.assert_allclose(arrays["y0"], wanted["y0"], rtol=4e-7, atol=1e-44)


def test_any_and_all_are_kept_for_later_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (ROWS, 300)
    x = given("x", shape)
    positive = loops.any(x > 8.0, -1, keepdims=True)
    shifted = x - loops.max(x, -1, keepdims=True)
    y = map_values("exp", loops.where(positive, shifted * 2.0, shifted))
    region, keys = region_of([y], shape)
    staged, plain = both(monkeypatch, region, keys, {"x": data(shape), "y0": np.zeros(shape, np.float32)})
    assert_same_bits(staged, plain)


def plain_shape(rows: int, length: int) -> tuple[Region, list[str]]:
    return region_of([softmax(given("x", (rows, length)))], (rows, length))


def test_few_rows_or_short_ones_or_those_that_caches_do_not_hold_are_not_pipelined() -> None:
    assert pipeline_of(plain_shape(THREADS * MANY, 128)[0]) is not None
    assert pipeline_of(plain_shape(THREADS * MANY - 1, 128)[0]) is None
    assert pipeline_of(plain_shape(ROWS, 127)[0]) is None
    assert pipeline_of(plain_shape(ROWS, 1 << 16)[0]) is not None
    assert pipeline_of(plain_shape(ROWS, (1 << 16) + 1)[0]) is None


def test_powers_and_quotients_of_integers_and_much_code_are_not_pipelined() -> None:
    shape = (ROWS, 200)
    x, n = given("x", shape), given("n", shape, int32)
    much = softmax(x)
    for number in range(40):
        much = much * float(number) + x
    for y in (
        softmax(map_values("pow", x, x)),
        n - map_values("quot", n, loops.max(n, -1, keepdims=True)),
        much,
    ):
        region, _ = region_of([y], shape)
        assert len(region.loops) > 1
        assert pipeline_of(region) is None


def test_rows_that_do_not_lie_side_by_side_are_not_pipelined() -> None:
    turned = loops.transpose(given("x", (200, ROWS)), (1, 0))
    assert pipeline_of(region_of([softmax(turned)], (ROWS, 200))[0]) is None


def test_long_rows_are_added_up_on_the_way_where_copies_would_not_fit() -> None:
    """The printer then takes the form without a loop of its own for the sum; the results are the same."""
    for length, loops_side_by_side in ((1000, 4), (12_000, 3)):
        region, keys = plain_shape(ROWS, length)
        x = np.random.default_rng(0).normal(size=(ROWS, length)).astype(np.float32)
        y = np.zeros_like(x)
        native(region)([{"x": x, "y0": y}[key] for key in keys])
        e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=4e-7)
        form = next(form for form in (sums_apart(region, frozenset()), region) if pipeline_of(form) is not None)
        assert len(form.loops) == loops_side_by_side


def test_one_loop_is_no_pipeline() -> None:
    x = given("x", (ROWS, 200))
    assert pipeline_of(region_of([x * 2.0], (ROWS, 200))[0]) is None
    assert pipeline_of(region_of([loops.sum(x, -1)], (ROWS, 200))[0]) is None


@pytest.mark.parametrize("length", [200, 20_000])
def test_totals_of_short_rows_have_the_time_of_another_row(length: int) -> None:
    shape = (ROWS, length)
    found = pipeline_of(region_of([softmax(given("x", shape))], shape)[0])
    assert found is not None
    assert found.distance == (2 if length == 200 else 1)
    assert found.behind == 2 * found.distance
    assert {age for (kind, _), age in found.oldest.items() if kind == "row"} == {found.distance}


def test_copies_of_row_buffers_do_not_fill_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    region, _ = region_of([softmax(given("x", (ROWS, 200)))], (ROWS, 200))
    monkeypatch.setattr(pipelining, "KEPT", 799)
    assert pipeline_of(region) is None
    monkeypatch.setattr(pipelining, "KEPT", 800)
    assert pipeline_of(region) is not None
