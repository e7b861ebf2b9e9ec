"""Compiled segments: state, memory, errors, several threads at once."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace_cpu.onednn import onednn

CPU = hr.config(backend="cpu")
Step = Callable[..., Any]


def callable_of(build: Callable[..., Any], *specs: tuple[Any, list[int]]) -> Step:
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(dtype, shape) for dtype, shape in specs]
        outputs = build(*inputs)
    return hr.Session(graph, config=CPU).make_callable(outputs, inputs)


def test_what_is_fetched_belongs_to_the_caller() -> None:
    step = callable_of(lambda x: [x * 2.0, hr.reshape(x * 2.0, [4]), x], (hr.float32, [2, 2]))
    x = np.ones((2, 2), np.float32)
    first = step(x)
    for value in first:
        value[...] = 7
    second = step(x)
    np.testing.assert_array_equal(second[0], np.full((2, 2), 2.0))
    np.testing.assert_array_equal(second[1], np.full(4, 2.0))
    np.testing.assert_array_equal(x, np.ones((2, 2)))
    for value, kept in zip(first, (7, 7, 7), strict=True):
        assert (value == kept).all()


def test_feeds_with_gaps_are_copied_first() -> None:
    step = callable_of(lambda x: x + 1.0, (hr.float32, [3, 4]))
    wide = np.arange(24, dtype=np.float32).reshape(3, 8)
    np.testing.assert_array_equal(step(wide[:, ::2]), wide[:, ::2] + 1)
    np.testing.assert_array_equal(step(np.asfortranarray(wide[:, :4])), wide[:, :4] + 1)


def test_unaligned_feeds_are_copied_first() -> None:
    step = callable_of(lambda x: x + 1.0, (hr.float32, [5]))
    raw = np.zeros(21, np.uint8)
    x = raw[1:].view(np.float32)
    x[...] = range(5)
    np.testing.assert_array_equal(step(x), np.arange(5) + 1)


def test_large_constants_are_read_where_they_lie_in_loops_too() -> None:
    """A model of some hundred MB would otherwise be in memory once more for each of its plans."""
    table = np.random.default_rng(0).normal(size=(1 << 10, 300)).astype(np.float32)

    def build(x: hr.Tensor, row: hr.Tensor) -> list[hr.Tensor]:
        known = hr.constant(table)
        looped = hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + known * x), (0, hr.zeros_like(known)))
        return [looped[1], hr.gather(known, row), hr.sum(known * x, axis=1)]

    step = callable_of(build, (hr.float32, [300]), (hr.int64, [2]))
    x = np.linspace(-1, 1, 300, dtype=np.float32)
    looped, gathered, summed = step(x, np.array([3, 1023]))
    np.testing.assert_array_equal(looped, sum([table * x] * 3))
    np.testing.assert_array_equal(gathered, table[[3, 1023]])
    np.testing.assert_allclose(summed, table.astype(np.float64) @ x, atol=1e-4)
    with pytest.raises(hr.errors.HeadraceError, match="1024"):
        step(x, np.array([3, 1024]))


@pytest.mark.parametrize("dtype", [hr.float16, hr.bfloat16, hr.float32, hr.float64], ids=str)
def test_a_constant_NaN_keeps_its_sign(dtype: hr.DType) -> None:
    """One that is the same everywhere is a number in the code, and repr(-nan) is that of nan."""
    values = [np.full(20, number, dtype.array_type) for number in (np.nan, -np.nan)]
    step = callable_of(lambda x: [hr.where(x > 0, x, hr.constant(value)) for value in values], (dtype, [20]))
    found = step(np.full(20, -1, dtype.array_type))
    assert [np.isnan(value.astype(np.float64)).all() for value in found] == [True, True]
    assert [bool(np.signbit(value).any()) for value in found] == [False, True]
    assert np.signbit(found[1]).all()


def test_training_gives_what_the_numpy_backend_gives() -> None:
    def losses(backend: str) -> list[float]:
        graph = hr.Graph(seed=1)
        with graph.as_default():
            x = hr.placeholder(hr.float32, [None, 7])
            y = hr.placeholder(hr.int32, [None])
            w = hr.Variable(np.linspace(-1, 1, 35).astype(np.float32).reshape(7, 5))
            b = hr.Variable(hr.zeros([5]))
            loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=hr.nn.relu(x @ w + b)))
            train = hr.optim.Adam(0.1).minimize(loss)
        rng = np.random.default_rng(0)
        step = hr.Session(graph, config=hr.config(backend=backend)).make_callable([loss, train], [x, y])
        points, labels = rng.normal(size=(33, 7)).astype(np.float32), rng.integers(0, 5, 33).astype(np.int32)
        return [float(step(points, labels)[0]) for _ in range(20)]

    np.testing.assert_allclose(losses("cpu"), losses("numpy"), rtol=1e-5)


@pytest.mark.parametrize("shape", [(300, 1000), (1000, 300), (640, 257), (70, 5000)])
def test_sums_over_many_rows_have_the_same_bits_for_any_number_of_threads(shape: tuple[int, int]) -> None:
    def computed(threads: int) -> list[Any]:
        graph = hr.Graph()
        with graph.as_default():
            x, y = (hr.placeholder(hr.float32, shape) for _ in range(2))
            product = x * y
            outputs = [product, hr.sum(product, axis=0), hr.max(product, axis=0)]
        with hr.Session(graph, config=hr.config(backend="cpu", threads=threads)) as session:
            return list(session.run(outputs, feeds={x: left, y: right}))

    rng = np.random.default_rng(3)
    left, right = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    one, two = computed(1), computed(2)
    for ours, theirs in zip(one, two, strict=True):
        assert ours.tobytes() == theirs.tobytes()
    exact = (left * right).astype(np.float64)
    np.testing.assert_array_equal(one[0], left * right)
    rounded_twice = np.abs(exact).sum(axis=0) * 2.0**-23  # the sum of a part to float32, then that of all parts
    assert (np.abs(one[1] - exact.sum(axis=0)) <= rounded_twice).all()
    np.testing.assert_array_equal(one[2], (left * right).max(axis=0))


@pytest.mark.parametrize("count", [2, 5, 6, 40])
@pytest.mark.parametrize("fetched", [False, True])
def test_a_sum_of_products_is_that_of_its_products(count: int, fetched: bool) -> None:
    rng = np.random.default_rng(5)
    left, right = (rng.standard_normal((count, 3, size)).astype(np.float32) for size in (17, 20))

    def build(x: hr.Tensor, y: hr.Tensor) -> list[hr.Tensor]:
        pairs = zip(hr.unstack(x * 2.0), hr.unstack(y), strict=True)
        products = [hr.matmul(one, other, transpose_a=True) for one, other in pairs]
        return [hr.add_n(products), *products[: int(fetched)]]

    step = callable_of(build, (hr.float32, [count, 3, 17]), (hr.float32, [count, 3, 20]))
    exact = np.einsum("nki,nkj->nij", 2.0 * left.astype(np.float64), right)
    for _ in range(2):
        results = step(left, right)
        np.testing.assert_allclose(results[0], exact.sum(axis=0), rtol=1e-5, atol=1e-5 * count)
        for result in results[1:]:
            np.testing.assert_allclose(result, exact[0], rtol=1e-5, atol=1e-5)


def test_a_sum_of_products_takes_a_variable_as_it_was_read() -> None:
    graph = hr.Graph()
    with graph.as_default():
        v = hr.Variable(np.ones((2, 30), np.float32))
        x = hr.placeholder(hr.float32, [2, 30])
        first = hr.matmul(v.value, x, transpose_a=True)
        with hr.control_dependencies([first]):
            changed = v.assign_add(np.ones((2, 30), np.float32))
        assert changed is not None
        with hr.control_dependencies([changed]):
            second = hr.matmul(v.read(), x, transpose_a=True)
        total = hr.add_n([first, second])
    with hr.Session(graph, config=CPU) as session:
        session.run(v.initializer)
        given = np.ones((2, 30), np.float32)
        np.testing.assert_array_equal(session.run(total, feeds={x: given}), np.full((30, 30), 6.0))
        np.testing.assert_array_equal(session.run(total, feeds={x: given}), np.full((30, 30), 10.0))


def test_a_value_that_was_read_survives_an_update() -> None:
    graph = hr.Graph()
    with graph.as_default():
        v = hr.Variable(np.zeros(8, np.float32), name="v")
        with hr.control_dependencies([v.value.op]):
            update = v.assign_add(hr.ones([8]))
    session = hr.Session(graph, config=CPU)
    before = session.run(v.value)
    session.run(update)
    np.testing.assert_array_equal(before, np.zeros(8))
    np.testing.assert_array_equal(session.run(v.value), np.ones(8))


@pytest.mark.parametrize("late", [lambda x, old: hr.nn.softmax(x) + old, lambda x, old: hr.nn.softmax(old * x)])
def test_a_value_that_was_read_before_an_update_meets_sums_over_rows_as_it_was(late: Callable[..., Any]) -> None:
    x = np.random.default_rng(0).standard_normal((8, 8))

    def result(backend: str) -> Any:
        graph = hr.Graph()
        with graph.as_default():
            given = hr.constant(x)
            v = hr.Variable(np.ones((8, 8)), name="v")
            old = v.read()
            update = v.assign_add(given)
            fetches = [late(given, old), update]
        return hr.Session(graph, config=hr.config(backend=backend, passes=[])).run(fetches)[0]

    np.testing.assert_allclose(result("cpu"), result("numpy"), rtol=1e-12)


@pytest.mark.parametrize("late", [lambda old: hr.permute_dims(-old, (1, 0)), lambda old: (-old)[::-1]])
def test_a_value_that_follows_from_what_was_read_is_not_computed_from_what_was_written(
    late: Callable[[hr.Tensor], hr.Tensor],
) -> None:
    x = np.arange(64.0).reshape(8, 8)
    graph = hr.Graph()
    with graph.as_default():
        v = hr.Variable(x, name="v")
        old = v.read()
        update = v.assign(-old)
        fetches = [late(old), update]
    session = hr.Session(graph, config=hr.config(backend="cpu"))
    expected = hr.Session(graph, config=hr.config(backend="numpy"))
    for _ in range(2):
        np.testing.assert_array_equal(session.run(fetches)[0], expected.run(fetches)[0])


def test_steps_of_several_threads_do_not_tear_a_variable() -> None:
    graph = hr.Graph()
    with graph.as_default():
        v = hr.Variable(np.zeros(4096, np.float32), name="v")
        add = v.assign_add(hr.ones([4096]))
        seen = v.value * 1.0
    session = hr.Session(graph, config=CPU)
    step, look = session.make_callable(add, []), session.make_callable(seen, [])
    look()
    torn: list[Any] = []

    def update() -> None:
        for _ in range(50):
            step()

    def read() -> None:
        for _ in range(50):
            value = look()
            if (value != value[0]).any():
                torn.append(value)

    threads = [threading.Thread(target=target) for target in (update, update, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    np.testing.assert_array_equal(look(), np.full(4096, 100.0))


def test_a_label_that_is_no_class_is_refused_and_the_next_step_works() -> None:
    step = callable_of(
        lambda x, y: hr.nn.sparse_softmax_cross_entropy(labels=y, logits=x), (hr.float32, [3, 4]), (hr.int32, [3])
    )
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(hr.errors.InvalidArgumentError, match="a label is not a class(.|\n)*got: +-1"):
        step(x, np.array([0, -1, 2], np.int32))
    np.testing.assert_allclose(step(x, np.array([0, 1, 2], np.int32)), np.full(3, np.log(4)), rtol=1e-6)


def traced(build: Callable[[hr.Tensor], Any], x: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Run a step with and without a trace; give what it fetched under the trace, and its record."""
    graph = hr.Graph()
    with graph.as_default():
        given = hr.placeholder(hr.float32, x.shape)
        outputs = build(given)
    session = hr.Session(graph, config=CPU)
    trace = hr.Trace()
    wanted = session.run(outputs, feeds={given: x})
    found = session.run(outputs, feeds={given: x}, trace=trace)
    again = session.run(outputs, feeds={given: x})
    for one, two, three in zip(wanted, found, again, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
    return found, trace.steps[0]


@pytest.mark.parametrize("slice_nanoseconds", [10_000_000, 1])
def test_a_trace_has_a_time_for_each_group_that_runs_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, slice_nanoseconds: int
) -> None:
    """Not one for the whole native call, which is most often the whole step: nobody could see where time goes."""
    monkeypatch.setattr("headrace_cpu.step.calling.SLICE", slice_nanoseconds)

    def build(x: hr.Tensor) -> Any:
        h = hr.tanh(x @ x) * 0.5
        return hr.sum(h, axis=0), hr.sort(h), hr.exp(h @ x)

    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    _, step = traced(build, x, monkeypatch)
    groups = [group for segment in step.segments for group in segment.groups]
    assert [op.type for group in groups for op in group] == [op.type for op in step.operations]
    kinds = [tuple(op.type for op in group) for group in groups]
    assert ("MatMul",) in kinds or ("MatMul", "MatMul") in kinds
    assert any(kind[0] == "Tanh" for kind in kinds)
    assert len(kinds) >= 5
    assert [*step.starts_ns] == sorted(step.starts_ns)
    named = dict(zip([op.type for op in step.operations], step.kernels, strict=True))
    assert named["Tanh"] == "headrace_cpu.loops"
    assert any(name.startswith("headrace.kernels.") for name in step.kernels)


