"""Which operations a layout says a group is: those that its one piece of code computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace_cpu.onednn import onednn

needs_library = pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")

CPU = hr.config(backend="cpu")
Group = tuple[tuple[str, ...], str]


def groups_of(build: Callable[[hr.Tensor], Any], *shape: int) -> list[Group]:
    """The types of the operations of each group of a traced step, and what computed it."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, shape)
        outputs = build(x)
    trace = hr.Trace()
    with hr.Session(graph, config=CPU) as session:
        session.run(outputs, feeds={x: np.random.default_rng(0).normal(size=shape).astype(np.float32)}, trace=trace)
    (step,) = trace.steps
    assert len(step.kernels) == len(step.operations)
    kernels = dict(zip(step.operations, step.kernels, strict=True))
    found = []
    for segment in step.segments:
        for group in segment.groups:
            (kernel,) = {kernels[op] for op in group} - {""}  # what is only a part of others has none
            found.append((tuple(op.type for op in group), kernel))
    return found


def weights(*shape: int) -> hr.Tensor:
    return hr.Variable(np.random.default_rng(1).normal(size=shape).astype(np.float32)).read()


@needs_library
def test_what_a_library_does_together_is_one_group() -> None:
    """The bias is added by the call that convolves; it used to be in no trace."""

    def build(x: hr.Tensor) -> Any:
        return hr.nn.relu(hr.nn.bias_add(hr.nn.conv2d(x, weights(3, 3, 16, 16), padding="SAME"), weights(16)))

    found = groups_of(build, 2, 12, 12, 16)
    assert found == [(("Conv2D", "BiasAdd"), "onednn"), (("Relu",), "headrace_cpu.loops")]


@needs_library
def test_a_sum_of_products_that_is_one_call_is_one_group() -> None:
    """Its row said "AddN", which has next to no operations of its own."""

    def build(x: hr.Tensor) -> Any:
        y = hr.exp(x)
        return hr.add_n([hr.matmul(y[:, :2], y[:2]), hr.matmul(y[:, 2:4], y[2:4]), hr.matmul(y[:, 4:6], y[4:6])])

    found = groups_of(build, 128, 128)
    assert (("MatMul", "MatMul", "MatMul", "AddN"), "onednn") in found


@needs_library
def test_what_is_only_computed_again_stands_with_the_first_that_computes_it() -> None:
    """It used to be a group of its own that took no time at all: 3000 % of what memory can do."""

    def build(x: hr.Tensor) -> Any:
        sizes = hr.abs(hr.nn.conv2d(x, weights(3, 3, 1, 16), padding="VALID"))
        return hr.nn.max_pool2d(sizes, 2, strides=2, padding="VALID")

    found = groups_of(build, 4, 14, 14, 1)
    assert found == [(("Conv2D",), "onednn"), (("Abs", "MaxPool"), "headrace_cpu.loops")]


def test_every_group_of_a_training_step_starts_a_unit() -> None:
    """So each has a start and a time of its own, and together they are all operations."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [16, 32])
        hidden = hr.nn.relu(hr.matmul(x, weights(32, 64)) + weights(64))
        loss = hr.mean(hr.nn.softmax(hr.matmul(hidden, weights(64, 8))) ** 2.0)
        train = hr.optim.Adam(0.1).minimize(loss)
    trace = hr.Trace()
    with hr.Session(graph, config=CPU) as session:
        session.run([loss, train], feeds={x: np.ones((16, 32), np.float32)}, trace=trace)
    (step,) = trace.steps
    listed = [op for segment in step.segments for group in segment.groups for op in group]
    assert listed == list(step.operations)
    assert len(set(step.starts_ns)) == len(step.starts_ns)


@pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")
def test_a_loss_writes_its_gradient_over_the_logits() -> None:
    """The largest output comes first in planning, whatever else the region gives."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((512, 8), np.float32), "y": rng.integers(0, 3000, 512).astype(np.int32)}
    given, back = (rng.standard_normal(shape, np.float32) for shape in ((8, 3000), (3000, 4)))
    found: dict[str, list[np.ndarray]] = {}
    for backend in ("cpu", "numpy"):
        graph = hr.Graph()
        with graph.as_default():
            x, y = hr.placeholder(hr.float32, [512, 8], name="x"), hr.placeholder(hr.int32, [512], name="y")
            logits = x @ given
            loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=logits))
            (gradient,) = hr.gradients(loss, [logits])
            fetches = [loss, gradient @ back]
        with hr.Session(graph, config=hr.config(backend=backend)) as session:
            found[backend] = session.run(fetches, feeds=feeds)
            arena = session.explain(fetches, feeds=feeds).memory.arena_bytes
        if backend == "cpu":
            assert arena < 1.5 * 512 * 3000 * 4
    for ours, theirs in zip(found["cpu"], found["numpy"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
