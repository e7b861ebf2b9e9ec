"""The code of loops and branches, called as drivers call it: where it pauses and goes on, and what it writes."""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable, Collection
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.graph.attr import FunctionName
from headrace.graph.functions import Body
from headrace.passes import prune
from headrace.plan import Program
from headrace.plan.nested import NestedPlans
from headrace.types import Array, TensorSpec
from headrace_cpu.backend import CpuBackend
from headrace_cpu.driver.module import Module
from headrace_cpu.driver.nested_code import write_nested
from headrace_cpu.driver.table import BUDGET, FIRST_HANDLE, PAUSED, RESUMED
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.host import host
from headrace_cpu.nesting import LINE, NativeBranch, NativeLoop, Nesting
from headrace_cpu.step.source import ConstantPool

UNTOUCHED = 0x5A
"""What memory holds before it is written."""
ENDLESS = 2**62
"""A budget that nothing uses up."""


class Native:
    """The one loop or branch of a graph as native code, with its own memory. Mutable.

    Args:
      build: makes it of the arrays.
      arrays: its first inputs.
      wanted: which of its outputs have memory; all by default.
    """

    def __init__(self, build: Callable[..., Any], *arrays: Any, wanted: Collection[int] | None = None) -> None:
        with hr.Graph().as_default() as graph:
            given = [hr.placeholder(array.dtype, array.shape) for array in arrays]
            made = build(*given)
        op = (made[0] if isinstance(made, (list, tuple)) else made).op
        with hr.Session(graph) as session:
            functions = NestedPlans(graph.functions, CpuBackend(), session.resources, hr.config())
            program = Program.of(prune(graph, op.outputs, [], given), session.resources, functions)
            (line,) = [line for line in program.lines if line.op.bodies]
            call = Nesting(functions, session.resources, lambda request: None).find(line)
        assert isinstance(call, (NativeLoop, NativeBranch))
        self.call = call
        known = dict(zip(program.arguments, arrays, strict=True)) | program.constants
        self.inputs = [np.array(known[number]) for number in line.inputs]
        self.outputs = [np.empty(one.shape.as_tuple(), one.dtype.array_type) for one in line.op.outputs]
        self.wanted = sorted(range(len(self.outputs)) if wanted is None else wanted)
        outputs = tuple(line.outputs[number] for number in self.wanted)
        self.table = (ctypes.c_int64 * FIRST_HANDLE)()
        self._pool = ConstantPool()
        self._memory = np.empty(call.scratch[0] + 3 * LINE, np.uint8)
        self._start = -self._memory.ctypes.data % LINE + LINE
        self._function = self._compiled(Unit(None, call, (), line.inputs, outputs))
        self.begin()

    def _compiled(self, unit: Unit) -> Callable[..., int]:
        module = Module(host().lanes, False, self._pool.place, lambda: 0, write_nested)
        t = module.text()
        pointers = [f"%p{number}" for number in range(len(unit.inputs) + len(unit.outputs) + 1)]
        status = write_nested(module, t, unit, pointers)
        given = ", ".join(f"ptr {name}" for name in [*pointers, "%constants", "%table"])
        body = [f"define i32 @SYMBOL({given}) {{", *t.allocas, *t.lines, f"  ret i32 {status}", "}"]
        text = "\n".join([*module.functions.values(), *body])
        symbol = f"nested_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        (address,) = host().load(text.replace("SYMBOL", symbol), [symbol])
        return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * (len(pointers) + 2))(address)

    def begin(self) -> None:
        """Forget what was done: the next call begins anew, in memory that was never written."""
        self.table[RESUMED] = 0
        self._memory[:] = UNTOUCHED
        for output in self.outputs:
            output.reshape(-1).view(np.uint8)[:] = UNTOUCHED

    def run(self, budget: int = ENDLESS) -> int:
        """Call it once; gives its answer."""
        arrays = [*self.inputs, *(self.outputs[number] for number in self.wanted)]
        places = [array.ctypes.data for array in arrays]
        self.table[BUDGET] = budget
        own = self._memory.ctypes.data + self._start
        answer = self._function(*places, own, self._pool.address(), ctypes.addressof(self.table))
        assert (self._memory[: self._start] == UNTOUCHED).all()
        assert (self._memory[self._start + self.call.scratch[0] :] == UNTOUCHED).all()
        return answer

    def finish(self, budget: int) -> int:
        """Call it until it ends, with a budget each time; gives the number of pauses."""
        for pauses in range(100):
            answer = self.run(budget)
            if answer != PAUSED:
                assert answer == 0
                return pauses
            assert all(map(is_untouched, self.outputs))
            self.table[RESUMED] = 1
        raise AssertionError("it pauses for ever")


