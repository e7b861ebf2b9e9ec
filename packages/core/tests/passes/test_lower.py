"""Lowering: structured branches and loops as primitives give the same values, and leave out what they must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.functions import Body, Captures
from headrace.graph.verifier import verify_bounded
from headrace.passes.inline import inline
from headrace.passes.lower import can_lower, lower
from headrace.passes.prune import prune
from headrace.passes.raising import raising
from headrace.plan.plan import find_backend
from headrace.plan.step_plan import compile_step
from headrace.runtime.executor import StepExecutor
from headrace.runtime.resources import ResourceManager
from headrace.testing.canonical import canonical_form


def run_both(graph: hr.Graph, fetches: list[hr.Tensor], feeds: dict[hr.Tensor, Any]) -> tuple[list[Any], list[Any]]:
    """The values as a session computes them, and those of the graph with everything lowered."""
    arrays = [np.asarray(value, key.dtype.array_type) for key, value in feeds.items()]
    effects: list[hr.Operation] = []
    bounded = prune(graph, fetches, effects, list(feeds), [hr.Shape(array.shape) for array in arrays])
    lowered = lower(bounded, lambda op: True)
    verify_bounded(lowered, stage="lower")
    assert not any(can_lower(op) for op in lowered.operations)
    assert any(op.type in ("Switch", "Enter") for op in lowered.operations)
    compiled = compile_step(lowered, find_backend("numpy"), ResourceManager(), hr.config(), StepExecutor)
    with hr.Session(graph) as session:
        return session.run(fetches, feeds=feeds), list(compiled(arrays))


def branches(n: hr.Tensor) -> list[hr.Tensor]:
    x = hr.astype(n, hr.float32)
    y = hr.cond(n > 2, lambda: x * 2.0, lambda: hr.constant(np.float32(7)))
    z = hr.cond(n > 1, lambda: hr.cond(n > 3, lambda: y + x, lambda: y - x), lambda: x)
    return [y, z, y + z]


def loop(n: hr.Tensor) -> list[hr.Tensor]:
    return list(hr.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2.0 + hr.astype(i, hr.float32)), [0, 1.0]))


def loop_in_loop(n: hr.Tensor) -> list[hr.Tensor]:
    def outer(i: hr.Tensor, total: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
        _, inner = hr.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * j), [0, total])
        return i + 1, inner

    return list(hr.while_loop(lambda i, t: i < n, outer, [0, 5]))


def branch_in_loop(n: hr.Tensor) -> list[hr.Tensor]:
    def body(i: hr.Tensor, a: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
        return i + 1, hr.cond(hr.equal(i % 2, 0), lambda: a * 3.0, lambda: a - 1.0)

    return list(hr.while_loop(lambda i, a: i < n, body, [0, 1.0]))


def loop_in_branch(n: hr.Tensor) -> list[hr.Tensor]:
    def run() -> hr.Tensor:
        _, result = hr.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + 0.5), [0, 1.0])
        return hr.identity(result)

    return [hr.cond(n > 1, run, lambda: hr.constant(np.float32(-1)))]


def constant_body(n: hr.Tensor) -> list[hr.Tensor]:
    """The body gives what depends on nothing."""
    return list(hr.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, hr.constant(4.0)), [0, 1.0]))


def choice(n: hr.Tensor) -> list[hr.Tensor]:
    """Of four functions, and the last one for numbers that there are none for."""
    x = hr.astype(n, hr.float32) + 0.5
    functions = [lambda: x * 2.0, lambda: hr.exp(x), lambda: hr.constant(np.float32(3)), lambda: -x]
    outside = hr.switch_case(n - 2, functions)
    inside = hr.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + hr.switch_case(i, functions)), [0, 0.0])
    return [outside, *inside]


def random_walk(n: hr.Tensor) -> list[hr.Tensor]:
    """Random numbers come from the same streams in the same order."""

    def body(i: hr.Tensor, a: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
        return i + 1, a + hr.cond(a > 0.0, lambda: hr.random.normal([]), lambda: hr.random.uniform([]))

    return list(hr.while_loop(lambda i, a: i < n, body, [0, 0.5]))


def gradient(n: hr.Tensor) -> list[hr.Tensor]:
    x = hr.astype(n, hr.float32) + 1.0
    y = hr.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, hr.sin(a) * x), [0, x])[1]
    z = hr.cond(n > 1, lambda: y * y, lambda: y + x)
    found = hr.gradients(z, [x])
    return [z, *(item for item in found if isinstance(item, hr.Tensor))]


BUILDERS = [
    branches,
    loop,
    loop_in_loop,
    branch_in_loop,
    loop_in_branch,
    constant_body,
    choice,
    random_walk,
    gradient,
]


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_A66_lowered_branches_and_loops_give_the_same(build: Callable[[hr.Tensor], list[hr.Tensor]]) -> None:
    with hr.Graph(seed=1).as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        fetches = build(n)
    for number in (0, 1, 2, 3, 5):
        expected, given = run_both(graph, fetches, {n: number})
        for one, other in zip(given, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"{build.__name__} {number}")


def scattered(build: Callable[[hr.Tensor], list[hr.Tensor]]) -> tuple[hr.Graph, hr.Tensor, list[hr.Tensor]]:
    """The graph with every operation, those of bodies too, on one of three devices in turn."""
    turn = iter(range(10**6))
    with hr.Graph(seed=1).as_default() as graph, hr.device(lambda op: f"CPU:{next(turn) % 3}"):
        n = hr.placeholder(hr.int32, [])
        return graph, n, build(n)


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_A62_A66_structured_branches_and_loops_over_devices_give_the_same(
    build: Callable[[hr.Tensor], list[hr.Tensor]],
) -> None:
    graph, n, fetches = scattered(build)
    spread = hr.config(virtual_devices={"CPU": 3}, verify=True)
    with hr.Session(graph, config=spread) as session, hr.Session(graph, config=hr.config(soft_placement=True)) as alone:
        for number in (0, 1, 2, 5):
            expected = alone.run(fetches, feeds={n: number})
            given = session.run(fetches, feeds={n: number}, timeout=30.0)
            for one, other in zip(given, expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{build.__name__} {number}")
        assert len(session.partitions(fetches, {n: 1})) == 3


def test_effects_happen_in_the_branch_that_is_taken_and_once_in_each_iteration() -> None:
    with hr.Graph(seed=1).as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        with hr.device("CPU:1"):
            count = hr.Variable(np.int32(0), name="count")

        def body(i: hr.Tensor) -> hr.Tensor:
            with hr.device("CPU:2"):
                step = i * 10
            change = count.assign_add(step)
            assert change is not None
            with hr.control_dependencies([change]):
                return i + 1

        with hr.device("CPU:0"):
            done = hr.while_loop(lambda i: i < n, body, [0])
        with hr.control_dependencies([done[0] if isinstance(done, (list, tuple)) else done]):
            after = count.read()
    with hr.Session(graph, config=hr.config(virtual_devices={"CPU": 3})) as session:
        total = 0
        for number in (0, 3, 4):
            total += sum(10 * i for i in range(number))
            assert session.run(after, feeds={n: number}, timeout=30.0) == total


def test_what_asks_for_one_device_only_stays_whole_and_goes_there() -> None:
    def inside() -> hr.Tensor:
        with hr.device("CPU:1"):
            return x * 2.0

    with hr.Graph().as_default() as graph:
        x = hr.random.normal([])
        y = hr.cond(x > 0.0, inside, inside)
    with hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2})) as session:
        session.run(y)
        types = {name[-5:]: {op.type for op in part.operations} for name, part in session.partitions(y).items()}
    assert "Switch" not in set().union(*types.values())
    assert types["CPU:1"] & {"If", "StatelessIf"}


def test_a_decision_that_is_no_truth_value_is_not_lowered() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [])
        assert can_lower(hr.cond(x > 0.0, lambda: x, lambda: -x).op)
        assert not can_lower(x.op)


@pytest.mark.parametrize("function_type", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_over_devices_becomes_what_it_calls_and_draws_the_same_numbers(function_type: str) -> None:
    with hr.Graph(seed=3).as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        body = Body("called", outer=graph, captures=Captures(1))
        argument = body.add_argument(0, x.spec, like=x)
        with body.as_default():
            with hr.device("CPU:1"):
                noise = hr.random.normal([])
            with hr.device("CPU:2"):
                total = argument * 2.0 + noise
        body.complete([total, noise])
        results = hr.apply_op(function_type, [x], Tout=[hr.float32, hr.float32], f="called")
        after = results[0] - results[1]
    spread = hr.config(virtual_devices={"CPU": 3}, verify=True)
    with hr.Session(graph, config=spread) as session, hr.Session(graph, config=hr.config(soft_placement=True)) as alone:
        for value in (1.0, 2.0, 3.0):
            fetches = [*results, after]
            assert session.run(fetches, {x: value}, timeout=30.0) == alone.run(fetches, {x: value})
        assert len(session.partitions(after, {x: 1.0})) >= 2


def _ordered_effects(n: hr.Tensor) -> list[hr.Tensor]:
    """What a branch waits for, and what waits for a branch, only for the order of effects."""
    v = hr.Variable(np.int32(0), name="v")
    with hr.control_dependencies([v.assign_add(n)]):
        y = hr.cond(n > 2, lambda: hr.control_dependencies([v.assign_add(5)]) and v.read(), lambda: hr.constant(3))
    with hr.control_dependencies([y]):
        return [v.read(), y]


def _known_choices(n: hr.Tensor) -> list[hr.Tensor]:
    """Constants choose; the effects of the other branches must not happen."""
    v = hr.Variable(np.int32(0), name="v")

    def change() -> hr.Tensor:
        with hr.control_dependencies([v.assign(7)]):
            return hr.constant(1)

    y = hr.cond(hr.constant(False), change, lambda: hr.constant(2))
    z = hr.switch_case(hr.constant(2), [change, change, lambda: hr.constant(3)])
    with hr.control_dependencies([y, z]):
        return [y, z, v.read() + n * 0]


def _choices_in_a_loop(n: hr.Tensor) -> list[hr.Tensor]:
    def body(i: hr.Tensor, a: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
        same = hr.switch_case(hr.constant(1), [lambda: n, lambda: n + 1, lambda: n + 2])
        return i + 1, a + same + hr.switch_case(i, [lambda: a, lambda: n, lambda: hr.constant(4)])

    return list(hr.while_loop(lambda i, a: i < n, body, [0, 1]))


def _traced(n: hr.Tensor) -> list[hr.Tensor]:
    @hr.function
    def program(n: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
        v = hr.Variable(np.int32(1), name="v")
        v.assign(3)

        def on() -> hr.Tensor:
            v.assign_add(n)
            return v.read()

        v.assign_add(hr.cond(n > 1, on, lambda: v.read() * 2))

        def body(i: hr.Tensor, a: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            v.assign_add(1)
            return i + 1, v.read() + a

        return hr.while_loop(lambda i, a: i < n, body, (0, 0))[1], v.read()

    return list(program(n))


def _what_does_not_change(n: hr.Tensor) -> list[hr.Tensor]:
    """Results of a body that read nothing of the loop."""
    x = hr.astype(n, hr.float32)

    def body(i: hr.Tensor, a: hr.Tensor, b: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor, hr.Tensor]:
        return i + 1, x * 2.0 + 1.0, hr.cond(n > 3, lambda: x, lambda: a)

    return list(hr.while_loop(lambda i, a, b: i < n, body, (0, 1.0, x)))


def _equal_predicates(n: hr.Tensor) -> list[hr.Tensor]:
    p = n > 2
    y = hr.cond(p, lambda: n * 2, lambda: n + 5)
    return [y, hr.cond(p, lambda: hr.cond(p, lambda: n * 3, lambda: n), lambda: n - 1)]


def _no_result(n: hr.Tensor) -> list[hr.Tensor]:
    v = hr.Variable(np.int32(0), name="v")
    done = hr.cond(n > 2, lambda: v.assign_add(n), lambda: v.assign_add(-1))
    with hr.control_dependencies([done]):
        return [v.read()]


def _second_order(n: hr.Tensor) -> list[hr.Tensor]:
    x = hr.astype(n, hr.float32) + 1.0

    def body(i: hr.Tensor, a: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
        return i + 1, hr.cond(a > 1.0, lambda: hr.sin(a) * x, lambda: a * a * x)

    y = hr.while_loop(lambda i, a: i < 3, body, [0, x])[1]
    (first,) = hr.gradients(y, [x])
    return [first, hr.gradients(first, [x])[0]]


def _options(n: hr.Tensor) -> list[hr.Tensor]:
    options = {"recompute": True, "swap_to_host": True, "parallel_iterations": 3}
    return list(hr.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, hr.sin(a)), [0, 1.0], **options))


def _rows(n: hr.Tensor) -> list[hr.Tensor]:
    xs = hr.arange(n)
    mapped = hr.map_fn(lambda x: hr.cond(x > 1, lambda: x * 2, lambda: -x), xs)
    return [mapped, *hr.scan(lambda carry, x: (x + carry, x * carry), xs, init=hr.constant(1))]


@pytest.mark.parametrize(
    "program",
    [
        *BUILDERS,
        _ordered_effects,
        _known_choices,
        _choices_in_a_loop,
        _traced,
        _what_does_not_change,
        _equal_predicates,
        _no_result,
        _second_order,
        _options,
        _rows,
    ],
    ids=lambda program: program.__name__,
)
def test_raising_undoes_the_lowering_of_each_kind(program: Callable[[hr.Tensor], list[hr.Tensor]]) -> None:
    with hr.Graph(seed=1).as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        fetches = program(n)
    bounded = inline(prune(graph, fetches, [], [n]))  # a call is gone once it is lowered
    assert canonical_form(raising(lower(bounded, lambda op: True))) == canonical_form(bounded)
    found = []
    for passes in ([], [lambda g: lower(g, lambda op: True)], [lambda g: lower(g, lambda op: True), "raising"]):
        session = hr.Session(graph, config=hr.config(passes=passes, verify=True))
        found.append([session.run(fetches, {n: number}) for number in (0, 1, 2, 3, 5)])
    for other in found[1:]:
        for values, expected in zip(other, found[0], strict=True):
            for one, wanted in zip(values, expected, strict=True):
                np.testing.assert_array_equal(one, wanted)
