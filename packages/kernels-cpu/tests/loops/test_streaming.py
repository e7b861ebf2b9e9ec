"""Results written past the caches, rows read ahead: the same bits, wherever they begin and however long rows are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from regions import native

from headrace import loops
from headrace.loops.ir import Region
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value, map_values
from headrace.types import Array, DType, as_dtype, bfloat16, float16, float32, float64
from headrace_cpu.llvm.host import host
from headrace_cpu.loops import streaming
from headrace_cpu.loops.printer import print_region
from headrace_cpu.loops.streaming import AHEAD, Ahead, next_lines, next_rows, streamed_buffers

LANES = host().lanes


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "LARGE", 1)


def doubled(shape: tuple[int, ...], dtype: DType = float32) -> tuple[Region, list[str]]:
    x = Value("input", dtype, shape, (), "x")
    (lowered,) = lower(shape, (), {}, [Output("y", x + x)])
    return lowered.region, [str(key) for key in lowered.keys]


def normalized(shape: tuple[int, int]) -> tuple[Region, list[str]]:
    x = Value("input", float32, shape, (), "x")
    (lowered,) = lower(shape, (1,), {}, [Output("y", x - loops.max(x, -1, keepdims=True))])
    return lowered.region, [str(key) for key in lowered.keys]


def is_streamed(region: Region) -> bool:
    return "!nontemporal" in print_region(region, LANES).body


def placed(values: Array, shift: int) -> Array:
    """A copy that begins so many bytes after a line of the cache does."""
    memory = np.zeros(values.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    array = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def test_only_large_results_are() -> None:
    large, _ = doubled((4096, 4096))
    small, _ = doubled((64, 64))
    assert len(streamed_buffers(large, LANES)) == 1
    assert streamed_buffers(small, LANES) == frozenset()


def test_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    region, _ = doubled((4096, 4096))
    assert is_streamed(region)
    monkeypatch.setenv("HEADRACE_STREAMING", "off")
    assert not is_streamed(region)


@pytest.mark.usefixtures("small_caches")
def test_rows_of_whole_vectors_only() -> None:
    assert is_streamed(normalized((8, 4 * LANES))[0])
    assert not is_streamed(normalized((8, 4 * LANES + 1))[0])


@pytest.mark.usefixtures("small_caches")
def test_what_the_loops_read_may_be_written_in_place() -> None:
    region, keys = doubled((5000,))
    data = placed(np.arange(5000, dtype=np.float32), 0)
    native(region)([data] * len(keys))
    np.testing.assert_array_equal(data, 2 * np.arange(5000))


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16, as_dtype("int8"), as_dtype("bool")], ids=str)
@pytest.mark.parametrize("length", [1, LANES, LANES + 1, 5 * LANES - 1, 4096, 4096 + 3, 3 * 4096])
@pytest.mark.parametrize("shift", [0, 16, 32])
def test_gives_the_same_bits(dtype: DType, length: int, shift: int) -> None:
    x = Value("input", dtype, (length,), (), "x")
    value = map_values("not", x) if dtype.name == "bool" else x + x
    (lowered,) = lower((length,), (), {}, [Output("y", value)])
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2 if dtype.name == "bool" else 50, length).astype(dtype.array_type)
    wanted = ~data if dtype.name == "bool" else data + data
    guarded = placed(np.full(length + 64, 1).astype(dtype.array_type), shift)
    arrays = {"x": data, "y": guarded[:length]}
    native(lowered.region)([arrays[str(key)] for key in lowered.keys])
    np.testing.assert_array_equal(guarded[:length], wanted)
    assert (guarded[length:] == 1).all()


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("shape", [(9, 6 * LANES), (600, 20 * LANES)], ids=["one by one", "pipelined"])
def test_rows_with_totals(shape: tuple[int, int], shift: int) -> None:
    region, keys = normalized(shape)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    arrays = {"x": x, "y": placed(np.zeros_like(x), shift)}
    native(region)([arrays[key] for key in keys])
    np.testing.assert_array_equal(arrays["y"], x - x.max(axis=1, keepdims=True))


def asked(region: Region, ahead: Sequence[Ahead]) -> list[list[tuple[str, int]]]:
    """For each loop the roles of the buffers it asks for, with how far ahead."""
    return [sorted((region.buffers[buffer].role, step) for (buffer, _), step in loop) for loop in ahead]


def test_a_loop_that_reads_a_row_again_asks_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    region, _ = normalized((4096, 4096))
    assert asked(region, next_rows(region)) == [[], [("in", 4096)]]
    monkeypatch.setenv("HEADRACE_PIPELINING", "off")
    assert "@llvm.prefetch.p0" in print_region(region, LANES).body
    monkeypatch.setenv("HEADRACE_STREAMING", "off")
    assert "@llvm.prefetch.p0" not in print_region(region, LANES).body


def test_loops_side_by_side_ask_for_what_they_read_first_and_what_they_write(monkeypatch: pytest.MonkeyPatch) -> None:
    region, _ = normalized((4096, 4096))
    away = AHEAD // 4
    streamed = streamed_buffers(region, LANES)
    assert asked(region, next_lines(region, frozenset())) == [[("in", away)], [("out", away)]]
    assert asked(region, next_lines(region, streamed)) == [[("in", away)], []]
    body = print_region(region, LANES).body
    assert "@llvm.prefetch.p0" in body
    monkeypatch.setenv("HEADRACE_STREAMING", "off")
    assert "@llvm.prefetch.p0" not in print_region(region, LANES).body


@pytest.mark.parametrize(("name", "asks"), [("tanh", True), ("erf", True), ("exp", False), ("sqrt", False)])
def test_what_takes_long_asks_for_the_next_lines(name: str, asks: bool) -> None:
    x = Value("input", float32, (1 << 20,), (), "x")
    (lowered,) = lower((1 << 20,), (), {}, [Output("y", map_values(name, x))])
    assert ("@llvm.prefetch.p0" in print_region(lowered.region, LANES).body) is asks
    small = Value("input", float32, (1 << 10,), (), "x")
    (lowered,) = lower((1 << 10,), (), {}, [Output("y", map_values(name, small))])
    assert "@llvm.prefetch.p0" not in print_region(lowered.region, LANES).body


def test_what_caches_hold_and_what_is_read_once_is_not_read_ahead() -> None:
    small, large = normalized((64, 64))[0], doubled((4096, 4096))[0]
    assert not any(next_rows(small))
    assert not any(next_lines(small, frozenset()))
    assert not any(next_rows(large))


def test_what_is_the_same_for_every_row_has_no_next_one() -> None:
    shape = (4, 1 << 23)
    gains = loops.broadcast_to(Value("input", float32, shape[1:], (), "gains"), shape)
    scaled = Value("input", float32, shape, (), "x") * gains
    (lowered,) = lower(shape, (1,), {}, [Output("y", scaled - loops.max(scaled, -1, keepdims=True))])
    assert asked(lowered.region, next_rows(lowered.region)) == [[], [("in", 1 << 23)]]
