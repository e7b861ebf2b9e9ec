"""Loops and branches in one native call: the bits of the existing path, every kind of loop, and how they end."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from nested_runs import CPU, computed, native

import headrace as hr
from headrace.types import Array

NATIVE = [hr.float16, hr.bfloat16, hr.float32, hr.float64, hr.int8, hr.int16, hr.int32, hr.int64]
NATIVE += [hr.uint8, hr.uint16, hr.uint32, hr.uint64]
X = np.linspace(-1, 1, 5).astype(np.float32)


def summed(limit: Any, x: hr.Tensor) -> list[hr.Tensor]:
    end: list[hr.Tensor] = hr.while_loop(lambda i, s: i < limit, lambda i, s: (i + 1, s * 0.5 + x), (0, x))
    return end


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 100_000])
def test_any_number_of_iterations(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    i, s = native(monkeypatch, lambda x, n: summed(n, x), X, np.int32(count))
    assert i == count
    wanted = X
    for _ in range(min(count, 60)):  # it does not change any more
        wanted = wanted * np.float32(0.5) + X
    np.testing.assert_array_equal(s, wanted)


@pytest.mark.parametrize("dtype", NATIVE, ids=lambda dtype: dtype.name)
def test_loop_variables_of_every_dtype_go_round_and_wrap(monkeypatch: pytest.MonkeyPatch, dtype: hr.DType) -> None:
    x = np.array([1, 3, 100], dtype.array_type)

    def build(x: hr.Tensor) -> Any:
        return hr.while_loop(lambda i, a, b: i < 9, lambda i, a, b: (i + 1, b, a + b * 3), (0, x, x))

    _, a, b = native(monkeypatch, build, x)
    first, second = x, x
    with np.errstate(all="ignore"):
        for _ in range(9):
            first, second = second, (first + second * first.dtype.type(3)).astype(first.dtype)
    np.testing.assert_array_equal(a, first)
    np.testing.assert_array_equal(b, second)


def test_booleans_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(flags: hr.Tensor) -> Any:
        return hr.while_loop(lambda i, f: i < 3, lambda i, f: (i + 1, hr.logical_not(f)), (0, flags))

    flags = np.array([True, False, True])
    np.testing.assert_array_equal(native(monkeypatch, build, flags)[1], ~flags)


def test_variables_that_change_places_and_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> Any:
        return hr.while_loop(
            lambda i, a, b, c, d, e: i < 5, lambda i, a, b, c, d, e: (i + 1, b, a, c, hr.zeros([5]) + 2.0, a),
            (0, x, y, x, y, y),
        )  # fmt: skip

    y = X * 3
    _, a, b, c, d, e = native(monkeypatch, build, X, y)
    for value, wanted in ((a, y), (b, X), (c, X), (d, np.full(5, 2)), (e, X)):
        np.testing.assert_array_equal(value, wanted)


def test_a_loop_that_only_gives_back_what_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor, go: hr.Tensor) -> Any:
        return hr.while_loop(lambda a, g: g, lambda a, g: (a, hr.logical_not(g)), (x, go))

    np.testing.assert_array_equal(native(monkeypatch, build, X, np.True_)[0], X)


@pytest.mark.parametrize("start", [0.0, -0.0, 3.0, -1e-40, math.inf, math.nan])
@pytest.mark.parametrize(
    "dtype", [hr.float16, hr.bfloat16, hr.float32, hr.float64, hr.int8], ids=lambda item: item.name
)
def test_a_predicate_that_is_a_number_is_true_unless_zero(
    monkeypatch: pytest.MonkeyPatch, dtype: hr.DType, start: float
) -> None:
    def build(p: hr.Tensor) -> Any:
        chosen = hr.cond(hr.constant(True), lambda: p + 1, lambda: p)
        branch = hr.cond(hr.not_equal(p, p), lambda: hr.constant(1), lambda: hr.constant(2))
        bodies = dict(then_branch=branch.op.attrs["then_branch"], else_branch=branch.op.attrs["else_branch"])
        made = hr.apply_op("StatelessIf", p, [], Tout=(hr.int32,), output_shapes=(hr.Shape([]),), **bodies)
        return [chosen, *made]

    if dtype is hr.int8 and not math.isfinite(start):
        pytest.skip("an integer")
    with np.errstate(over="ignore"):
        value = np.asarray(start).astype(dtype.array_type)
    _, number = native(monkeypatch, build, value)
    assert number == (1 if value != 0 else 2)


def test_a_comparison_with_nan_ends_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor) -> Any:
        return hr.while_loop(lambda i, c: c < 10.0, lambda i, c: (i + 1, hr.where(hr.equal(i, 3), math.nan, c)), (0, x))

    i, c = native(monkeypatch, build, np.float32(0))
    assert i == 4
    assert np.isnan(c)


def test_maximum_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor, most: hr.Tensor) -> Any:
        return hr.while_loop(lambda i, s: i >= 0, lambda i, s: (i + 1, s + x), (0, x), maximum_iterations=most)

    for most in (0, 1, 17):
        i, s = native(monkeypatch, build, np.float32(2), np.int32(most))
        assert [int(i), float(s)] == [most, 2 + 2 * most]


def test_three_loops_in_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def nest(depth: int, s: hr.Tensor, x: hr.Tensor) -> hr.Tensor:
        if not depth:
            return s + x
        found: hr.Tensor = hr.while_loop(
            lambda i, s: i < depth + 1, lambda i, s: (i + 1, nest(depth - 1, s * 2.0, x)), (0, s)
        )[1]
        return found

    wanted = X

    def again(depth: int, s: Array) -> Array:
        for _ in range(depth + 1):
            s = again(depth - 1, s * np.float32(2)) if depth > 1 else s * np.float32(2) + X
        return s

    wanted = again(3, X)
    np.testing.assert_array_equal(native(monkeypatch, lambda x: nest(3, x, x), X)[0], wanted)


def test_a_loop_whose_inner_loop_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pauses, in the inner loop and between iterations of the outer one."""
    monkeypatch.setattr("headrace_cpu.step.calling.SLICE", 1000)

    def build(x: hr.Tensor) -> Any:
        def outer(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            inner = hr.while_loop(lambda j, t: j < 300 * i, lambda j, t: (j + 1, t * 0.5 + x), (0, s * 1.5))
            return i + 1, hr.cond(hr.equal(i, 2), lambda: inner[1], lambda: -inner[1])

        first = hr.while_loop(lambda i, s: i < 4, outer, (0, x))[1]
        return hr.while_loop(lambda i, s: i < 1000, lambda i, s: (i + 1, s * 0.5 + first), (0, first * 2.0))

    i, _ = native(monkeypatch, build, X)
    assert i == 1000


@pytest.mark.parametrize("flag", [True, False])
def test_branches(monkeypatch: pytest.MonkeyPatch, flag: bool) -> None:
    def build(p: hr.Tensor, x: hr.Tensor) -> Any:
        return hr.cond(p, lambda: (x * 2.0, x, hr.constant(3)), lambda: (x, x + 1.0, hr.constant(4)))

    a, b, c = native(monkeypatch, build, np.bool_(flag), X)
    np.testing.assert_array_equal(a, X * 2 if flag else X)
    np.testing.assert_array_equal(b, X if flag else X + 1)
    assert c == (3 if flag else 4)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 5])
