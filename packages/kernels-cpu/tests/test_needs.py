"""What native plans need and run: known before, and what limits of memory are held against."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace_cpu.llvm.host import host
from headrace_cpu.onednn import onednn

FEEDS = {"x:0": np.random.default_rng(0).standard_normal((512, 256), np.float32)}


def model() -> tuple[hr.Graph, list[Any]]:
    """A training step with values that later parts of it read, some of them cheap to compute again."""
    rng = np.random.default_rng(1)
    graph = hr.Graph()
    with graph.as_default():
        h: hr.Tensor = hr.placeholder(hr.float32, [512, 256], name="x")
        for layer in range(4):
            w = hr.Variable(rng.standard_normal((256, 256), np.float32) * np.float32(0.1), name=f"w{layer}")
            h = hr.nn.softmax(hr.tanh(h @ w))
        loss = hr.mean(hr.square(h))
        return graph, [loss, hr.optim.Momentum(0.1, momentum=0.9).minimize(loss)]


def session(graph: hr.Graph, **options: Any) -> hr.Session:
    made = hr.Session(graph, config=hr.config(backend="cpu", **options))
    made.read_variables()
    return made


def measured(session: hr.Session, fetches: list[Any]) -> int:
    """The most bytes that were allocated at one moment of the first step."""
    step = session.make_callable(fetches, list(FEEDS))
    session.explain(fetches, FEEDS)  # compiles
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        step(*FEEDS.values())
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_C54_the_planned_peak_is_the_measured_one() -> None:
    graph, fetches = model()
    with session(graph) as running:
        planned = running.explain(fetches, FEEDS).memory.peak_bytes
        assert measured(running, fetches) == pytest.approx(planned, rel=0.05, abs=40_000)


@pytest.mark.skipif(onednn() is None or host().lanes < 16, reason="elsewhere weights may be read as they are")
@pytest.mark.parametrize("is_constant", [True, False], ids=["constants", "variables"])
@pytest.mark.parametrize("taps", [1, 3])
def test_C54_copies_of_weights_in_other_layouts_count(taps: int, is_constant: bool) -> None:
    """They are larger than all else that a model for one image needs, and nobody asked for them."""
    rng = np.random.default_rng(0)
    filters = [rng.standard_normal((taps, taps, 512, 512), np.float32) for _ in range(2)]
    feeds = {"x:0": rng.standard_normal((1, 7, 7, 512), np.float32)}
    graph = hr.Graph()
    with graph.as_default():
        y: hr.Tensor = hr.placeholder(hr.float32, [1, 7, 7, 512], name="x")
        weights = [hr.constant(value) if is_constant else hr.Variable(value).value for value in filters]
        for weight in (*weights, weights[0]):  # the copy of one that is used twice is made once
            y = hr.nn.relu(hr.nn.conv2d(y, weight, 1, "SAME"))
    with session(graph) as running:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            memory = running.explain([y], feeds).memory
            running.run([y], feeds)
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert memory.copies_bytes == sum(value.nbytes for value in filters)
    assert memory.peak_bytes == memory.arena_bytes + memory.outside_bytes + memory.copies_bytes
    assert taken == pytest.approx(memory.peak_bytes, rel=0.05, abs=1_000_000)
    limited = pytest.raises(hr.errors.ResourceExhaustedError, match="of them for weights in other layouts")
    with session(graph, memory_limit=memory.peak_bytes - 1) as running, limited:
        running.run([y], feeds)


@pytest.mark.parametrize("share", [0.9, 0.8, 0.7])
def test_A76_values_are_computed_again_with_the_same_bits(share: float) -> None:
    graph, fetches = model()
    with session(graph) as running:
        limit = int(share * running.explain(fetches, FEEDS).memory.peak_bytes)
        plain = [running.run(fetches, FEEDS)[0].tobytes() for _ in range(3)]
        weights = {name: value.tobytes() for name, value in running.read_variables().items()}
    with session(graph, memory_limit=limit, recompute=True) as running:
        assert running.explain(fetches, FEEDS).memory.peak_bytes <= limit
        assert measured(running, fetches) <= 1.05 * limit + 40_000
    with session(graph, memory_limit=limit, recompute=True) as running:
        assert [running.run(fetches, FEEDS)[0].tobytes() for _ in range(3)] == plain
        assert {name: value.tobytes() for name, value in running.read_variables().items()} == weights


def test_a_step_that_needs_more_is_refused() -> None:
    graph, fetches = model()
    refused = pytest.raises(hr.errors.ResourceExhaustedError, match=r"float32\[512, 256\] \(524,288 bytes\)")
    with session(graph, memory_limit=100_000) as running, refused:
        running.run(fetches, FEEDS)


def test_fused_loops_libraries_and_numpy_are_told_apart() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [512, 256], name="x")
        scaled = hr.nn.relu(hr.multiply(x, 2.0, name="doubled"), name="kept")
        product = hr.matmul(x, x, transpose_a=True, name="product") + 1000.0 * hr.eye(256)
        fetches = [scaled, hr.linalg.cholesky(product), hr.sum(scaled, axis=1, name="sums")]
    with session(graph) as running:
        explanation = running.explain(fetches, FEEDS)
    found = {name: work for work in explanation.work for name in work.types}
    assert found["Cholesky"].kind == "numpy"
    assert found["Cholesky"].kernel.startswith("headrace.kernels.linalg.")
    assert found["MatMul"].kind == ("library" if onednn() is not None else "numpy")
    assert found["MatMul"].flops == 2 * 256 * 256 * 512
    loops = next(work for work in explanation.work if "doubled" in work.operations)
    assert {"doubled", "kept"} <= set(loops.operations)
    assert (loops.kind, loops.kernel) == ("loops", "headrace_cpu.loops")
    assert loops.flops >= 2 * 512 * 256
    assert loops.reason
    assert json.loads(json.dumps(explanation.as_dict()))["backend"] == "cpu"


@pytest.mark.parametrize(
    ("batch", "kind", "reason"),
    [(3, "native", "are native code"), (None, "numpy", "calls functions one by one: .* a shape that is not known")],
)
def test_a_loop_says_why_it_is_or_is_not_native(batch: int | None, kind: str, reason: str) -> None:
    """Rows of a list in a body have the batch size that the graph says, not the one that was fed."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [5, batch, 4], name="x")
        last = hr.foldl(lambda sums, row: sums + row, x, init=x[0])
    with session(graph) as running:
        explanation = running.explain(last, {x: np.ones((5, 3, 4), np.float32)})
    (loop,) = (work for work in explanation.work if set(work.types) & {"While", "StatelessWhile"})
    assert loop.kind == kind
    assert re.search(reason, loop.reason)


