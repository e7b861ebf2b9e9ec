"""The step function of a plan: its text, and the constants that its native code reads."""

from __future__ import annotations

import ast
import ctypes
from typing import Any

import numpy as np
from laid_out import laid_out

import headrace as hr
from headrace_cpu.plan import CpuPlan
from headrace_cpu.source import ConstantPool, StepSource

VECTOR = hr.float32, (8,)


def calls(text: str) -> list[str]:
    """The names that a step function calls, in order."""
    tree = ast.walk(ast.parse(text))
    found = [node for node in tree if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [node.func.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))]


def test_a_constant_lies_once_in_the_pool_and_aligned() -> None:
    pool = ConstantPool()
    values = [np.arange(3, dtype=np.int8), np.float32(2.5).reshape(()), np.zeros((0, 4)), np.eye(4)[:, ::2]]
    offsets = [pool.offset(value) for value in values]
    assert [pool.offset(value) for value in values] == offsets
    assert len(set(offsets)) == len(offsets)
    address = pool.address()
    assert address == pool.address()
    assert [(address + offset) % 64 for offset in offsets] == [0] * len(offsets)


def test_the_pool_holds_what_a_constant_is_without_gaps() -> None:
    pool, value = ConstantPool(), np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::2]
    pool.offset(np.ones(5))
    start = pool.offset(value)
    assert ctypes.string_at(pool.address() + start, value.nbytes) == value.tobytes()


def test_a_step_is_one_call_where_all_is_native() -> None:
    source = StepSource(laid_out(lambda x: hr.exp(x) * 2.0, VECTOR))
    text = source.text(instrumented=False)
    assert [name for name in calls(text) if name.startswith("run")] == ["run0"]
    assert "hook" not in text
    assert len(source.drivers) == 1


def test_what_only_numpy_computes_is_a_line_between_two_native_runs() -> None:
    source = StepSource(laid_out(lambda x: hr.exp(hr.sort(hr.tanh(x))), VECTOR))
    names = calls(source.text(instrumented=False))
    host = [name for name in names if name[0] == "f" and name[1:].isdigit()]
    runs = [name for name in names if name.startswith("run")]
    assert host
    assert names.index(runs[0]) < names.index(host[0]) < names.index(runs[-1])
    assert "errstate" in names
    assert "checked" in names  # native code trusts what it is given


def test_a_followed_step_calls_the_hook_before_each_operation_of_numpy_and_hands_it_to_native_runs() -> None:
    source = StepSource(laid_out(lambda x: hr.exp(hr.sort(hr.tanh(x))), VECTOR))
    names = calls(source.text(instrumented=True))
    host = [name for name in names if name[0] == "f" and name[1:].isdigit()]
    assert names.count("hook") == len(host)
    assert names.count("followed") == len(source.drivers)


def test_each_line_of_the_text_is_known_by_the_run_that_it_does() -> None:
    source = StepSource(laid_out(lambda x: hr.exp(hr.sort(hr.tanh(x))), VECTOR))
    lines = source.text(instrumented=False).splitlines()
    named = {lines[number - 1].strip(): run for number, run in source.first_lines.items()}
    assert [run.kind for run in named.values()] == [run.kind for run in source.layout.runs]
    assert all(("= f" in line) == (run.kind == "host") for line, run in named.items())


def test_the_text_is_made_of_numbers_only() -> None:
    """It is compiled by Python, so no name of an operation may get into it."""

    def build(x: hr.Tensor) -> Any:
        with hr.name_scope("system"):
            return hr.exp(hr.sort(x), name="import_os")

    text = StepSource(laid_out(build, VECTOR)).text(instrumented=False)
    assert "import_os" not in text
    assert "system" not in text


def test_results_of_one_memory_are_arrays_of_their_own() -> None:
    layout = laid_out(lambda x: [(y := hr.exp(x)), hr.reshape(y, [2, 4]), y], VECTOR)
    x = np.zeros(8, np.float32)
    first, second, third = CpuPlan(layout, 1, 1)([x])
    np.testing.assert_array_equal(first, np.ones(8))
    assert second.shape == (2, 4)
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, third)


def test_a_result_that_was_fed_is_a_copy() -> None:
    layout = laid_out(lambda x: [hr.identity(x), hr.exp(x)], VECTOR)
    x = np.zeros(8, np.float32)
    given = CpuPlan(layout, 1, 1)([x])[0]
    np.testing.assert_array_equal(given, x)
    assert not np.shares_memory(given, x)
