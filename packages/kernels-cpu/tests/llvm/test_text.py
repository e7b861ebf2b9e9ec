"""What is written for the smallest parts of functions."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from headrace.types import DType, float32, int64
from headrace_cpu.llvm.text import Text, combine, float_literal


@pytest.mark.parametrize(
    "number", [0.0, -0.0, 1.5, 65504.0, 65519.9, 65520.0, 1e9, -1e9, math.inf, -math.inf, math.nan]
)
@pytest.mark.parametrize(
    ("element", "dtype", "bits"),
    [("half", np.float16, np.uint16), ("float", np.float32, None), ("double", float, None)],
)
def test_a_number_is_written_as_its_type_rounds_it(number: float, element: str, dtype: Any, bits: Any) -> None:
    with np.errstate(over="ignore"):
        rounded = dtype(number)
    literal = int(float_literal(number, element).removeprefix("0x").removeprefix("H"), 16)
    if bits is None:  # written as the double of the same value
        rounded, bits = np.float64(rounded), np.uint64
    found = np.array(literal, bits).view(rounded.dtype)
    np.testing.assert_array_equal(found, rounded)
    assert np.signbit(found) == np.signbit(rounded) or math.isnan(number)


def test_a_copy_declares_what_it_calls() -> None:
    t = Text()
    t.copy_bytes("%a", "%b", 12)
    assert list(t.functions) == ["llvm.memcpy.p0.p0.i64"]
    assert "ptr %a, ptr %b, i64 12" in t.lines[0]


def test_clearing_declares_what_it_calls() -> None:
    t = Text()
    t.clear_bytes("%a", "%size")
    assert list(t.functions) == ["llvm.memset.p0.i64"]
    assert "ptr %a, i8 0, i64 %size" in t.lines[0]


@pytest.mark.parametrize(("width", "ends"), [(3, [3]), (8, [8]), (19, [16, 19])])
def test_rows_are_combined_in_whole_vectors_and_then_one_by_one(width: int, ends: list[int]) -> None:
    t = Text()
    combine(t, "add", float32, width, 8, "%a", ("%b", "%c"))
    found = [int(end) for line in t.lines for end in re.findall(r"icmp slt i64 %t\d+, (\d+)", line)]
    assert found == ends
    vectors = sum("fadd <8 x float>" in line for line in t.lines)
    assert vectors == (width >= 8)
    assert sum("fadd float" in line for line in t.lines) == (width % 8 > 0)


@pytest.mark.parametrize(("dtype", "instruction"), [(float32, "fsub float"), (int64, "sub i64")])
def test_a_row_may_be_combined_with_itself(dtype: DType, instruction: str) -> None:
    t = Text()
    combine(t, "sub", dtype, 1, 4, "%a", ("%a", "%b"))
    (result,) = [line for line in t.lines if f" = {instruction} " in line]
    loads = [line.split()[0] for line in t.lines if " load " in line]
    assert result.endswith(f"{instruction} {loads[0]}, {loads[1]}")
    assert sum("ptr %a, i64" in line for line in t.lines) == 1


def test_what_depends_on_a_condition_is_jumped_over() -> None:
    t = Text()
    t.when("%wrong", lambda: t.line("inner"))
    branch, inside, inner, back, after = t.lines
    assert re.fullmatch(r"  br i1 %wrong, label %(\w+), label %(\w+)", branch)
    assert branch == f"  br i1 %wrong, label %{inside[:-1]}, label %{after[:-1]}"
    assert (inner, back) == ("  inner", f"  br label %{after[:-1]}")


def test_an_argument_is_loaded_from_the_table() -> None:
    t = Text()
    register = t.argument(3)
    assert t.lines[0].endswith("getelementptr ptr, ptr %args, i64 3")
    assert t.lines[1].startswith(f"  {register} = load ptr, ptr ")