def test_cases(monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    def build(k: hr.Tensor, x: hr.Tensor) -> Any:
        return hr.switch_case(k, [lambda: x + 1.0, lambda: x * 2.0, lambda: -x])

    (value,) = native(monkeypatch, build, np.int32(index), X)
    np.testing.assert_array_equal(value, [X + 1, X * 2, -X][index if 0 <= index < 3 else 2])


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_of_which_only_some_outputs_are_read(flag: bool) -> None:
    """The others had no memory, and were written there all the same: the process ended, or went round for ever."""
    with hr.Graph().as_default() as graph:
        pred, x = hr.placeholder(hr.bool, []), hr.placeholder(hr.float32, [4])
        ones, zeros = hr.constant(np.ones(50, np.float32)), hr.constant(np.zeros(50, np.float32))
        first, _, _ = hr.cond(pred, lambda: (hr.tanh(x), ones, x * 3.0), lambda: (x * 2.0, zeros, x + 1.0))
        out = first + 1.0
    trace = hr.Trace()
    session = hr.Session(graph, config=hr.config(backend="cpu", passes=[]))  # passes leave such outputs out, mostly
    point = np.array([1, 2, 3, 4], np.float32)
    found = session.run(out, feeds={x: point, pred: flag}, trace=trace)
    np.testing.assert_allclose(found, (np.tanh(point) if flag else point * 2) + 1, rtol=1e-6)
    assert "headrace_cpu.branch" in trace.steps[0].kernels


def test_a_branch_in_a_loop_in_a_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(p: hr.Tensor, x: hr.Tensor) -> Any:
        def step(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            return i + 1, hr.cond(hr.logical_or(hr.equal(i, 1), i > 6), lambda: s * 0.5, lambda: s + x)

        return hr.cond(p, lambda: hr.while_loop(lambda i, s: i < 10, step, (0, x))[1], lambda: x)

    wanted = X
    for i in range(10):
        wanted = wanted * np.float32(0.5) if i == 1 or i > 6 else wanted + X
    np.testing.assert_array_equal(native(monkeypatch, build, np.bool_(True), X)[0], wanted)
    np.testing.assert_array_equal(native(monkeypatch, build, np.bool_(False), X)[0], X)


def test_a_matrix_product_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(w: hr.Tensor, h: hr.Tensor) -> Any:
        return hr.while_loop(lambda i, h: i < 6, lambda i, h: (i + 1, hr.tanh(h @ w)), (0, h))

    rng = np.random.default_rng(0)
    w, h = rng.normal(size=(7, 7)).astype(np.float32), rng.normal(size=(3, 7)).astype(np.float32)
    if pytest.importorskip("headrace_cpu.onednn").onednn() is None:
        pytest.skip("oneDNN is not installed")
    _, found = native(monkeypatch, build, w, h)
    for _ in range(6):
        h = np.tanh(h @ w)
    np.testing.assert_allclose(found, h, rtol=1e-5, atol=1e-6)


def test_values_of_the_loop_are_used_before_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor) -> Any:
        before = x * 3.0
        end = hr.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + before), (0, before))[1]
        return [before, end * 2.0, hr.reshape(end, [5, 1]), end, end]

    before, twice, column, end, same = native(monkeypatch, build, X)
    np.testing.assert_array_equal(end, twice / 2)
    np.testing.assert_array_equal(column[:, 0], same)
    np.testing.assert_array_equal(before, X * 3)
    end[...] = 0
    assert same.any()