def test_a_trace_of_a_loop_and_of_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop pauses where it likes, beside the stops before groups; an update keeps its locks and is one group."""
    monkeypatch.setattr("headrace_cpu.step.calling.SLICE", 500)

    def build(x: hr.Tensor) -> Any:
        total = hr.while_loop(lambda i, s: i < 500, lambda i, s: (i + 1, s * 0.5 + x), (0, x))[1]
        return total * 2.0, hr.cumulative_sum(total)

    _, step = traced(build, np.arange(4, dtype=np.float32), monkeypatch)
    types = [group[0].type for segment in step.segments for group in segment.groups]
    assert any(name in ("While", "StatelessWhile") for name in types)
    assert len(step.positions) == len(set(step.positions))

    graph = hr.Graph()
    with graph.as_default():
        v = hr.Variable(np.zeros(3, np.float32))
        add = v.assign_add(hr.exp(v.read() * 0.0))
    session, trace = hr.Session(graph, config=CPU), hr.Trace()
    for _ in range(3):
        session.run(add, trace=trace)
    np.testing.assert_array_equal(session.run(v), [3.0, 3.0, 3.0])
    assert all(record.starts_ns for record in trace.steps)


def test_a_long_step_ends_at_its_deadline_between_two_groups() -> None:
    """One native call of some hundred products took all its time before anybody looked at the clock."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [512, 512])
        y = x
        for _ in range(300):
            y = hr.tanh(y @ x)
    session = hr.Session(graph, config=CPU)
    feeds = {x: np.zeros((512, 512), np.float32)}
    session.run(y, feeds=feeds)
    with pytest.raises(hr.errors.DeadlineExceededError, match="did not end in time"):
        session.run(y, feeds=feeds, timeout=0.01)
    trace = hr.Trace()
    with pytest.raises(hr.errors.DeadlineExceededError):
        session.run(y, feeds=feeds, timeout=0.01, trace=trace)
    (step,) = trace.steps
    assert 0 < len(step.positions) < 300
    session.run(y, feeds=feeds)