def is_untouched(array: Array) -> bool:
    return bool((array.reshape(-1).view(np.uint8) == UNTOUCHED).all())


def summed(n: hr.Tensor, x: hr.Tensor) -> Any:
    """Four variables: the number of iterations and a sum go round, `n` and `x` stay."""
    return hr.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s * 0.5 + x), (0, x))


X = np.array([1, -2, 3], np.float32)


def sum_of(x: Array, count: int) -> Array:
    total = x
    for _ in range(count):
        total = total * np.float32(0.5) + x
    return total


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_loop_without_budget_pauses_before_each_iteration_and_ends_as_without_pauses(count: int) -> None:
    native = Native(summed, np.int32(count), X)
    assert native.finish(budget=0) == count
    assert native.outputs[0] == count
    np.testing.assert_array_equal(native.outputs[1], sum_of(X, count))
    native.begin()
    assert native.finish(ENDLESS) == 0
    np.testing.assert_array_equal(native.outputs[1], sum_of(X, count))


def test_each_iteration_takes_the_same_from_the_budget_and_one_that_lasts_as_long_never_pauses() -> None:
    native = Native(summed, np.int32(6), X)
    assert native.run() == 0
    cost, rest = divmod(ENDLESS - native.table[BUDGET], 6)
    assert cost > 0
    assert rest == 0
    for budget, pauses in ((6 * cost, 0), (6 * cost - 1, 1), (2 * cost, 2), (2 * cost - 1, 3)):
        native.begin()
        assert native.finish(budget) == pauses
        np.testing.assert_array_equal(native.outputs[1], sum_of(X, 6))


def test_a_loop_that_paused_goes_on_only_if_it_is_told_to_and_begins_anew_otherwise() -> None:
    native = Native(summed, np.int32(3), X)
    for resumed in (0, 1, 1, 0):
        native.table[RESUMED] = resumed
        assert native.run(budget=0) == PAUSED
        native.table[RESUMED] = 0
    native.inputs[1][:] = native.inputs[3][:] = 2 * X
    assert native.run() == 0
    np.testing.assert_array_equal(native.outputs[1], sum_of(2 * X, 3))


def test_going_on_is_told_once() -> None:
    """The entry is cleared, or a loop inside would go on with what an earlier one has left."""
    native = Native(summed, np.int32(3), X)
    assert native.run(budget=0) == PAUSED
    native.table[RESUMED] = 1
    assert native.run(budget=0) == PAUSED
    assert native.table[RESUMED] == 0


def test_what_no_iteration_changes_is_read_where_it_lies_and_the_rest_is_copied_at_the_beginning() -> None:
    native = Native(summed, np.int32(2), X)
    assert isinstance(native.call, NativeLoop)
    assert native.call.kept == {2, 3}
    assert native.call.half == 2 * LINE  # of two variables that go round, each of less than a line
    assert native.run(budget=0) == PAUSED
    for array, value in zip(native.inputs, (-7, math.nan, 3, 10), strict=True):
        array[...] = value
    native.table[RESUMED] = 1
    assert native.run() == 0
    assert native.outputs[0] == 3
    expected = X
    for _ in range(3):
        expected = expected * np.float32(0.5) + 10
    np.testing.assert_array_equal(native.outputs[1], expected)


@pytest.mark.parametrize("wanted", [(), (0,), (1,), (3,), (0, 2)])
@pytest.mark.parametrize("count", [0, 3])
def test_only_results_that_somebody_reads_are_written(wanted: tuple[int, ...], count: int) -> None:
    native = Native(summed, np.int32(count), X, wanted=wanted)
    assert native.run() == 0
    for number, expected in enumerate([count, sum_of(X, count), count, X]):
        if number in wanted:
            np.testing.assert_array_equal(native.outputs[number], expected)
        else:
            assert is_untouched(native.outputs[number])