def test_an_index_out_of_range_names_its_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor, n: hr.Tensor) -> Any:
        return hr.while_loop(
            lambda i, s: i < n, lambda i, s: (i + 1, s + hr.gather(x, hr.reshape(i, [1]))), (0, x[:1])
        )  # fmt: skip

    with hr.Graph().as_default() as graph:
        x, n = hr.placeholder(hr.float32, [5]), hr.placeholder(hr.int32, [])
        end = build(x, n)
    for switch in ("on", "off"):
        monkeypatch.setenv("HEADRACE_NATIVE_LOOPS", switch)
        with hr.Session(graph, config=CPU) as session:
            with pytest.raises(hr.errors.HeadraceError, match=r"got: +.*5") as raised:
                session.run(end, feeds={x: X, n: np.int32(9)})
            assert any("in iteration 5 of" in note for note in raised.value.__notes__)
            np.testing.assert_array_equal(session.run(end, feeds={x: X, n: np.int32(5)})[0], 5)


def test_a_loop_whose_variable_grows_runs_by_its_kernel() -> None:
    def build(x: hr.Tensor) -> Any:
        invariants: Any = ([], [None])
        return hr.while_loop(
            lambda i, s: i < 2, lambda i, s: (i + 1, hr.concat([s, s], 0)), (0, x), shape_invariants=invariants
        )

    (_, value), kernels = computed(build, X)
    assert kernels == {"headrace.kernels"}
    np.testing.assert_array_equal(value, np.tile(X, 4))


