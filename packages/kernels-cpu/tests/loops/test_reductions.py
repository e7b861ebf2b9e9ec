"""Accumulators: what they start with changes nothing, parts join in any order, and lanes are combined by halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from regions import native
from written import compiled

from headrace import loops
from headrace.loops.ir import REDUCTIONS, Accumulate, Expr
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value
from headrace.types import Array, DType, as_dtype, float32
from headrace.types import bool as boolean
from headrace_cpu.llvm.text import Text, storage_type
from headrace_cpu.loops.reductions import start_accumulator

LANES = 8
NUMBERS = [as_dtype(n) for n in ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")]
ARITHMETIC = [(op, dtype) for op in ("sum", "prod", "max", "min") for dtype in NUMBERS]
TRUTH = [("any", boolean), ("all", boolean)]
WHOLE: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all}


def reduced(op: str, dtype: DType, values: Array, *, start: bool, of_row: bool = False) -> Array:
    """Vectors of values combined to one, after a vector of what an accumulator starts with if `start`."""

    def write(t: Text, pointers: list[str]) -> None:
        source, out = pointers
        t.lanes = LANES
        element = "i8" if dtype is boolean else storage_type(dtype)
        made = start_accumulator(t, Accumulate(0, op, Expr("load", dtype, ())), LANES, of_row=of_row)
        t.allocas += made.reserved()
        made.reset(t)
        for first in range(0, len(values), LANES):
            place = t.put(f"getelementptr {element}, ptr {source}, i64 {first}")
            value = t.put(f"load {t.type(element)}, ptr {place}, align 1")
            if dtype is boolean:
                value = t.convert("trunc", value, "i8", "i1")
            wide = made.widened(t, value)
            if start or first:
                made.add(t, wide)
            else:
                t.line(f"store {t.type(made.element)} {wide}, ptr {made.slot}")
        total = made.total(t)
        assert t.lanes == 1
        if dtype is boolean:
            total = t.put(f"zext i1 {total} to i8")
        t.line(f"store {element} {total}, ptr {out}")

    out = np.zeros(1, dtype.array_type)
    assert compiled(write, 2)(np.ascontiguousarray(values, dtype.array_type), out) == 0
    return out


def test_every_reduction_is_tested_here() -> None:
    assert {op for op, _ in ARITHMETIC + TRUTH} == set(REDUCTIONS)


@pytest.mark.parametrize(("op", "dtype"), ARITHMETIC, ids=str)
def test_lanes_are_combined(op: str, dtype: DType) -> None:
    values = np.array([1, 2, 1, 3, 2, 1, 1, 2], dtype.array_type)
    found = reduced(op, dtype, values, start=False)
    assert float(found[0]) == float(WHOLE[op](values.astype(np.float64)))


@pytest.mark.parametrize(("op", "dtype"), TRUTH, ids=str)
@pytest.mark.parametrize("values", [[0] * 8, [1] * 8, [0, 0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 0, 1, 1, 1]], ids=str)
def test_truths_are_combined(op: str, dtype: DType, values: list[int]) -> None:
    assert bool(reduced(op, dtype, np.array(values, bool), start=True)[0]) is bool(WHOLE[op](values))


@pytest.mark.parametrize(("op", "dtype"), ARITHMETIC, ids=str)
def test_what_it_starts_with_changes_nothing(op: str, dtype: DType) -> None:
    low, high = (
        (np.iinfo(dtype.array_type).min, np.iinfo(dtype.array_type).max) if dtype.is_integer else (-np.inf, np.inf)
    )
    for extreme in (low, high) if op in ("max", "min") else (0, 1):
        values = np.full(LANES, extreme, dtype.array_type)
        assert reduced(op, dtype, values, start=True).tobytes() == reduced(op, dtype, values, start=False).tobytes()


@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype.is_floating], ids=str)
def test_a_sum_of_negative_zeros_is_one(dtype: DType) -> None:
    assert np.signbit(reduced("sum", dtype, np.full(LANES, -0.0), start=True).astype(np.float64))[0]


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("place", [0, 3, 7])
@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype.is_floating], ids=str)
def test_a_nan_anywhere_is_the_extreme(op: str, place: int, dtype: DType) -> None:
    values = np.arange(LANES).astype(dtype.array_type)
    values[place] = np.nan
    assert np.isnan(reduced(op, dtype, values, start=True).astype(np.float64))[0]


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("place", [0, 3, 7, 8, 19, 23])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype.is_floating], ids=str)
def test_a_nan_of_any_sign_is_marked_among_infinities(op: str, place: int, sign: float, dtype: DType) -> None:
    values = np.array([1.0, np.inf, -np.inf] * LANES).astype(dtype.array_type)
    values[place] = np.copysign(np.nan, sign)
    assert np.isnan(reduced(op, dtype, values, start=True, of_row=True).astype(np.float64))[0]


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("place", [*range(0, 150, 7), 127, 128, 149])
def test_a_nan_is_marked_wherever_several_registers_have_it(op: str, place: int) -> None:
    """A comparison tells of two registers at once, and one more row is the rest of a row."""
    x = Value("input", float32, (3, 150), (), "x")
    (lowered,) = lower((3, 150), (1,), {}, [Output("y", getattr(loops, op)(x, [1]))])
    values = np.random.default_rng(0).normal(size=(3, 150)).astype(np.float32)
    values[1, place] = np.nan
    found = np.zeros(3, np.float32)
    arrays = {"x": values, "y": found}
    native(lowered.region)([arrays[str(key)] for key in lowered.keys])
    np.testing.assert_array_equal(found, getattr(values, op)(axis=1))


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype.is_floating], ids=str)
def test_marked_extremes_are_those_without_marks(op: str, dtype: DType) -> None:
    for values in ([1.0, np.inf, -np.inf] * LANES, [3.0, -2.0, 5.0] * LANES, [-0.0, 0.0, 0.0] * LANES):
        numbers = np.array(values).astype(dtype.array_type)
        found = (reduced(op, dtype, numbers, start=True, of_row=of_row).tobytes() for of_row in (True, False))
        assert len(set(found)) == 1


def test_sums_of_narrow_floats_are_rounded_once() -> None:
    """In float16, 2048 + 1 is 2048 each time."""
    values = np.array([2048, 1, 1, 1, 1, 1, 1, 1], np.float16)
    assert reduced("sum", as_dtype("float16"), values, start=True)[0] == np.float16(2055)
    large = np.array([2**24, 1, 1, 1, 1, 1, 1, 1], np.float32)
    assert reduced("sum", as_dtype("float32"), large, start=True)[0] == np.float32(2**24 + 7)


def test_sums_of_integers_wrap() -> None:
    assert reduced("sum", as_dtype("int8"), np.full(LANES, 100), start=True)[0] == np.int8(800 - 768)
