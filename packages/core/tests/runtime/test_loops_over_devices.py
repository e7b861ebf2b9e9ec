"""Branches and loops of primitives whose operations lie on different devices, at random: as on one device."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.placement.colocation import colocation_groups

THREE = hr.config(virtual_devices={"CPU": 3}, verify=True)
LIMIT = 30.0
"""Seconds after which a step counts as hanging."""

Loop = Callable[..., Sequence[hr.Tensor]]


def loop(
    name: str,
    condition: Callable[..., hr.Tensor],
    body: Loop,
    start: Sequence[Any],
    invariant: Sequence[Any] = (),
    parallel_iterations: int = 10,
) -> list[hr.Tensor]:
    """A loop of primitives."""
    frame: dict[str, Any] = {"frame_name": name, "parallel_iterations": parallel_iterations}
    given = [hr.apply_op("Enter", hr.convert_to_tensor(value), is_constant=True, **frame) for value in invariant]
    enters = [hr.apply_op("Enter", hr.convert_to_tensor(value), **frame) for value in start]
    heads = [hr.apply_op("Merge", [enter])[0] for enter in enters]
    more = hr.apply_op("LoopCond", condition(*heads, *given))
    ways = [hr.apply_op("Switch", head, more) for head in heads]
    results = body(*(way[1] for way in ways), *given)
    for head, result in zip(heads, results, strict=True):
        head.graph.close_loop(head.op, hr.apply_op("NextIteration", result))
    return [hr.apply_op("Exit", way[0]) for way in ways]


def branch(pred: hr.Tensor, x: hr.Tensor, if_true: Callable[[hr.Tensor], hr.Tensor], if_false: Any) -> hr.Tensor:
    """A branch of primitives."""
    no, yes = hr.apply_op("Switch", x, pred)
    merged: hr.Tensor = hr.apply_op("Merge", [if_false(no), if_true(yes)])[0]
    return merged


def taken_or_not(count: hr.Tensor) -> list[hr.Tensor]:
    x = hr.astype(count, hr.float32) + 1.0
    inner = branch(count > 3, x, lambda y: y * 2.0, lambda y: hr.negative(y))
    outer = branch(count > 1, x, lambda y: branch(count > 3, y, hr.exp, hr.log) + y, lambda y: y - 1.0)
    return [inner, outer, inner + outer + x]


def counting(count: hr.Tensor) -> list[hr.Tensor]:
    return loop("count", lambda i, n: i < n, lambda i, n: [i + 1], [0], [count])


def two_variables(count: hr.Tensor) -> list[hr.Tensor]:
    return loop(
        "two",
        lambda i, a, n, w: i < n,
        lambda i, a, n, w: [i + 1, a * 0.5 + hr.astype(i, hr.float32) + w],
        [0, np.float32(1)],
        [count, hr.astype(count, hr.float32)],
    )


def crossing_variables(count: hr.Tensor) -> list[hr.Tensor]:
    """Each variable becomes the other one, so each device needs what the other has just computed."""
    return loop(
        "swap", lambda i, a, b, n: i < n, lambda i, a, b, n: [i + 1, b + 1.0, a * 2.0],
        [0, np.float32(1), np.float32(2)], [count],
    )  # fmt: skip


def nested(count: hr.Tensor) -> list[hr.Tensor]:
    def body(i: hr.Tensor, total: hr.Tensor, n: hr.Tensor) -> list[hr.Tensor]:
        with hr.control_dependencies([i]):
            start = hr.identity(0)  # a constant by itself belongs to no loop
        _, result = loop(
            "inner",
            lambda j, t, k: j < k,
            lambda j, t, k: [j + 1, t + hr.astype(j * k, hr.float32)],
            [start, total],
            [i],
        )
        return [i + 1, result]

    return loop("outer", lambda i, t, n: i < n, body, [0, np.float32(1)], [count])


def branch_in_loop(count: hr.Tensor) -> list[hr.Tensor]:
    def body(i: hr.Tensor, a: hr.Tensor, n: hr.Tensor) -> list[hr.Tensor]:
        return [i + 1, branch(hr.equal(i % 2, 0), a, lambda x: x * 3.0, lambda x: x - 1.0)]

    return loop("branching", lambda i, a, n: i < n, body, [0, np.float32(1)], [count])


def loop_in_branch(count: hr.Tensor) -> list[hr.Tensor]:
    x = hr.astype(count, hr.float32)

    def run(start: hr.Tensor) -> hr.Tensor:
        return loop("taken", lambda a, n: a < n, lambda a, n: [a * 2.0 + 1.0], [start], [hr.multiply(start, 9.0)])[0]

    return [branch(count > 2, x, run, lambda y: hr.negative(y))]


def one_at_a_time(count: hr.Tensor) -> list[hr.Tensor]:
    return loop(
        "serial", lambda i, a, n: i < n, lambda i, a, n: [i + 1, hr.sin(a) + 1.0], [0, np.float32(1)], [count],
        parallel_iterations=1,
    )  # fmt: skip


BUILDERS = [
    taken_or_not,
    counting,
    two_variables,
    crossing_variables,
    nested,
    branch_in_loop,
    loop_in_branch,
    one_at_a_time,
]


def scattered(build: Callable[[hr.Tensor], list[hr.Tensor]], seed: int) -> tuple[hr.Graph, hr.Tensor, list[hr.Tensor]]:
    """The graph with every colocation group on a device at random."""
    with hr.Graph().as_default() as graph:
        count = hr.placeholder(hr.int32, [])
        results = build(count)
    generator = random.Random(seed)
    for group in colocation_groups(graph):
        device = f"/device:CPU:{generator.randrange(3)}"
        for op in group.members:
            op.device = device
    return graph, count, results


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_A62_A66_loops_and_branches_over_devices_give_what_they_give_on_one(build: Any, seed: int) -> None:
    graph, count, results = scattered(build, seed)
    with hr.Session(graph, config=THREE) as session, hr.Session(graph, config=hr.config(soft_placement=True)) as alone:
        for number in (0, 1, 2, 5):
            expected = alone.run(results, feeds={count: number})
            given = session.run(results, feeds={count: number}, timeout=LIMIT)
            for one, other in zip(given, expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{build.__name__} {seed} {number}")


def test_A66_a_loop_of_a_thousand_iterations_with_half_its_body_elsewhere() -> None:
    with hr.Graph().as_default() as graph:
        count = hr.placeholder(hr.int32, [])

        def body(i: hr.Tensor, a: hr.Tensor, n: hr.Tensor) -> list[hr.Tensor]:
            with hr.device("CPU:1"):
                half = a * 0.5
            with hr.device("CPU:0"):
                return [i + 1, half + hr.astype(i, hr.float32)]

        with hr.device("CPU:0"):
            _, result = loop("long", lambda i, a, n: i < n, body, [0, np.float32(0)], [count])
    with hr.Session(graph, config=THREE) as session, hr.Session(graph, config=hr.config(soft_placement=True)) as alone:
        for number in (0, 1000):
            expected = alone.run(result, feeds={count: number})
            assert session.run(result, feeds={count: number}, timeout=LIMIT) == expected
        parts = session.partitions(result, {count: 0})
        types = [op.type for op in parts["/job:localhost/replica:0/task:0/device:CPU:1"].operations]
        assert {"Enter", "Merge", "Switch", "NextIteration", "_Recv", "_Send"} <= set(types)
        assert "Exit" not in types


def test_A66_what_waits_for_the_head_of_a_loop_alone_may_run_elsewhere() -> None:
    """A device that had word that the head ran took it for a head of its own, whose loop it could not close."""
    with hr.Graph(seed=1).as_default() as graph:
        count = hr.placeholder(hr.int32, [])

        def goes_on(i: hr.Tensor) -> hr.Tensor:
            with hr.device("CPU:1"):
                number = hr.random.uniform([])  # reads nothing of the loop, so it waits for the head
            return hr.logical_and(i < count, number < 2.0)

        with hr.device("CPU:0"):
            result = hr.while_loop(goes_on, lambda i: i + 1, [0])[0]
    with hr.Session(graph, config=THREE) as session:
        for number in (0, 1, 20):
            assert session.run(result, feeds={count: number}, timeout=LIMIT) == number


def test_an_error_in_an_iteration_on_another_device_ends_the_loop() -> None:
    with hr.Graph().as_default() as graph:

        def body(i: hr.Tensor) -> list[hr.Tensor]:
            with hr.device("CPU:1"):
                checked = hr.apply_op("GatherV2", hr.constant([1, 1, 1]), i, 0, name="checked")
            return [i + checked]

        with hr.device("CPU:0"):
            (result,) = loop("failing", lambda i: i < 10, body, [0])
    with hr.Session(graph, config=THREE) as session, pytest.raises(hr.errors.OutOfRangeError, match="'checked'"):
        session.run(result, timeout=LIMIT)


def test_a_loop_over_devices_that_nothing_decides_is_refused() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            enter = hr.apply_op("Enter", hr.constant(0), frame_name="free")
            head, _ = hr.apply_op("Merge", [enter])
            done, again = hr.apply_op("Switch", head, hr.less(head, 3))
        with hr.device("CPU:1"):
            more = again + 1
        with hr.device("CPU:0"):
            graph.close_loop(head.op, hr.apply_op("NextIteration", more))
            result = hr.apply_op("Exit", done)
    with (
        hr.Session(graph, config=THREE) as session,
        pytest.raises(hr.errors.GraphError, match="loop 'free' spans devices but has no LoopCond(.|\n)*Enter"),
    ):
        session.run(result)