def test_a_loop_with_an_operation_of_the_user_runs_by_its_kernel() -> None:
    def build(x: hr.Tensor) -> Any:
        def body(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            changed = hr.py_function(lambda a: a + 1, [s], hr.float32)
            changed.set_shape(hr.Shape([5]))
            return i + 1, changed

        return hr.while_loop(lambda i, s: i < 3, body, (0, x))

    (_, value), kernels = computed(build, X)
    assert kernels == {"headrace.kernels"}
    np.testing.assert_array_equal(value, X + 3)


def test_a_loop_that_changes_a_variable_runs_by_its_kernel() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.zeros(3, np.float32))

        def body(i: hr.Tensor) -> tuple[hr.Tensor]:
            changed = v.assign_add(hr.ones([3]))
            assert changed is not None
            with hr.control_dependencies([changed]):
                return (i + 1,)

        end = hr.while_loop(lambda i: i < 10, body, (0,))
    with hr.Session(graph, config=CPU) as session:
        session.run(end)
        np.testing.assert_array_equal(session.run(v.value), np.full(3, 10))


def test_check_numerics_names_the_iteration_of_a_loop() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        end = hr.while_loop(lambda i, s: i < 9, lambda i, s: (i + 1, hr.log(s) + x), (0, x))[1]
    with CPU:
        options = hr.debug.check_numerics()
    with hr.Session(graph, config=options) as session:
        with pytest.raises(hr.errors.HeadraceError) as raised:
            session.run(end, feeds={x: [-0.5, 1.0]})
        assert any("in iteration 0 of" in note for note in raised.value.__notes__)


def endless(graph: hr.Graph) -> tuple[hr.Tensor, hr.Tensor]:
    """A loop of 10**12 iterations in a loop of as many, and a limit for shorter ones."""
    with graph.as_default():
        limit = hr.placeholder(hr.int64, [])

        def outer(i: hr.Tensor, s: hr.Tensor) -> Any:
            return i + 1, hr.while_loop(
                lambda j, t: j < limit, lambda j, t: (j + 1, t + 1.0), (hr.constant(0, hr.int64), s)
            )[1]

        end = hr.while_loop(lambda i, s: i < limit, outer, (hr.constant(0, hr.int64), hr.zeros([])))[1]
    return end, limit


def test_a_deadline_ends_a_loop_and_the_next_step_starts_anew() -> None:
    graph = hr.Graph()
    end, limit = endless(graph)
    with hr.Session(graph, config=CPU) as session:
        for _ in range(2):
            with pytest.raises(hr.errors.DeadlineExceededError, match="did not end in time"):
                session.run(end, feeds={limit: 10**12}, timeout=0.05)
            assert session.run(end, feeds={limit: 30}) == 900


def test_cancel_ends_a_loop_and_others_go_on() -> None:
    graph = hr.Graph()
    end, limit = endless(graph)
    with hr.Session(graph, config=CPU) as session:
        steps = [session.run_async(end, feeds={limit: 10**12}) for _ in range(2)]
        assert session.run(end, feeds={limit: 40}) == 1600  # loops leave Python to others
        for step in steps:
            step.cancel()
        for step in steps:
            with pytest.raises(hr.errors.CancelledError, match="was cancelled"):
                step.result(timeout=10)


_INTERRUPTED = """
import _thread, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may have been told to ignore it
import headrace as hr
from test_nesting import endless
graph = hr.Graph()
end, limit = endless(graph)
session = hr.Session(graph, config=hr.config(backend="cpu"))
assert session.run(end, feeds={limit: 3}) == 9
pressed = []
def press():
    pressed.append(time.monotonic())
    _thread.interrupt_main()
threading.Timer(0.2, press).start()
try:
    session.run(end, feeds={limit: 10**12})
except KeyboardInterrupt:
    late = time.monotonic() - pressed[0]
    print("interrupted", late < 1.0, session.run(end, feeds={limit: 3}) == 9)
"""