def test_loops_in_each_other_pause_in_both_and_keep_to_their_memory() -> None:
    def build(x: hr.Tensor) -> Any:
        def step(j: hr.Tensor, t: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            return j + 1, hr.gather(t * 0.5 + x, [2, 0, 1]) + t  # what it gathers from has memory of its own

        def outer(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            inner = hr.while_loop(lambda j, t: j < i, step, (0, s))[1]
            return i + 1, inner + s

        return hr.while_loop(lambda i, s: i < 4, outer, (0, x))

    native = Native(build, X)
    assert native.finish(budget=0) == 4 + (0 + 1 + 2 + 3)
    paused = native.outputs[1].copy()
    native.begin()
    assert native.finish(ENDLESS) == 0
    np.testing.assert_array_equal(native.outputs[1], paused)
    total = X
    for i in range(4):
        before = total
        for _ in range(i):
            total = (total * np.float32(0.5) + X)[[2, 0, 1]] + total
        total = total + before
    np.testing.assert_array_equal(paused, total)


def test_a_loop_in_a_branch_goes_on_in_that_branch() -> None:
    def build(k: hr.Tensor, x: hr.Tensor) -> Any:
        def times(factor: float) -> Callable[[], hr.Tensor]:
            return lambda: hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * factor), (0, x))[1]

        return hr.switch_case(k, [times(2.0), times(3.0), lambda: -x])

    for index, (pauses, factor) in enumerate([(3, 8), (3, 27), (0, -1)]):
        native = Native(build, np.int32(index), X)
        assert native.finish(budget=0) == pauses
        np.testing.assert_array_equal(native.outputs[0], X * factor)


@pytest.mark.parametrize("index", [-(2**31), -1, 2, 256, 2**31 - 1])
def test_a_number_that_no_branch_has_takes_the_last_one(index: int) -> None:
    native = Native(lambda k, x: hr.switch_case(k, [lambda: x + 1.0, lambda: x * 2.0]), np.int32(index), X)
    assert native.run() == 0
    np.testing.assert_array_equal(native.outputs[0], X * 2)


@pytest.mark.parametrize("index", [-1, 0, 1])
def test_a_single_branch_is_taken_by_every_number(index: int) -> None:
    def build(k: hr.Tensor, x: hr.Tensor) -> Any:
        both = hr.switch_case(k, [lambda: x + 1.0, lambda: x * 2.0])
        attrs = {**both.op.attrs, "branches": both.op.attrs["branches"][:1]}
        return k.graph.create_op(both.op.type, both.op.inputs, attrs).outputs[0]

    native = Native(build, np.int32(index), X)
    assert native.run() == 0
    np.testing.assert_array_equal(native.outputs[0], X + 1)


FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
CONDITIONS = [
    *(np.array(value, dtype) for dtype in FLOATS for value in (0.0, -0.0, 2.0, -math.inf, math.nan, -math.nan)),
    *(ml_dtypes.finfo(dtype).smallest_subnormal.reshape(()) for dtype in FLOATS),
    *(np.array(value, np.uint64).astype(dtype) for dtype in INTEGERS for value in (0, 1)),
    *(np.array(1 << 8 * np.dtype(dtype).itemsize - 1, np.uint64).astype(dtype) for dtype in INTEGERS),
    np.array(False),
    np.array(True),
]


@pytest.mark.parametrize("value", CONDITIONS, ids=lambda value: f"{value.dtype} {value}")
def test_a_condition_of_any_dtype_is_true_unless_it_is_zero(value: Array) -> None:
    """A loop of one iteration, whose body gives zero; NaN is true, and so is a number of which one bit is set."""

    def build(start: hr.Tensor, zero: hr.Tensor) -> Any:
        turns = hr.while_loop(lambda go, i: i < 9, lambda go, i: (zero, i + 1), (start, 0))[1]
        inputs = turns.op.inputs
        truth = Body("truth", functions=turns.graph.functions)
        given = [truth.add_argument(number, TensorSpec(one.dtype, one.shape)) for number, one in enumerate(inputs)]
        truth.complete([given[0]])
        return turns.graph.create_op(turns.op.type, inputs, {**turns.op.attrs, "cond": FunctionName("truth")}).outputs

    native = Native(build, value, np.zeros_like(value))
    assert isinstance(native.call, NativeLoop)
    assert native.call.condition_dtype.array_type == value.dtype
    assert native.run() == 0
    assert native.outputs[1] == (1 if value != 0 else 0)
