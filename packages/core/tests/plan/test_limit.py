"""Limits of memory: what a step needs is known before, is what it takes, and holds it to its limit."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, ResourceExhaustedError
from headrace.passes import prune
from headrace.plan.limit import within_limit
from headrace.plan.needs import PlannedMemory

Arrays = dict[str, Any]


def multilayer() -> tuple[hr.Graph, list[Any], Arrays]:
    """A training step of a network of products."""
    rng = np.random.default_rng(0)
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [512, 200], name="x")
        y = hr.placeholder(hr.int32, [512], name="y")
        h: hr.Tensor = x
        for layer, (rows, columns) in enumerate([(200, 300), (300, 300), (300, 10)]):
            w = hr.Variable(rng.standard_normal((rows, columns), np.float32) * np.float32(0.05), name=f"w{layer}")
            h = hr.nn.gelu(h @ w, approximate=layer == 0) if layer < 2 else h @ w
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=h))
        train = hr.optim.Momentum(0.1, momentum=0.9).minimize(loss)
    feeds = {"x:0": rng.standard_normal((512, 200), np.float32), "y:0": rng.integers(0, 10, 512).astype(np.int32)}
    return graph, [loss, train], feeds


def convolutional() -> tuple[hr.Graph, list[Any], Arrays]:
    """A training step whose kernels allocate patches of images."""
    rng = np.random.default_rng(0)
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [16, 24, 24, 3], name="x")
        h: hr.Tensor = x
        for layer, channels in enumerate([(3, 16), (16, 24)]):
            k = hr.Variable(rng.standard_normal((3, 3, *channels), np.float32) * np.float32(0.1), name=f"k{layer}")
            h = hr.nn.max_pool2d(hr.nn.relu(hr.nn.conv2d(h, k, padding="SAME")), 2, 2)
        loss = hr.mean(hr.square(h))
        train = hr.optim.SGD(0.1).minimize(loss)
    return graph, [loss, train], {"x:0": rng.standard_normal((16, 24, 24, 3), np.float32)}


def normalised() -> tuple[hr.Graph, list[Any], Arrays]:
    """A training step of rows that are normalised, and the gradient of what they were scaled by."""
    rng = np.random.default_rng(0)
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [1024, 300], name="x")
        gain = hr.Variable(rng.standard_normal(300, np.float32), name="gain")
        h = hr.nn.softmax(hr.sigmoid(x) * gain)
        loss = hr.mean(hr.square(h - hr.mean(h, axis=1, keepdims=True)))
        train = hr.optim.SGD(0.1).minimize(loss)
    return graph, [loss, train], {"x:0": rng.standard_normal((1024, 300), np.float32)}


def attentive() -> tuple[hr.Graph, list[Any], Arrays]:
    """A training step of attention: products of views, whose results are turned and joined again."""
    rng = np.random.default_rng(0)
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [512, 96], name="x")
        w = hr.Variable(rng.standard_normal((96, 288), np.float32) * np.float32(0.1), name="w")

        def headed(part: hr.Tensor) -> hr.Tensor:
            return hr.permute_dims(hr.reshape(part, [8, 64, 4, 24]), (0, 2, 1, 3))

        q, k, v = map(headed, hr.split(x @ w, 3, axis=1))
        mixed = hr.nn.softmax(hr.matmul(q, k, transpose_b=True)) @ v
        y = hr.reshape(hr.permute_dims(mixed, (0, 2, 1, 3)), [512, 96])
        train = hr.optim.SGD(0.1).minimize(hr.mean(hr.square(y)))
    return graph, [y, train], {"x:0": rng.standard_normal((512, 96), np.float32)}


def embedded() -> tuple[hr.Graph, list[Any], Arrays]:
    """A training step that changes rows of a table."""
    rng = np.random.default_rng(0)
    graph = hr.Graph()
    with graph.as_default():
        ids = hr.placeholder(hr.int32, [2048], name="ids")
        table = hr.Variable(rng.standard_normal((20000, 128), np.float32), name="table")
        loss = hr.mean(hr.square(hr.gather(table.value, ids)))
        train = hr.optim.Momentum(0.1, momentum=0.9).minimize(loss)
    return graph, [loss, train], {"ids:0": rng.integers(0, 20000, 2048).astype(np.int32)}


MODELS = [multilayer, convolutional, normalised, attentive, embedded]


def measured(session: hr.Session, fetches: list[Any], feeds: Arrays) -> int:
    """The most bytes that NumPy had allocated at one moment of the first step, beside what there was before.

    Up to 100,000 of them are buffers of universal functions, of operands with gaps.
    """
    session.read_variables()
    step = session.make_callable(fetches, list(feeds))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        step(*feeds.values())
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("model", MODELS)
def test_C54_the_planned_peak_is_the_measured_one(model: Callable[[], tuple[hr.Graph, list[Any], Arrays]]) -> None:
    graph, fetches, feeds = model()
    with hr.Session(graph, config=hr.config(backend="numpy", threads=1)) as session:
        planned = session.explain(fetches, feeds).memory.peak_bytes
        assert measured(session, fetches, feeds) == pytest.approx(planned, rel=0.05, abs=100_000)


@pytest.mark.parametrize("model", [multilayer, normalised])
def test_A76_values_are_computed_again_until_the_step_fits(
    model: Callable[[], tuple[hr.Graph, list[Any], Arrays]],
) -> None:
    graph, fetches, feeds = model()
    config = functools.partial(hr.config, backend="numpy", threads=1)
    with hr.Session(graph, config=config()) as session:
        peak = session.explain(fetches, feeds).memory.peak_bytes
        plain = [session.run(fetches, feeds)[0].tobytes() for _ in range(3)]
        weights = {name: value.tobytes() for name, value in session.read_variables().items()}
    limit = int(0.9 * peak)
    with hr.Session(graph, config=config(memory_limit=limit, recompute=True)) as session:
        assert session.explain(fetches, feeds).memory.peak_bytes <= limit
        assert measured(session, fetches, feeds) <= 1.05 * limit + 100_000
    with hr.Session(graph, config=config(memory_limit=limit, recompute=True)) as session:
        assert [session.run(fetches, feeds)[0].tobytes() for _ in range(3)] == plain
        assert {name: value.tobytes() for name, value in session.read_variables().items()} == weights


def test_a_step_that_needs_more_is_refused_before_it_runs() -> None:
    graph, fetches, feeds = multilayer()
    with hr.Session(graph, config=hr.config(backend="numpy", memory_limit=500_000)) as session:
        before = session.read_variables()
        with pytest.raises(ResourceExhaustedError) as caught:
            session.run(fetches, feeds)
        after = session.read_variables()
    text = str(caught.value)
    assert "a step would need more memory than it may" in text
    assert "at most 500,000 bytes (memory_limit)" in text
    assert "float32[512, 300] (614,400 bytes)" in text
    assert "hr.config(recompute=True)" in text
    assert "test_limit.py" in text
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_what_no_repetition_can_hold_to_its_limit_is_refused_too() -> None:
    graph, fetches, feeds = multilayer()
    with (
        hr.Session(graph, config=hr.config(backend="numpy", memory_limit=100_000, recompute=True)) as session,
        pytest.raises(ResourceExhaustedError, match="smaller batches, or a higher"),
    ):
        session.run(fetches, feeds)


def test_a_step_within_its_limit_is_compiled_as_without() -> None:
    graph, fetches, feeds = multilayer()
    with hr.Session(graph, config=hr.config(backend="numpy", memory_limit=1 << 30, recompute=True)) as session:
        assert not [op for op in session.optimized_graph(fetches, feeds).operations if op.name.startswith("again_")]


def test_steps_over_devices_are_held_to_it_together() -> None:
    graph = hr.Graph()
    with graph.as_default():
        with hr.device("CPU:1"):
            x = hr.ones([1000, 100]) * hr.random.uniform([1000, 100])
        with hr.device("CPU:0"):
            y = hr.sum(hr.exp(x))
    options = hr.config(backend="numpy", virtual_devices={"CPU": 2}, memory_limit=10_000)
    with (
        hr.Session(graph, config=options) as session,
        pytest.raises(ResourceExhaustedError, match=r"\[1000, 100"),
    ):
        session.run(y)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2 GB", True])
def test_a_limit_that_is_no_number_of_bytes_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="memory is counted in bytes"):
        hr.config(memory_limit=wrong)


class _Compiled:
    """What a backend says that it needs, for each graph that it is asked to compile the next one of some."""

    operations = ()

    def __init__(self, memory: PlannedMemory) -> None:
        self.memory = memory

    def __call__(self, arguments: Any, /) -> Any:
        raise AssertionError("it is not run")

    run_with_hook = __call__


@pytest.mark.parametrize(
    ("copies", "hint"),
    [
        (900, "a higher hr.config(memory_limit=...)"),
        (100, "smaller batches, or a higher hr.config(memory_limit=...)"),
    ],
)
def test_computing_again_makes_no_room_for_copies_of_weights(copies: int, hint: str) -> None:
    """Where these alone are too many, nothing is rewritten and compiled for it."""
    graph, fetches, _ = multilayer()
    bounded = prune(graph, [fetches[0]], [fetches[1]], [graph.tensor("x:0"), graph.tensor("y:0")])
    memory = PlannedMemory(600, 200, 600, (), copies_bytes=copies)
    asked: list[hr.Graph] = []

    def compile_graph(item: hr.Graph) -> _Compiled:
        asked.append(item)
        return _Compiled(memory)

    with pytest.raises(ResourceExhaustedError) as refused:
        within_limit(bounded, hr.config(memory_limit=800, recompute=True), compile_graph)
    text = str(refused.value)
    assert f"{800 + copies:,} bytes, {copies} of them for weights in other layouts; the largest" in text
    assert f"try:      {hint}\n" in f"{text}\n"
    assert (len(asked) == 1) is (copies > 800)
