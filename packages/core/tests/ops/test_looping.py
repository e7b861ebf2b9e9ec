"""while_loop: a function that runs again and again inside the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.plan.nested import NestedPlans
from headrace.plan.plan import find_backend


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_A63_a_loop_runs_as_often_as_its_condition_says(count: int) -> None:
    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        i, total = hr.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + 0.5), (0, hr.constant(1.0, hr.float64)))
    values = hr.Session(graph).run([i, total], feeds={n: count})
    assert values == [count, 1.0 + 0.5 * count]


def test_A63_loops_nest_three_deep() -> None:
    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, [])

        def loop(depth: int, start: Any) -> hr.Tensor:
            if depth == 0:
                return start + 1
            return hr.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, loop(depth - 1, s)), (0, start))[1]

        total = loop(3, 0)
    session = hr.Session(graph)
    assert [int(session.run(total, feeds={n: size})) for size in (0, 1, 4)] == [0, 1, 64]


def test_what_is_captured_does_not_change_in_the_loop() -> None:
    with hr.Graph().as_default() as graph:
        x, step = hr.placeholder(hr.float32, [2]), hr.placeholder(hr.float32, [])
        y = hr.while_loop(lambda v: hr.sum(v) < 10.0, lambda v: v + step * x, [hr.zeros([2])])[0]
    value = hr.Session(graph).run(y, feeds={x: [1.0, 2.0], step: 0.5})
    np.testing.assert_array_equal(value, [3.5, 7.0])


def test_loop_variables_keep_their_structure() -> None:
    with hr.Graph().as_default() as graph:
        state = {"i": hr.constant(0), "values": [hr.constant(1.0), (hr.constant(2.0),)]}

        def body(now: Any) -> Any:
            a, (b,) = now["values"]
            return {"i": now["i"] + 1, "values": [b, (a + b,)]}

        last = hr.while_loop(lambda now: now["i"] < 5, body, state)
    value = hr.Session(graph).run(last)
    assert value["i"] == 5
    assert value["values"][0] == 13.0
    assert value["values"][1][0] == 21.0


def test_a_variable_that_grows_states_its_invariant_and_is_not_compiled_for_each_size() -> None:
    with hr.Graph().as_default() as graph:
        _, rows = hr.while_loop(
            lambda i, rows: i < 200,
            lambda i, rows: (i + 1, hr.concat([rows, hr.reshape(hr.astype(i, hr.float32), [1, 1])], axis=0)),
            (0, hr.zeros([1, 1])),
            shape_invariants=[None, [None, 1]],
        )
    assert rows.shape == hr.Shape([None, 1])
    session = hr.Session(graph)
    value = session.run(rows)
    np.testing.assert_array_equal(value[:, 0], [0, *range(200)])


def test_shapes_fed_in_reach_what_comes_after_the_loop() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 3])
        _, y = hr.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, hr.tanh(v)), (0, x))
        z = y * 2.0
    optimized = hr.Session(graph).optimized_graph(z, feeds={x: np.zeros((5, 3))})
    (mul,) = [op for op in optimized.operations if op.type == "Mul"]
    assert mul.outputs[0].shape == hr.Shape([5, 3])


def test_maximum_iterations_end_the_loop() -> None:
    with hr.Graph().as_default() as graph:
        limit = hr.placeholder(hr.int32, [])
        (i,) = hr.while_loop(lambda i: True, lambda i: i + 1, [0], maximum_iterations=limit)
    session = hr.Session(graph)
    assert [int(session.run(i, feeds={limit: number})) for number in (0, 1, 7)] == [0, 1, 7]


def test_a_deadline_ends_a_loop_that_does_not() -> None:
    with hr.Graph().as_default() as graph:
        i = hr.while_loop(lambda i: i >= 0, lambda i: hr.bitwise_and(i + 1, 7), [0])[0]
    session = hr.Session(graph)
    with pytest.raises(hr.errors.DeadlineExceededError, match="did not end in time"):
        session.run(i, timeout=0.05)


def test_cancelling_ends_a_loop_and_leaves_variables_whole() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.zeros(4, np.float32), name="v")

        def body(i: hr.Tensor) -> hr.Tensor:
            with hr.control_dependencies([v.assign_add(hr.ones([4]))]):
                return i + 1

        i = hr.while_loop(lambda i: i >= 0, body, [0])[0]
        value = v.read()
    session = hr.Session(graph)
    pending = session.run_async(i)
    while not session.run(value)[0] > 3:
        pass
    pending.cancel()
    with pytest.raises(hr.errors.CancelledError, match="was cancelled"):
        pending.result(timeout=10)
    last = session.run(value)
    assert np.all(last == last[0])
    assert last[0] > 3


def test_an_error_in_an_iteration_says_which() -> None:
    with hr.Graph().as_default() as graph:
        i = hr.while_loop(lambda i: i < 10, lambda i: hr.floor_divide(i * 12, 6 - i) * 0 + i + 1, [0])[0]
    with pytest.raises(hr.errors.InvalidArgumentError, match="division by zero") as caught:
        hr.Session(graph).run(i)
    assert any("in iteration 6 of StatelessWhile 'while'" in note for note in caught.value.__notes__)


def test_many_threads_run_one_loop() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        total = hr.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), (0, 0))[1]
    step = hr.Session(graph).make_callable(total, [n])
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(step, range(40)))
    assert [int(value) for value in results] == [n * (n - 1) // 2 for n in range(40)]


def test_iterations_work_in_memory_that_the_caller_never_sees() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [3])
        same, other = hr.while_loop(lambda a, b: hr.sum(b) < 100.0, lambda a, b: (a, b + a), (x, x))
    session = hr.Session(graph)
    given = np.ones(3, np.float32)
    first, second = session.run([same, other], feeds={x: given})
    first[:] = 7
    second[:] = 7
    np.testing.assert_array_equal(given, [1, 1, 1])
    np.testing.assert_array_equal(session.run(same, feeds={x: given}), [1, 1, 1])


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda: hr.while_loop(lambda: True, lambda: (), ()), "InvalidArgumentError", "no loop variables"),
        (
            lambda: hr.while_loop(True, lambda i: i, [0]),
            "InvalidArgumentError",
            "condition of while_loop is no function",
        ),
        (lambda: hr.while_loop(lambda i: i < 3, 1, [0]), "InvalidArgumentError", "body of while_loop is no function"),
        (
            lambda: hr.while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=0),
            "InvalidArgumentError",
            "may run no iteration(.|\n)*parallel_iterations >= 1",
        ),
        (
            lambda: hr.while_loop(lambda i, n: n > 3, lambda i, n: (i + 1, n), (0, 5)),
            "InvalidArgumentError",
            r"never ends once it has begun(.|\n)*loop variables \[1\] only(.|\n)*maximum_iterations",
        ),
        (lambda: hr.while_loop(lambda i: True, lambda i: i + 1, [0]), "InvalidArgumentError", "no loop variable"),
        (lambda: hr.while_loop(lambda i: i, lambda i: i, [0]), "DTypeError", "gives no bool(.|\n)*i < n"),
        (lambda: hr.while_loop(lambda i: None, lambda i: i, [0]), "DTypeError", "gives no value"),
        (lambda: hr.while_loop(lambda i: [True], lambda i: i, [0]), "ShapeError", "gives is no scalar(.|\n)*hr.all"),
        (
            lambda: hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1,), (0, 0)),
            "InvalidArgumentError",
            r"body of while_loop returns another structure\n  expected: \(\*, \*\)\n  got:      \(\*\)",
        ),
        (
            lambda: hr.while_loop(lambda i: i < 3, lambda i: hr.astype(i, hr.float32), [0]),
            "DTypeError",
            r"loop variable 0 changes its dtype(.|\n)*int32, as it starts with(.|\n)*float32\[\](.|\n)*hr.astype",
        ),
        (
            lambda: hr.while_loop(lambda i: True, lambda i: hr.group([i]), [0]),
            "DTypeError",
            "loop variable 0 becomes an operation",
        ),
        (
            lambda: hr.while_loop(lambda v: True, lambda v: hr.concat([v, v], axis=0), [hr.zeros([2])]),
            "ShapeError",
            r"loop variable 0 changes its shape(.|\n)*\[4\] after one iteration"
            r"(.|\n)*shape_invariants=\[..., \[\?\], ...\]",
        ),
        (
            lambda: hr.while_loop(lambda v: True, lambda v: v, [hr.zeros([2])], shape_invariants=[[3]]),
            "ShapeError",
            r"does not satisfy its shape invariant(.|\n)*expected: \[3\]",
        ),
        (
            lambda: hr.while_loop(lambda a, b: True, lambda a, b: (a, b), (0, 0), shape_invariants=[[]]),
            "InvalidArgumentError",
            "shape_invariants does not fit loop_vars",
        ),
    ],
)
def test_wrong_loops_are_refused(build: Callable[[], Any], kind: str, message: str) -> None:
    with hr.Graph().as_default(), pytest.raises(getattr(hr.errors, kind), match=message):
        build()


def test_the_body_is_optimised_like_any_graph() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        y = hr.while_loop(
            lambda i, s: i < 3, lambda i, s: (i + 1, hr.sin(s) + hr.sin(s) * (hr.ones([2]) + hr.ones([2]))), (0, x)
        )[1]
    session = hr.Session(graph)
    optimized = session.optimized_graph(y, feeds={x: [0.1, 0.2]})
    loop = next(op for op in optimized.operations if op.type == "StatelessWhile")
    plans = NestedPlans(optimized.functions, find_backend("numpy"), session.resources, session.config)
    compiled = plans.compiled(loop.attrs["body"].name, [np.zeros((), np.int32), np.zeros(2, np.float32)])
    assert sorted(op.type for op in compiled.operations) == ["AddV2", "AddV2", "Mul", "Sin"]


def test_a_body_is_compiled_for_a_few_shapes_and_then_for_open_ones() -> None:
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        x = hr.placeholder(hr.float32, [None, 2])
        hr.cond(p, lambda: x + 1.0, lambda: x)
    session = hr.Session(graph)
    plans = NestedPlans(graph.functions, find_backend("numpy"), session.resources, session.config)
    compiled = {rows: plans.compiled("cond_true", [np.zeros((rows, 2), np.float32)]) for rows in (1, 2, 3, 4, 5, 1)}
    assert len(set(compiled.values())) == 3  # for one row, for two rows, for any number
    assert compiled[3] is compiled[4] is compiled[5]
    for rows, plan in compiled.items():
        np.testing.assert_array_equal(plan([np.zeros((rows, 2), np.float32)])[0], np.ones((rows, 2)))


def test_loops_over_text_flags_and_sparse_tensors() -> None:
    with hr.Graph().as_default() as graph:
        text = hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, hr.strings.join([s, "x"])), (0, "a"))[1]
        numbers = hr.placeholder(hr.float32, [None])
        count = hr.shape(numbers)[0]
        place, _ = hr.while_loop(
            lambda i, found: hr.logical_and(i < count, hr.logical_not(found)),
            lambda i, found: (i + 1, numbers[i] > 2.0),
            (0, False),
        )
        sparse = hr.sparse.placeholder(hr.float32, [2, 3])
        scaled = hr.while_loop(
            lambda i, s: i < 3, lambda i, s: (i + 1, hr.SparseTensor(s.indices, s.values * 2.0, s.shape)), (0, sparse)
        )[1]
    session = hr.Session(graph)
    assert session.run(text) == b"axxx"
    assert session.run(place, feeds={numbers: [1, 3, 5]}) == 2
    assert session.run(scaled, feeds={sparse: hr.SparseTensor([[0, 2]], [5.0], [2, 3])}).values.tolist() == [40.0]


def test_a_condition_of_unknown_rank_must_turn_out_a_scalar() -> None:
    """The operation takes any shape and asks for elements, so that a vector of one false element would never end it."""
    with hr.Graph().as_default() as graph:
        flags = hr.placeholder(hr.bool, None)
        count = hr.while_loop(lambda i, goes_on: goes_on, lambda i, goes_on: (i + 1, ~goes_on), (0, flags))[0]
    session = hr.Session(graph)
    assert session.run(count, feeds={flags: True}) == 1
    with pytest.raises(hr.errors.ShapeError, match=r"another shape than was ensured(.|\n)*expected: \[\]"):
        session.run(count, feeds={flags: [False]}, timeout=10)


def test_a_tensor_that_leaks_out_of_a_body_is_refused_with_the_way_out() -> None:
    leaked = []

    def body(i: hr.Tensor) -> hr.Tensor:
        leaked.append(i * 2)
        return i + 1

    message = r"a tensor of function 'while_body' is used outside of it(.|\n)*return it from the function"
    with hr.Graph().as_default():
        result = hr.while_loop(lambda i: i < 3, body, [0])[0]
        with pytest.raises(hr.errors.GraphError, match=message):
            _ = leaked[0] + result


def test_a_body_may_build_its_mapping_in_another_order() -> None:
    """What has the same dtype and shape would change places without a word."""
    with hr.Graph().as_default() as graph:
        result = hr.while_loop(
            lambda state: state["step"] < 3,
            lambda state: {"step": state["step"] + 1, "rows": hr.concat([state["rows"], [7]], 0), "a": state["a"] * 2},
            {"a": 1, "step": 0, "rows": hr.zeros([1], hr.int32)},
            shape_invariants={"step": [], "rows": [None], "a": None},
        )
    found = hr.Session(graph).run(result)
    assert list(found) == ["a", "step", "rows"]
    assert (found["a"], found["step"], found["rows"].tolist()) == (8, 3, [0, 7, 7, 7])
