"""The step function of a plan: its text, and the constants that its native code reads."""

from __future__ import annotations

import ast
import ctypes
import weakref
from typing import Any

import numpy as np
import pytest
from laid_out import laid_out

import headrace as hr
from headrace_cpu.plan import CpuPlan
from headrace_cpu.step.source import LARGE, ConstantPool, StepSource

VECTOR = hr.float32, (8,)


def calls(text: str) -> list[str]:
    """The names that a step function calls, in order."""
    tree = ast.walk(ast.parse(text))
    found = [node for node in tree if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [node.func.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))]


def test_a_constant_lies_once_in_the_pool_and_aligned() -> None:
    pool = ConstantPool()
    values = [np.arange(3, dtype=np.int8), np.float32(2.5).reshape(()), np.zeros((0, 4)), np.eye(4)[:, ::2]]
    places = [pool.place(value) for value in values]
    assert [pool.place(value) for value in values] == places
    assert [kind for kind, _ in places] == ["constant"] * len(values)
    offsets = [offset for _, offset in places]
    assert len(set(offsets)) == len(offsets)
    address = pool.address()
    assert address == pool.address()
    assert [(address + offset) % 64 for offset in offsets] == [0] * len(offsets)


def test_the_pool_holds_what_a_constant_is_without_gaps() -> None:
    pool, value = ConstantPool(), np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::2]
    pool.place(np.ones(5))
    _, start = pool.place(value)
    assert ctypes.string_at(pool.address() + start, value.nbytes) == value.tobytes()


def test_of_a_large_constant_the_pool_has_a_pointer() -> None:
    pool, large = ConstantPool(), np.arange(LARGE // 8)
    copied = [np.arange(LARGE // 4)[::2], np.frombuffer(b"." + bytes(LARGE), np.int64, LARGE // 8, 1)]
    kind, start = pool.place(large)
    assert kind == "pointer"
    assert ctypes.c_int64.from_address(pool.address() + start).value == large.ctypes.data
    for value in copied:  # code expects no gaps, and whole numbers where the processor does
        kind, start = (pool := ConstantPool()).place(value)
        assert kind == "constant"
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


def names(node: ast.AST, *contexts: type[ast.expr_context]) -> set[str]:
    """The values that a part of a step function reads, writes or deletes."""
    found = (item for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, contexts))
    return {item.id for item in found if item.id[0] == "v" and item.id[1:].isdigit()}


def statements(text: str) -> list[ast.stmt]:
    """What a step function does, in order, without the blocks around."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return [inner for outer in function.body for inner in (outer.body if isinstance(outer, ast.With) else [outer])]


def host_chain(x: hr.Tensor) -> Any:
    return hr.exp(hr.sort(hr.sort(hr.tanh(x))))


def read_twice(x: hr.Tensor) -> Any:
    y = hr.sort(x)
    return [hr.sort(hr.sort(y) + y) * 2.0, y]


def read_as_another_shape(x: hr.Tensor) -> Any:
    return hr.sort(hr.reshape(hr.sort(x), [2, 4])) + hr.reshape(hr.tanh(x), [2, 4])


def one_of_two_unused(x: hr.Tensor) -> Any:
    return hr.topk(x, 3)[1]


def joined_from_several(x: hr.Tensor) -> Any:
    return hr.sort(hr.concat([hr.sort(x), hr.sort(-x), hr.sort(x * 2.0)], 0))


@pytest.mark.parametrize("instrumented", [False, True])
@pytest.mark.parametrize(
    "build", [host_chain, read_twice, read_as_another_shape, one_of_two_unused, joined_from_several]
)
def test_what_numpy_made_is_forgotten_right_after_its_last_use(build: Any, instrumented: bool) -> None:
    """Planning counts it until there, and a variable is updated in place once nobody holds what was read from it."""
    text = StepSource(laid_out(build, VECTOR)).text(instrumented=instrumented)
    parts = statements(text)
    made = {name for part in parts if isinstance(part, ast.Assign) for name in names(part.targets[0], ast.Store)}
    made -= names(parts[1], ast.Store)  # the arguments
    kept = names(parts[-1], ast.Load)
    used = {name: place for place, part in enumerate(parts) for name in names(part, ast.Load, ast.Store)}
    forgotten = {name: place for place, part in enumerate(parts) for name in names(part, ast.Del)}
    assert made - kept
    assert set(forgotten) == made - kept
    assert all(place == used[name] + 1 for name, place in forgotten.items())


def test_a_running_step_holds_what_numpy_made_until_its_last_use() -> None:
    made: list[weakref.ref[Any]] = []
    living: list[int] = []

    @hr.register_op("TestMakeCounted", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(T=hr.attr.floating))
    def _shape(op: hr.InferenceContext) -> list[Any]:
        """x + 1, and a look at which of the values that were made before are still there."""
        return [op.inputs[0].shape]

    @hr.register_kernel("TestMakeCounted")
    def _kernel(op: Any, x: Any) -> Any:
        living.append(sum(one() is not None for one in made))
        y = x + 1
        made.append(weakref.ref(y))
        return y

    def chain(x: hr.Tensor) -> Any:
        first = y = hr.apply_op("TestMakeCounted", x)
        for _ in range(3):
            y = hr.apply_op("TestMakeCounted", y)
        return hr.apply_op("TestMakeCounted", y + first)

    plan, x = CpuPlan(laid_out(chain, VECTOR), 1, 1), np.zeros(8, np.float32)
    for _ in range(2):  # the first run checks what kernels give
        made.clear()
        living.clear()
        np.testing.assert_array_equal(plan([x])[0], np.full(8, 6.0))
        assert living == [0, 1, 2, 2, 0]


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
