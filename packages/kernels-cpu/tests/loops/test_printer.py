"""Machine code against the interpreter, which is the meaning of the loop IR, on generated regions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from regions import native

from headrace import loops
from headrace.loops.interpreter import run_region
from headrace.loops.lowering import LoweredRegion, NotLowered, Output, lower
from headrace.loops.value import Value, constant, map_values
from headrace.loops.verifier import verify_region
from headrace.types import Array, DType, as_dtype, bfloat16, float16, float32, float64
from headrace_cpu.llvm.host import host

DTYPES = [as_dtype(name) for name in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8")]
TOLERANCE = {"float32": 2e-6, "float64": 1e-13, "float16": 4e-3, "bfloat16": 3e-2}


def both(
    regions: list[LoweredRegion], data: dict[Any, Array], lanes: int | None = None
) -> tuple[dict[Any, Array], ...]:
    """The memory after the interpreter, and after machine code."""
    found = []
    for mode in ("interpreted", "compiled"):
        memory = {key: value.copy() for key, value in data.items()}
        behind: list[Array] = []
        for lowered in regions:
            verify_region(lowered.region)
            plain = [buffer for buffer in lowered.region.buffers if buffer.role != "row"]
            for key, buffer in zip(lowered.keys, plain, strict=True):
                if key not in memory:
                    room = np.full(buffer.size + 64, 7).astype(buffer.dtype.array_type)
                    memory[key] = room[: buffer.size]
                    behind.append(room[buffer.size :])
            buffers = [memory[key] for key in lowered.keys]
            run_region(lowered.region, buffers) if mode == "interpreted" else native(lowered.region, lanes)(buffers)
        found.append(memory)
        for beyond in behind:
            assert (beyond.astype(np.float64) == 7).all()
    return tuple(found)


def check(space: tuple[int, ...], axes: tuple[int, ...], values: list[Value], data: dict[Any, Array]) -> None:
    outputs = [Output(("out", number), value) for number, value in enumerate(values)]
    wanted, given_ = both(lower(space, axes, {}, outputs), data)
    for output in outputs:
        limit = TOLERANCE.get(output.value.dtype.name, 0)
        a, b = (memory[output.key].astype(np.float64) for memory in (given_, wanted))
        np.testing.assert_allclose(a, b, rtol=limit, atol=limit, equal_nan=True)


def array_of(dtype: DType, size: int, rng: np.random.Generator) -> Array:
    if dtype.is_floating:
        return rng.normal(size=size).astype(dtype.array_type)
    return rng.integers(0, 50, size).astype(dtype.array_type)


@st.composite
def elementwise(draw: Any) -> tuple[DType, tuple[int, ...], list[tuple[int, ...]], list[tuple[str, int, int]]]:
    dtype = draw(st.sampled_from(DTYPES))
    space = tuple(draw(st.lists(st.integers(1, 37), min_size=1, max_size=3)))
    shapes = [tuple(draw(st.sampled_from([1, size])) for size in space) for _ in range(2)]
    names = ["add", "sub", "mul", "max", "min"] + (["div"] if dtype.is_floating else ["and", "or", "xor"])
    steps = draw(
        st.lists(st.tuples(st.sampled_from(names), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5)
    )
    return dtype, space, [space, *shapes], steps


@settings(max_examples=60, deadline=None, derandomize=True)
@given(elementwise())
def test_element_by_element(
    case: tuple[DType, tuple[int, ...], list[tuple[int, ...]], list[tuple[str, int, int]]],
) -> None:
    dtype, space, shapes, steps = case
    rng = np.random.default_rng(0)
    values = [Value("input", dtype, shape, (), number) for number, shape in enumerate(shapes)]
    data: dict[Any, Array] = {n: array_of(dtype, math.prod(shape), rng) for n, shape in enumerate(shapes)}
    for op, a, b in steps:
        values.append(map_values(op, values[a % len(values)], values[b % len(values)]))
    with np.errstate(all="ignore"):
        check(space, (), [loops.broadcast_to(values[-1], space)], data)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sets(st.integers(0, 3), min_size=1),
    st.sampled_from(["sum", "max", "min"]),
)
def test_reductions_over_any_axes(dtype: DType, sizes: list[int], chosen: set[int], op: str) -> None:
    space = tuple(sizes)
    axes = tuple(sorted({axis % len(space) for axis in chosen}))
    x = Value("input", dtype, space, (), "x")
    data: dict[Any, Array] = {"x": array_of(dtype, math.prod(space), np.random.default_rng(0))}
    check(space, axes, [getattr(loops, op)(x, axes), x * 2], data)


@pytest.mark.parametrize("length", range(1, 34))
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_every_length_meets_body_and_rest(length: int, lanes: int) -> None:
    if lanes == 1 and length > 3:
        return
    x, y = (Value("input", float32, (3, length), (), key) for key in "xy")
    rng = np.random.default_rng(0)
    data: dict[Any, Array] = {key: array_of(float32, 3 * length, rng) for key in "xy"}
    e = loops.exp(x - loops.max(x, -1, keepdims=True))
    outputs = [Output("out", e / loops.sum(e, -1, keepdims=True) + y)]
    wanted, given_ = both(lower((3, length), (1,), {}, outputs), data, min(max(lanes, 2), host().lanes))
    np.testing.assert_allclose(given_["out"], wanted["out"], rtol=2e-6, atol=2e-6)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=4), st.randoms(use_true_random=False), st.sampled_from([1, -1, 2])
)
def test_views_are_read_in_place(sizes: list[int], random: Any, step: int) -> None:
    perm = list(range(len(sizes)))
    random.shuffle(perm)
    whole = [size * abs(step) for size in sizes]
    x = Value("input", float32, tuple(whole), (), "x")
    starts = [size - 1 if step < 0 else 0 for size in whole]
    part = loops.transpose(loops.strided(x, starts, sizes, [step] * len(sizes)), perm)
    data: dict[Any, Array] = {"x": array_of(float32, math.prod(whole), np.random.default_rng(0))}
    check(part.shape, (), [part + 1.0], data)
    index = tuple(slice(None, None, step) for _ in sizes)
    view = data["x"].reshape(whole)[index].transpose(perm) + 1
    wanted, _ = both(lower(part.shape, (), {}, [Output("out", part + 1.0)]), data)
    np.testing.assert_array_equal(wanted["out"], np.ascontiguousarray(view).reshape(-1))


@pytest.mark.parametrize("rows", range(1, 12))
@pytest.mark.parametrize("columns", [1, 7, 33, 600])
def test_columns_are_added_up_row_after_row(rows: int, columns: int) -> None:
    """Whether several rows are added at a time or one: in float64, in their order."""
    x = Value("input", float32, (rows, columns), (), "x")
    data: dict[Any, Array] = {"x": array_of(float32, rows * columns, np.random.default_rng(0))}
    outputs = [Output("sum", loops.sum(x, 0)), Output("doubled", x * 2.0)]
    _, found = both(lower((rows, columns), (0,), {}, outputs), data)
    total = np.full(columns, -0.0)
    for row in data["x"].reshape(rows, columns):
        total = total + row
    np.testing.assert_array_equal(found["sum"], total.astype(np.float32))
    np.testing.assert_array_equal(found["doubled"], data["x"] * 2)


def test_long_reductions_are_cut_by_their_shape_only() -> None:
    x = Value("input", float32, (200_000,), (), "x")
    regions = lower((200_000,), (0,), {}, [Output("out", loops.sum(x))])
    assert len(regions) == 2
    check((200_000,), (0,), [loops.sum(x)], {"x": array_of(float32, 200_000, np.random.default_rng(0))})
    y = Value("input", float32, (50_000, 3), (), "x")
    check((50_000, 3), (0,), [loops.mean(y, 0), -y], {"x": array_of(float32, 150_000, np.random.default_rng(0))})


@pytest.mark.parametrize("length", range(1, 35))
def test_nothing_is_written_behind_narrowed_values(length: int) -> None:
    # LLVM made of a store with one lane one that was as wide as the value before it was narrowed: rests of one element
    x = Value("input", float32, (length,), (), "x")
    for name in ("bfloat16", "float16", "int8", "int16", "float64"):
        outputs = [Output("out", loops.cast(x, as_dtype(name)))]
        both(lower((length,), (), {}, outputs), {"x": np.ones(length, np.float32)})


def test_casts_follow_numpy() -> None:
    x = Value("input", float32, (9,), (), "x")
    data = {"x": np.array([np.nan, np.inf, -np.inf, 3e9, -1.7, 2.5, -0.0, 1e-40, 300], np.float32)}
    names = ("int32", "int64", "float64", "float16", "bfloat16")
    outputs = [Output(name, loops.cast(x, as_dtype(name))) for name in names]
    _, given_ = both(lower((9,), (), {}, outputs), data)
    low = np.iinfo(np.int32).min
    assert given_["int32"].tolist() == [low, low, low, low, -1, 2, 0, 0, 300]
    assert given_["int64"][3] == 3_000_000_000
    for name in ("float64", "float16", "bfloat16"):
        with np.errstate(all="ignore"):
            rounded = data["x"].astype(as_dtype(name).array_type)
        np.testing.assert_array_equal(given_[name].astype(np.float64), rounded.astype(np.float64))


def test_narrow_floats_are_rounded_to_nearest_even() -> None:
    x = Value("input", float32, (4096,), (), "x")
    bits = np.random.default_rng(0).integers(0, 2**32, 4096, dtype=np.uint64).astype(np.uint32)
    data: dict[Any, Array] = {"x": bits.view(np.float32)}
    for dtype in (float16, bfloat16):
        _, given_ = both(lower((4096,), (), {}, [Output("out", loops.cast(x, dtype))]), data)
        with np.errstate(all="ignore"):
            rounded = data["x"].astype(dtype.array_type)
        np.testing.assert_array_equal(given_["out"].astype(np.float32), rounded.astype(np.float32))


def test_what_is_no_region_is_refused() -> None:
    x = Value("input", float64, (4, 5), (), "x")
    with pytest.raises(NotLowered, match="neither of the space nor reduced"):
        lower((4, 5), (0,), {}, [Output("out", loops.sum(x, 1))])
    with pytest.raises(NotLowered, match="another shape"):
        lower((4, 5), (), {}, [Output("out", constant(1.0, float64))])