def test_values_of_a_fused_loop_are_no_traffic() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [512, 256], name="x")
        y = hr.tanh(hr.exp(-hr.square(x)))
    with session(graph) as running:
        (work,) = running.explain(y, FEEDS).work
    assert work.types == ("Square", "Neg", "Exp", "Tanh")
    assert work.bytes == 2 * 4 * 512 * 256


def test_what_numpy_kernels_allocate_is_counted() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float64, [4, 32, 32, 8], name="x")  # no library convolves float64
        y = hr.nn.conv2d(x, hr.ones([3, 3, 8, 8], hr.float64), padding="SAME")
        fetch = hr.sum(y)
    with session(graph) as running:
        memory = running.explain(fetch, {x: np.ones((4, 32, 32, 8))}).memory
    assert memory.outside_bytes >= 4 * 32 * 32 * 9 * 8 * 8
    assert memory.largest[0].name == "workspace of Conv2D"


def test_large_gradients_are_applied_before_more_are_made() -> None:
    """Four of 4 MB each: not all of them are alive at once, as they are where they are small."""

    def alive(width: int) -> float:
        graph = hr.Graph()
        with graph.as_default():
            h: hr.Tensor = hr.placeholder(hr.float32, [8, width], name="x")
            for layer in range(4):
                h = hr.tanh(h @ hr.Variable(np.zeros((width, width), np.float32), name=f"w{layer}"))
            loss = hr.mean(h)
            fetches = [loss, hr.optim.SGD(0.1).minimize(loss)]
        with session(graph) as running:
            return running.explain(fetches, {"x:0": np.ones((8, width), np.float32)}).memory.peak_bytes / (4 * width**2)

    assert alive(1024) < 2
    assert alive(128) >= 3


def test_values_of_numpy_kernels_end_where_planning_says() -> None:
    """The rows of a sparse update are five arrays, of which at most three are needed at once."""
    rng = np.random.default_rng(0)
    graph = hr.Graph()
    with graph.as_default():
        ids = hr.placeholder(hr.int32, [2048], name="ids")
        table = hr.Variable(rng.standard_normal((20000, 128), np.float32), name="table")
        loss = hr.mean(hr.square(hr.gather(table.value, ids)))
        train = hr.optim.Momentum(0.1, momentum=0.9).minimize(loss)
    feeds = {"ids:0": rng.integers(0, 20000, 2048).astype(np.int32)}
    with session(graph) as running:
        planned = running.explain([loss, train], feeds).memory.peak_bytes
        step = running.make_callable([loss, train], list(feeds))
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            step(*feeds.values())
            taken = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
    assert taken == pytest.approx(planned, rel=0.05, abs=40_000)
