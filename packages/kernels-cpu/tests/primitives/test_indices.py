"""Functions that go through indices, run on arrays: what they find and refuse, and that names tell them apart."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from headrace.types import DType, int32, int64
from headrace_cpu.llvm.host import host
from headrace_cpu.llvm.text import Text
from headrace_cpu.primitives.gathering import Gather
from headrace_cpu.primitives.indices import FirstRows, IndexCall, RangeCheck, absent_index, read_index

DTYPES = [int32, int64]


def refuses(call: IndexCall, *arrays: Any) -> bool:
    """Run a call on the memory of arrays: True if an index was out of range."""
    given = call.arguments([f"%a{number}" for number in range(len(arrays))])
    parameters = ", ".join(f"ptr %a{number}" for number in range(len(arrays)))
    symbol = f"test.{call.symbol}"
    text = f"define i1 @{symbol}({parameters}) {{\n  %wrong = call i1 @{call.symbol}({given})\n  ret i1 %wrong\n}}"
    (address,) = host().load("\n".join([*call.functions().values(), text, ""]), [symbol])
    function = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_void_p] * len(arrays))(address)
    return bool(function(*(array.ctypes.data for array in arrays)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["", "absent", "negative", "wraps"])
@pytest.mark.parametrize("value", [-7, -6, -1, 0, 5, 6, "lowest"])
def test_a_check_refuses_what_is_not_in_range(dtype: DType, kind: str, value: Any) -> None:
    number = absent_index(dtype) if value == "lowest" else value
    check = RangeCheck(dtype, 3, 6, **({kind: True} if kind else {}))
    fits = {
        "": 0 <= number < 6,
        "absent": 0 <= number < 6 or value == "lowest",
        "negative": number < 6,
        "wraps": -6 <= number < 6,
    }
    for place in range(3):
        indices = np.array([1, 5, 0], dtype.array_type)
        indices[place] = number
        assert refuses(check, indices) is not fits[kind]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_index_of_no_row_is_the_lowest_integer(dtype: DType) -> None:
    assert absent_index(dtype) == np.iinfo(dtype.array_type).min


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("position", DTYPES)
@pytest.mark.parametrize("count", [1, 7, 200])
def test_first_rows_are_those_that_come_first(dtype: DType, position: DType, count: int) -> None:
    indices = np.random.default_rng(count).integers(0, 40, count).astype(dtype.array_type)
    call = FirstRows(dtype, position, count, 40)
    rows, first = np.zeros(count, dtype.array_type), np.zeros(count, position.array_type)
    dirty = [np.random.default_rng(0).integers(0, 256, size).astype(np.uint8) for size in call.scratch]
    assert not refuses(call, indices, rows, first, *dirty)
    found = [int(np.flatnonzero(indices == index)[0]) for index in indices]
    np.testing.assert_array_equal(first, found)
    is_first = np.array(found) == np.arange(count)
    np.testing.assert_array_equal(rows, np.where(is_first, indices, absent_index(dtype)))


@pytest.mark.parametrize("wrong", [40, -1])
def test_first_rows_refuse_what_is_not_in_range(wrong: int) -> None:
    call = FirstRows(int32, int32, 3, 40)
    memory = [np.zeros(3, np.int32), np.zeros(3, np.int32), *(np.zeros(size, np.uint8) for size in call.scratch)]
    assert refuses(call, np.array([3, wrong, 3], np.int32), *memory)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gather_copies_rows_and_leaves_zeros_for_none(dtype: DType) -> None:
    data, out = np.arange(12, dtype=np.float32).reshape(4, 3), np.full((3, 3), 7, np.float32)
    indices = np.array([2, absent_index(dtype), 0], dtype.array_type)
    assert not refuses(Gather(dtype, 3, 4, 12, absent=True), data, indices, out)
    np.testing.assert_array_equal(out, [data[2], np.zeros(3), data[0]])
    assert refuses(Gather(dtype, 3, 4, 12), data, indices, out)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gather_may_count_from_the_end(dtype: DType) -> None:
    data, out = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros((2, 3), np.float32)
    indices = np.array([-1, -4], dtype.array_type)
    assert not refuses(Gather(dtype, 2, 4, 12, wraps=True), data, indices, out)
    np.testing.assert_array_equal(out, data[[3, 0]])
    assert refuses(Gather(dtype, 2, 4, 12), data, indices, out)


def test_functions_that_differ_have_names_that_differ() -> None:
    flags = list(itertools.product((False, True), repeat=2))
    calls: list[IndexCall] = [FirstRows(one, other, 3, 5) for one in DTYPES for other in DTYPES]
    calls += [Gather(dtype, 3, 5, 8, *some) for dtype in DTYPES for some in flags]
    calls += [RangeCheck(dtype, 3, 5, *some) for dtype in DTYPES for some in [*flags, (False, False, True)]]
    texts = {call.symbol: call.functions()[call.symbol] for call in calls}
    assert len(texts) == len(calls)
    bodies = {text.replace(symbol, "") for symbol, text in texts.items()}
    assert len(bodies) == len(calls) - 2  # of what may be absent and what may be negative, the former decides


def test_an_index_is_widened_only_where_it_is_narrow() -> None:
    wide, narrow = Text(), Text()
    assert len(set(read_index(wide, int64, "%x", "%i", "9", wraps=False))) == 1
    assert len(set(read_index(narrow, int32, "%x", "%i", "9", wraps=False))) == 2
    assert not any("sext" in line for line in wide.lines)
    assert sum("sext i32" in line for line in narrow.lines) == 1
