"""Narrowing: loops and branches take, keep and give only what is used, and compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr

_runs: list[str] = []


@hr.register_op("NotedIdentity", inputs={"x": "T"}, outputs={"y": "T"}, attrs={"label": hr.attr.string("")})
def _noted_shape(op):
    """The input; each run is noted."""
    return [op.inputs[0].shape]


@hr.register_kernel("NotedIdentity", aliases=[0])
def _noted(op, x):
    _runs.append(op.attr("label"))
    return x


hr.no_gradient("NotedIdentity", "it is made for counting")


def _noted_op(x: hr.Tensor, label: str) -> hr.Tensor:
    return hr.apply_op("NotedIdentity", x, label=label)


def _optimized(graph: hr.Graph, fetches: Any, feeds: dict[Any, Any]) -> hr.Graph:
    return hr.Session(graph, config=hr.config(verify=True)).optimized_graph(fetches, feeds)


def _only(graph: hr.Graph, *types: str) -> hr.Operation:
    (found,) = [op for op in graph.operations if op.type in types]
    return found


def test_a_loop_loses_the_variables_that_nothing_needs() -> None:
    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        x, dead = hr.placeholder(hr.float32, [2]), hr.placeholder(hr.float32, [2])
        i, a, _, _ = hr.while_loop(
            lambda i, a, b, c: i < n,
            lambda i, a, b, c: (i + 1, a + b, b * 2.0, _noted_op(c, "dead") * 3.0),
            (0, x, x, dead),
        )
    loop = _only(_optimized(graph, a, {n: 3, x: [1, 1], dead: [1, 1]}), "StatelessWhile")
    assert len(loop.inputs) == 4  # i, a, b and n
    _runs.clear()
    np.testing.assert_array_equal(hr.Session(graph).run(a, feeds={n: 3, x: [1, 1], dead: [1, 1]}), [8, 8])
    assert _runs == []
    loop = _only(_optimized(graph, i, {n: 3, x: [1, 1], dead: [1, 1]}), "StatelessWhile")
    assert len(loop.inputs) == 2


def test_what_a_loop_does_not_change_is_the_same_after_it() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        same = hr.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v), (0, x))[1]
    optimized = _optimized(graph, same, {x: 2.0})
    assert [op.type for op in optimized.operations] == ["_Arg", "_Retval"]


def test_a_constant_that_a_loop_captures_is_a_constant_inside() -> None:
    with hr.Graph().as_default() as graph:
        scale = hr.constant([2.0, 3.0])
        x = hr.placeholder(hr.float32, [2])
        y = hr.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * scale), (0, x))[1]
    optimized = _optimized(graph, y, {x: [1, 1]})
    loop = _only(optimized, "StatelessWhile")
    assert len(loop.inputs) == 2
    assert any(op.type == "Const" and op.attrs["value"].tolist() == [2, 3] for op in loop.bodies[1].operations)
    np.testing.assert_array_equal(hr.Session(graph).run(y, feeds={x: [1, 1]}), [8, 27])


def test_a_loop_with_an_effect_keeps_what_the_effect_needs() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.float32(0.0), name="v")
        x = hr.placeholder(hr.float32, [])

        def body(i: hr.Tensor, a: hr.Tensor, b: hr.Tensor) -> Sequence[hr.Tensor]:
            v.assign_add(a)
            return i + 1, a * 2.0, b * 3.0

        i = hr.while_loop(lambda i, a, b: i < 3, body, (0, x, x))[0]
        value = v.read()
    session = hr.Session(graph)
    loop = _only(_optimized(graph, i, {x: 1.0}), "While")
    assert len(loop.inputs) == 3  # i, a and the handle
    assert session.run(i, feeds={x: 1.0}) == 3
    assert session.run(value) == 7.0


def test_a_branch_loses_what_nobody_reads() -> None:
    with hr.Graph().as_default() as graph:
        p, x, y = hr.placeholder(hr.bool, []), hr.placeholder(hr.float32, []), hr.placeholder(hr.float32, [])
        first, second = hr.cond(p, lambda: (hr.sin(x), hr.cos(y)), lambda: (x, y))
    branch = _only(_optimized(graph, first, {p: True, x: 1.0, y: 1.0}), "StatelessIf")
    assert len(branch.inputs) == 2
    assert len(branch.outputs) == 1
    values = hr.Session(graph).run([second, first], feeds={p: False, x: 1.0, y: 2.0})
    assert values == [2.0, 1.0]


def test_D15_what_only_one_branch_needs_is_computed_only_if_it_is_taken() -> None:
    with hr.Graph().as_default() as graph:
        p, x = hr.placeholder(hr.bool, []), hr.placeholder(hr.float32, [2])
        costly = _noted_op(hr.exp(_noted_op(x, "inner")) + 1.0, "costly")
        both = _noted_op(x * 2.0, "both")
        y = hr.cond(p, lambda: costly + both, lambda: both)
    session = hr.Session(graph, config=hr.config(verify=True))
    for flag, expected in ((True, {"inner", "costly", "both"}), (False, {"both"})):
        _runs.clear()
        value = session.run(y, feeds={p: flag, x: [0.5, 1.0]})
        assert set(_runs) == expected
        wanted = np.array([1.0, 2.0]) + (np.exp([0.5, 1.0]) + 1 if flag else 0)
        np.testing.assert_allclose(value, wanted, rtol=1e-6)
    _runs.clear()
    session.run([y, costly], feeds={p: False, x: [0.5, 1.0]})
    assert "costly" in _runs


def test_what_an_effect_awaits_is_not_moved() -> None:
    with hr.Graph().as_default() as graph:
        p, x = hr.placeholder(hr.bool, []), hr.placeholder(hr.float32, [])
        first = _noted_op(x, "awaited")
        with hr.control_dependencies([first]):
            after = _noted_op(x, "after")
        y = hr.cond(p, lambda: first + 1.0, lambda: x)
    _runs.clear()
    hr.Session(graph).run([y, after], feeds={p: False, x: 1.0})
    assert _runs == ["awaited", "after"]


@pytest.mark.parametrize("fetch", [[0], [1], [2], [0, 1, 2]])
def test_loops_branches_and_gradients_compute_the_same_with_and_without(fetch: list[int]) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [3])
        n = hr.placeholder(hr.int32, [])
        scale = hr.constant(0.5, hr.float64)
        costly = hr.exp(x)

        def body(i: hr.Tensor, s: hr.Tensor, t: hr.Tensor) -> Sequence[hr.Tensor]:
            chosen = hr.cond(hr.sum(s) > 0.5, lambda: hr.sin(s) * costly, lambda: s + t * scale)
            return i + 1, chosen, t * x

        _, s, t = hr.while_loop(lambda i, s, t: i < n, body, (0, x, x * scale))
        (dx,) = hr.gradients(hr.sum(s), [x])
        (ddx,) = hr.gradients(hr.sum(dx * t), [x])
    fetches = [[s, dx, ddx][number] for number in fetch]
    feeds = {x: [0.3, 0.1, -0.2], n: 4}
    plain = hr.Session(graph, config=hr.config(passes=[])).run(fetches, feeds=feeds)
    passed = hr.Session(graph, config=hr.config(verify=True)).run(fetches, feeds=feeds)
    for one, other in zip(plain, passed, strict=True):
        np.testing.assert_array_equal(one, other)