def test_d09_ctrl_c_ends_a_loop() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=__file__.rpartition("/")[0],
    )
    assert found.stdout.strip() == "interrupted True True", found.stderr


def test_steps_of_several_threads_have_memory_of_their_own() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [5])
        end = summed(2000, x)[1]
    session = hr.Session(graph, config=CPU)
    step = session.make_callable(end, [x])
    wrong: list[Any] = []

    def work(scale: int) -> None:
        given = X * np.float32(2.0**scale)
        wanted = step(given)
        for _ in range(200):
            if (step(given) != wanted).any():
                wrong.append(scale)

    threads = [threading.Thread(target=work, args=(scale,)) for scale in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("seed", range(12))
def test_random_nests_have_the_bits_of_the_existing_path(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Loops and branches in each other at random, with what they capture from any level."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr("headrace_cpu.step.calling.SLICE", int(rng.integers(50, 5000)))
    plan = rng.integers(0, 1000, 64).tolist()

    def build(x: hr.Tensor, y: hr.Tensor) -> Any:
        choices = iter(plan)

        def value(known: list[hr.Tensor], depth: int) -> hr.Tensor:
            kind, a, b = next(choices, 0) % 6, *(known[next(choices, 0) % len(known)] for _ in range(2))
            if kind == 0:
                return a + b
            if kind == 1:
                return hr.tanh(a) * b
            if kind == 2 or depth == 3:
                return hr.maximum(a, b * 0.5)
            if kind == 3:
                p = hr.sum(a) > hr.sum(b)
                chosen: hr.Tensor = hr.cond(
                    p, lambda: value([*known, a * 2.0], depth + 1), lambda: value(known, depth + 1)
                )
                return chosen
            count = next(choices, 0) % 5

            def body(i: hr.Tensor, s: hr.Tensor, t: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor, hr.Tensor]:
                inside = [*known, s, t]
                return i + 1, hr.tanh(value(inside, depth + 1)), s if kind == 4 else value(inside, depth + 1)

            found = hr.while_loop(lambda i, s, t: i < count, body, (0, a, b))
            difference: hr.Tensor = found[1] - found[2]
            return difference

        def loop(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            return i + 1, hr.tanh(value([x, y, s], 0))

        return [hr.while_loop(lambda i, s: i < 3, loop, (0, x))[1]]

    native(monkeypatch, build, *rng.normal(size=(2, 6)).astype(np.float32))


def test_a_deadline_ends_a_loop_whose_work_is_in_a_branch() -> None:
    with hr.Graph().as_default() as graph:
        x, limit = hr.placeholder(hr.float32, [100_000]), hr.placeholder(hr.int64, [])

        def step(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            return i + 1, hr.cond(i >= 0, lambda: hr.tanh(hr.exp(s) + x), lambda: x)

        end = hr.while_loop(lambda i, s: i < limit, step, (hr.constant(0, hr.int64), x))[1]
    with hr.Session(graph, config=CPU) as session:
        session.run(end, feeds={x: np.zeros(100_000), limit: 2})
        started = time.monotonic()
        with pytest.raises(hr.errors.DeadlineExceededError, match="did not end in time"):
            session.run(end, feeds={x: np.zeros(100_000), limit: 10**12}, timeout=0.05)
        assert time.monotonic() - started < 1.0


def test_a_loop_reads_a_variable_as_it_was_before_it_and_after_an_update() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(X)
        first = summed(3, v.value)[1]
        with hr.control_dependencies([first]):
            changed = v.assign_add(hr.ones([5]))
        assert changed is not None
        with hr.control_dependencies([changed]):
            second = summed(3, v.read())[1]
    with hr.Session(graph, config=CPU) as session:
        before, after = session.run([first, second])
    np.testing.assert_array_equal(before, X * np.float32(1.875))
    np.testing.assert_allclose(after, (X + 1) * np.float32(1.875), rtol=1e-6)
