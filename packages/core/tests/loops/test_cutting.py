"""Cutting: where axes are cut in tiles and reductions in two stages, and that both give what NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from headrace import loops
from headrace.loops.interpreter import run_region
from headrace.loops.ir import Axis
from headrace.loops.lowering import LoweredRegion, Output, Partial, lower
from headrace.loops.value import Value
from headrace.loops.verifier import verify_region
from headrace.types import Array, float32


def value_of(*shape: int) -> Value:
    return Value("input", float32, shape, (), "x")


def results(regions: list[LoweredRegion], x: Array) -> dict[object, Array]:
    memory: dict[object, Array] = {"x": x.reshape(-1)}
    for lowered in regions:
        verify_region(lowered.region)
        kinds = [buffer for buffer in lowered.region.buffers if buffer.role != "row"]
        for key, kind in zip(lowered.keys, kinds, strict=True):
            memory.setdefault(key, np.zeros(kind.size, kind.dtype.array_type))
        run_region(lowered.region, [memory[key] for key in lowered.keys])
    return memory


def test_a_long_axis_is_cut_in_tiles() -> None:
    (lowered,) = lower((10_000,), (), {}, [Output("y", value_of(10_000) * 2.0)])
    assert (lowered.region.outer, lowered.region.loops[0].axes) == ((3,), (Axis(1, 4096, 0, 10_000),))
    x = np.arange(10_000, dtype=np.float32)
    np.testing.assert_array_equal(results([lowered], x)["y"], 2 * x)


def test_an_index_along_an_axis_that_is_cut_counts_from_its_start() -> None:
    positions = loops.cast(loops.index((10_000,), 0), float32)
    regions = lower((10_000,), (), {}, [Output("y", value_of(10_000) + positions)])
    found = results(regions, np.zeros(10_000, np.float32))["y"]
    np.testing.assert_array_equal(found, np.arange(10_000, dtype=np.float32))


@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 40_000), (1,)), ((40_000, 3), (0,)), ((2, 700, 100), (1,)), ((2, 700, 600), (1,))]
)
def test_a_reduction_of_much_to_little_has_two_stages(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    value = value_of(*shape)
    outputs = [
        Output("sum", loops.sum(value, axes)),
        Output("mean", loops.mean(value, axes)),
        Output("negative", -value),
    ]
    regions = lower(shape, axes, {}, outputs[:2])
    assert len(regions) == 2
    assert Partial(0) in regions[0].keys
    assert Partial(0) in regions[1].keys
    found = results(regions, x)
    np.testing.assert_allclose(found["sum"], x.sum(axes, dtype=np.float64).reshape(-1), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found["mean"], x.mean(axes, dtype=np.float64).reshape(-1), rtol=1e-5, atol=1e-6)
    with_map = results(lower(shape, axes, {}, outputs), x)
    np.testing.assert_array_equal(with_map["negative"], -x.reshape(-1))
    np.testing.assert_array_equal(with_map["sum"], found["sum"])


@pytest.mark.parametrize(
    ("shape", "axes"), [((16, 40_000), (1,)), ((3, 32_768), (1,)), ((40, 512), (0,)), ((64, 10_000), (0,))]
)
def test_what_is_shared_or_short_has_one_stage(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    regions = lower(shape, axes, {}, [Output("y", loops.sum(value_of(*shape), axes))])
    assert len(regions) == 1


def test_a_reduction_that_speaks_of_an_index_has_one_stage() -> None:
    weighted = value_of(100_000) * loops.cast(loops.index((100_000,), 0), float32)
    (lowered,) = lower((100_000,), (0,), {}, [Output("y", loops.sum(weighted))])
    assert len(lowered.region.loops) == 2


def test_rows_that_are_gone_over_again_have_one_stage() -> None:
    x = value_of(2, 40_000)
    (lowered,) = lower(x.shape, (1,), {}, [Output("y", x - loops.max(x, 1, keepdims=True))])
    assert len(lowered.region.loops) == 2