def test_a_long_step_comes_back_to_python_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Ctrl-C ends it: a step of a large network took seconds without looking. A short one does not."""
    looked: list[int] = []
    monkeypatch.setattr("headrace_cpu.step.calling.current_step", lambda: looked.append(1) or _Nothing())

    def looks(depth: int) -> int:
        graph = hr.Graph()
        with graph.as_default():
            x = hr.placeholder(hr.float32, [256, 256])
            y = x
            for _ in range(depth):
                y = hr.sin(y @ x)
        session = hr.Session(graph, config=CPU)
        feeds = {x: np.zeros((256, 256), np.float32)}
        session.run(y, feeds=feeds)
        looked.clear()
        session.run(y, feeds=feeds)
        return len(looked)

    assert looks(1) == 0
    assert looks(200) >= 2


class _Nothing:
    def check(self) -> None:
        """Nothing to end."""


def test_a_trace_names_the_backend_and_its_operations() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2])
        y = hr.exp(x) + 1.0
    trace = hr.Trace()
    hr.Session(graph, config=CPU).run(y, feeds={x: [0.0, 1.0]}, trace=trace)
    (record,) = trace.steps
    assert record.backend == "cpu"
    assert {op.type for op in record.operations} >= {"Exp", "AddV2"}
    assert record.kernels[0] == "headrace_cpu.loops"


def test_a_rule_of_the_user_is_fused() -> None:
    @hr.register_op("TestFusedTanh", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(T=hr.attr.floating))
    def _shape(op: hr.InferenceContext) -> list[Any]:
        """tanh(x) / 2."""
        return [op.inputs[0].shape]

    @hr.register_loops("TestFusedTanh")
    def _loops(op: hr.loops.LoopContext, x: hr.loops.Value) -> hr.loops.Value:
        return hr.loops.tanh(x) * 0.5

    @hr.register_kernel("TestFusedTanh")
    def _kernel(op: Any, x: Any) -> Any:
        raise AssertionError("the loops run")

    step = callable_of(lambda x: hr.apply_op("TestFusedTanh", x), (hr.float32, [3]))
    x = np.array([-1.0, 0.0, 2.0], np.float32)
    np.testing.assert_allclose(step(x), np.tanh(x) / 2, rtol=1e-6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_computes_on_one_thread() -> None:
    x = np.ones((400, 400), np.float32)
    step = callable_of(lambda t: hr.sum(hr.exp(t) * 2.0, axis=0), (hr.float32, [400, 400]))
    wanted = step(x)
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of any fork beside threads
        child = os.fork()
    if not child:
        same = step(x).tobytes() == wanted.tobytes()
        os.write(sender, b"same" if same else b"else")
        os._exit(0)
    os.close(sender)
    assert os.read(receiver, 4) == b"same"
    assert os.waitpid(child, 0)[1] == 0
    os.close(receiver)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_one_thread_even_if_it_asks_for_more() -> None:
    x = np.ones((400, 4000), np.float32)

    def compute() -> bytes:
        with hr.Graph().as_default() as graph:
            given = hr.placeholder(hr.float32, x.shape)
            result = hr.sin(given)
        session = hr.Session(graph, config=hr.config(backend="cpu", threads=2))
        found: bytes = session.run(result, {given: x}).tobytes()
        return found

    wanted = compute()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of any fork beside threads
        child = os.fork()
    if not child:
        signal.alarm(10)  # where it would wait for threads of its parent
        os._exit(0 if compute() == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0


def images_step(threads: int) -> hr.Session:
    """A network for images whose layers are larger than caches."""
    rng = np.random.default_rng(0)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 112, 112, 32], name="x")
        y = x
        for _ in range(2):
            kernel = hr.constant(rng.standard_normal((3, 3, 32, 32)).astype(np.float32) * 0.1)
            y = hr.nn.relu(hr.nn.conv2d(y, kernel)) + y
        hr.mean(hr.nn.max_pool2d(y, 4, 4), axis=(1, 2), name="y")
    return hr.Session(graph, config=hr.config(backend="cpu", threads=threads))


@pytest.mark.skipif(onednn() is None, reason="without oneDNN nothing is computed slice by slice")
@pytest.mark.parametrize("threads", [1, 2])
def test_large_batches_are_computed_slice_by_slice_in_less_memory(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(1).standard_normal((4, 112, 112, 32), np.float32)
    found = []
    for setting in ("on", "off"):
        monkeypatch.setenv("HEADRACE_BATCH_SLICES", setting)
        trace = hr.Trace()
        with images_step(threads) as session:
            y = session.run("y:0", {"x:0": x}, trace=trace)
        convolutions = sum("Conv2D" in record.type for step in trace.steps for record in step.op_records())
        found.append((y, convolutions, max(step.arena_bytes for step in trace.steps)))
    (sliced, many, small), (whole, few, large) = found
    np.testing.assert_allclose(sliced, whole, rtol=1e-5)
    assert (many, few) == (4, 2)
    assert small < 0.8 * large
