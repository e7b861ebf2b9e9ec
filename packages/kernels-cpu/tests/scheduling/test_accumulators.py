"""Momentum: a gradient that is a product is added up where the momentum lies, with the numbers of the NumPy kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace_cpu.onednn import onednn

pytestmark = pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")

Build = Callable[[Any, Any, Any], list[Any]]
"""From the batch, the weight and its momentum to what a step runs."""


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def results(build: Build, backend: str, steps: int = 3) -> tuple[list[Any], bool]:
    """What the steps give and leave in the variables, and whether a product runs with what updates variables."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [3, 7])
        w, v = (hr.Variable(normal(7, 8) / size, name=name) for name, size in (("w", 1), ("v", 2)))
        fetches = build(x, w, v)
    found = []
    with hr.Session(graph, config=hr.config(backend=backend)) as session:
        for step in range(steps):
            trace = hr.Trace()
            found.append(session.run(fetches, feeds={x: normal(3, 7) + step}, trace=trace)[0])
            found += session.run([w, v])
    groups = [record.names for step in trace.steps for record in step.op_records()]
    runs = [" ".join(names) for names in groups]
    return found, any("MatMul" in names and "AssignVariableOp" in names for names in runs)


def gradient(x: Any, w: Any) -> Any:
    (found,) = hr.gradients(hr.mean(hr.tanh(x @ w)), [w])
    return found


def momentum(x: Any, w: Any, v: Any) -> list[Any]:
    total = 0.9 * v.value + gradient(x, w)
    updates = [v.assign(total), w.assign_sub(0.5 * total)]
    with hr.control_dependencies(updates):
        return [hr.identity(x)]


def optimizer(x: Any, w: Any, v: Any) -> list[Any]:
    loss = hr.mean(hr.tanh(x @ w))
    return [loss, hr.optim.Momentum(0.5, momentum=0.9).minimize(loss, [w])]


def nesterov(x: Any, w: Any, v: Any) -> list[Any]:
    loss = hr.mean(hr.tanh(x @ w))
    return [loss, hr.optim.Momentum(0.5, momentum=0.9, nesterov=True).minimize(loss, [w])]


def gradient_first(x: Any, w: Any, v: Any) -> list[Any]:
    total = gradient(x, w) + v.value * -1.5
    return [hr.sum(total), v.assign(total)]


@pytest.mark.parametrize("build", [momentum, optimizer, gradient_first])
def test_the_product_is_added_up_in_the_variable(build: Build) -> None:
    ours, together = results(build, "cpu")
    assert together
    theirs, _ = results(build, "numpy")
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


def fetched(x: Any, w: Any, v: Any) -> list[Any]:
    total = 0.9 * v.value + gradient(x, w)
    return [total, v.assign(total)]


def clipped(x: Any, w: Any, v: Any) -> list[Any]:
    found = gradient(x, w)
    return [hr.sum(found * found), v.assign(0.9 * v.value + found)]


def read_twice(x: Any, w: Any, v: Any) -> list[Any]:
    before = v.value
    total = 0.9 * before + gradient(x, w)
    return [hr.sum(before), v.assign(total)]


def changed_again(x: Any, w: Any, v: Any) -> list[Any]:
    with hr.control_dependencies([v.assign(0.9 * v.value + gradient(x, w))]):
        return [hr.sum(x), v.assign_add(hr.ones([7, 8]))]


def of_another(x: Any, w: Any, v: Any) -> list[Any]:
    return [hr.sum(x), v.assign(0.9 * w.value + gradient(x, w))]


def by_a_variable(x: Any, w: Any, v: Any) -> list[Any]:
    factor = hr.Variable(np.float32(0.9), trainable=False)
    return [hr.sum(x), v.assign(factor.value * v.value + gradient(x, w))]


def row_of_factors(x: Any, w: Any, v: Any) -> list[Any]:
    return [hr.sum(x), v.assign(np.arange(8, dtype=np.float32) * v.value + gradient(x, w))]


def after_something(x: Any, w: Any, v: Any) -> list[Any]:
    product = gradient(x, w)
    with hr.control_dependencies([w.assign_add(hr.ones([7, 8]))]):
        return [hr.sum(x), v.assign(0.9 * v.value + product)]


@pytest.mark.parametrize(
    "build",
    [fetched, nesterov, clipped, read_twice, changed_again, of_another, by_a_variable, row_of_factors, after_something],
)
def test_what_needs_the_sum_or_the_variable_otherwise_keeps_both_apart(build: Build) -> None:
    ours, together = results(build, "cpu")
    assert not together
    theirs, _ = results(build, "numpy")
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


def test_a_product_that_is_smaller_than_its_factors_is_not_kept_waiting() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [40, 7])
        w, v = hr.Variable(normal(7, 8), name="w"), hr.Variable(normal(7, 8), name="v")
        step = momentum(x, w, v)
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        trace = hr.Trace()
        session.run(step, feeds={x: normal(40, 7)}, trace=trace)
    runs = [" ".join(record.names) for record in trace.steps[0].op_records()]
    assert not any("MatMul" in names and "Assign" in names for names in runs)


def test_what_was_read_before_stays_as_it_was() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [3, 7])
        w, v = hr.Variable(normal(7, 8), name="w"), hr.Variable(normal(7, 8), name="v")
        step = momentum(x, w, v)
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        before = session.run(v)
        copy = before.copy()
        session.run(step, feeds={x: normal(3, 7)})
        np.testing.assert_array_equal(before, copy)
        assert not np.array_equal(session.run(v), copy)


def test_the_gradient_takes_no_memory() -> None:
    def arena(slots: bool) -> int:
        with hr.Graph().as_default() as graph:
            x = hr.placeholder(hr.float32, [2, 300])
            w = hr.Variable(normal(300, 300), name="w")
            loss = hr.mean(hr.tanh(x @ w))
            train = hr.optim.Momentum(0.5, momentum=0.9, nesterov=not slots).minimize(loss)
        with hr.Session(graph, config=hr.config(backend="cpu")) as session:
            trace = hr.Trace(detail=False)
            session.run([loss, train], feeds={x: normal(2, 300)}, trace=trace)
            return max(step.arena_bytes for step in trace.steps)

    assert arena(slots=True) < 4 * 300 * 300
