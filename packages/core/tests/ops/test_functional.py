"""Effects through functions: order, what runs when, random streams, initial values, and calls by name."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.graph.functions import Body, Captures


def test_D14_effects_in_branches_and_loops_keep_the_order_of_the_program() -> None:
    v = hr.Variable(np.float32(1.0), name="ordered")

    @hr.function
    def step(p: hr.Tensor) -> tuple[hr.Tensor, ...]:
        before = v.read()
        hr.cond(p > 0, lambda: v.assign(v * 10.0), lambda: v.assign(v + 1.0))
        between = v.read()

        def body(i: hr.Tensor) -> hr.Tensor:
            v.assign_add(100.0)
            return i + 1

        hr.while_loop(lambda i: i < 3, body, [0])
        after = v.read()
        v.assign(0.5)
        return before, between, after

    assert [float(value) for value in step(1)] == [1.0, 10.0, 310.0]
    assert [float(value) for value in step(0)] == [0.5, 1.5, 301.5]
    assert v.numpy() == 0.5


def test_D14_reads_and_writes_inside_one_body_happen_in_order() -> None:
    v = hr.Variable(np.float32(0.0), name="inner_order")

    @hr.function
    def run(n: hr.Tensor) -> hr.Tensor:
        def body(i: hr.Tensor, seen: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            v.assign_add(1.0)
            first = v.read()
            v.assign(v * 2.0)
            return i + 1, seen + first * 100.0 + v.read()

        return hr.while_loop(lambda i, seen: i < n, body, (0, 0.0))[1]

    # v: 1, 2 | 3, 6 | 7, 14
    assert run(3) == 100 * (1 + 3 + 7) + 2 + 6 + 14


@pytest.mark.parametrize("traced", [True, False])
def test_D14_a_condition_sees_what_the_body_has_changed(traced: bool) -> None:
    v = hr.Variable(np.float32(1.0), name=f"looked_at_{traced}")

    def body(i: hr.Tensor) -> hr.Tensor:
        v.assign(v * 2.0)
        return i + 1

    def doubled() -> hr.Tensor:
        return hr.while_loop(lambda i: v < 100.0, body, [0])[0]

    if traced:
        assert hr.function(doubled)() == 7
    else:
        with hr.Graph().as_default() as graph:
            count = doubled()
        assert hr.Session(graph).run(count) == 7
    assert v.numpy() == 128.0


def test_D14_a_branch_that_only_reads_lets_other_reads_pass() -> None:
    v = hr.Variable(np.float32(2.0), name="only_read")

    @hr.function
    def read(p: hr.Tensor) -> hr.Tensor:
        return hr.cond(p > 0, lambda: v.read(), lambda: -v.read()) + v.read()

    assert read(1) == 4.0
    graph = read.lower(1).graph
    assert not any(op.control_inputs for op in graph.operations)


def test_D14_a_traced_function_called_in_a_body_is_a_part_of_it() -> None:
    v = hr.Variable(np.float32(0.0), name="called")

    @hr.function
    def bump(by: hr.Tensor) -> hr.Tensor:
        v.assign_add(by)
        return v.read()

    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        y = hr.cond(p, lambda: bump(2.0), lambda: hr.constant(-1.0))
    session = hr.Session(graph)
    assert [float(session.run(y, feeds={p: flag})) for flag in (True, False, True)] == [2.0, -1.0, 4.0]


def test_G13_an_update_made_in_a_branch_happens_only_if_it_is_taken() -> None:
    with hr.Graph().as_default() as graph:
        a = hr.Variable(0, name="a")
        p = hr.placeholder(hr.bool, [])
        done = hr.cond(p, lambda: a.assign_add(1), lambda: None)
        value = a.read()
    session = hr.Session(graph)
    assert isinstance(done, hr.Operation)
    session.run(done, feeds={p: False})
    assert session.run(value) == 0
    session.run(done, feeds={p: True})
    assert session.run(value) == 1


def test_G13_an_update_made_before_a_branch_and_awaited_by_it_happens_always() -> None:
    with hr.Graph().as_default() as graph:
        a = hr.Variable(0, name="a")
        increase = a.assign_add(1)
        with hr.control_dependencies([increase]):
            y = hr.cond(hr.placeholder(hr.bool, [], name="p"), lambda: a.read(), lambda: -a.read())
    assert hr.Session(graph).run(y, feeds={"p:0": False}) == -1


def test_D15_an_update_made_outside_and_asked_for_in_a_branch_is_refused() -> None:
    with hr.Graph().as_default():
        a = hr.Variable(0, name="a")
        p = hr.placeholder(hr.bool, [])
        increase = a.assign_add(1)

        def awaiting() -> hr.Tensor:
            with hr.control_dependencies([increase]):
                return a.read()

        message = "is asked for inside function 'cond_true(_1)?', but was made outside(.|\n)*create it inside"
        with pytest.raises(hr.errors.GraphError, match=message):
            hr.cond(p, lambda: increase, lambda: None)
        with pytest.raises(hr.errors.GraphError, match=message):
            hr.cond(p, awaiting, lambda: a.read())


@hr.register_op("TakeTicket", inputs={"counter": "resource"}, outputs={"ticket": "int32"}, stateful=True)
def _ticket_shape(op):
    """The number of times that it ran."""
    return [hr.Shape([])]


@hr.register_kernel("TakeTicket")
def _ticket(op, counter):
    def change(value):
        value += 1

    counter.update(change)
    return counter.read().copy()


hr.no_gradient("TakeTicket", "a ticket is a number")


def test_D15_a_value_with_an_effect_that_only_one_branch_reads_is_refused() -> None:
    with hr.Graph().as_default() as graph:
        a = hr.Variable(0, name="a")
        p = hr.placeholder(hr.bool, [])
        ticket = hr.apply_op("TakeTicket", a.handle)
        with pytest.raises(hr.errors.GraphError, match="TakeTicket(.|\n)*create it inside the function"):
            hr.cond(p, lambda: ticket + 1, lambda: 0)
        both = hr.cond(p, lambda: ticket + 1, lambda: ticket - 1)
        inside = hr.cond(p, lambda: hr.apply_op("TakeTicket", a.handle), lambda: 0)
    session = hr.Session(graph)
    assert session.run(both, feeds={p: False}) == 0
    assert session.run(inside, feeds={p: False}) == 0
    assert session.run(inside, feeds={p: True}) == 2


def test_D14_D15_in_a_traced_function_one_branch_may_read_what_has_an_effect() -> None:
    """It happens in any case, as the program says, so nothing is in doubt: a dequeue before a branch was refused."""
    a = hr.Variable(0, name="a")

    @hr.function
    def step(p, q):
        ticket = hr.apply_op("TakeTicket", a.handle)
        more = hr.cond(p, lambda: hr.apply_op("TakeTicket", a.handle), lambda: 0)
        return hr.cond(q, lambda: hr.cond(p, lambda: ticket * 10 + more, lambda: ticket), lambda: -1)

    assert step(np.True_, np.True_) == 12
    assert step(np.False_, np.True_) == 3
    assert step(np.True_, np.False_) == -1
    assert a.numpy() == 5
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        inlined = step(p, p)
    assert hr.Session(graph).run(inlined, feeds={p: True}) == 67
    assert hr.Session(graph).run(inlined, feeds={p: False}) == -1
    assert a.numpy() == 8


def test_a_variable_that_only_a_body_reads_gets_its_initial_value() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(hr.ones([2]) * 4.0, name="v")
        y = hr.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, s + v), (0, hr.zeros([2])))[1]
    np.testing.assert_array_equal(hr.Session(graph).run(y), [8, 8])


def test_a_variable_without_initial_value_may_be_assigned_in_a_branch() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(hr.zeros([2]), name="v")
        p = hr.placeholder(hr.bool, [])
        write = hr.cond(p, lambda: v.assign([1.0, 2.0]), lambda: None)
        value = v.read()
    session = hr.Session(hr.import_graph_def(hr.to_graph_def(graph)))  # a graph file keeps no initial values
    session.run(write.name, feeds={p.name: True})
    np.testing.assert_array_equal(session.run(value.name), [1, 2])


def test_random_operations_in_a_loop_draw_new_numbers_in_each_iteration_and_step() -> None:
    with hr.Graph(seed=7).as_default() as graph:
        draws = hr.map_fn(lambda x: hr.random.uniform([]) + x, hr.zeros([5]))
    session = hr.Session(graph)
    first, second = session.run(draws), session.run(draws)
    assert len({*first.tolist(), *second.tolist()}) == 10
    again = hr.Session(graph)
    np.testing.assert_array_equal(again.run(draws), first)


def test_random_operations_of_different_functions_draw_different_numbers() -> None:
    with hr.Graph(seed=7).as_default() as graph:
        outside = hr.random.uniform([2])
        mapped = [hr.map_fn(lambda x: hr.random.uniform([2]) + x, hr.zeros([1])) for _ in range(2)]
        chosen = [hr.cond(p, lambda: hr.random.uniform([2]), lambda: hr.random.uniform([2])) for p in (True, False)]
    values = hr.Session(graph).run([outside, *mapped, *chosen])
    assert len({round(float(value), 6) for array in values for value in array.reshape(-1)}) == 10


def test_the_streams_of_random_operations_in_functions_are_saved_and_go_on() -> None:
    with hr.Graph(seed=7).as_default() as graph:
        hr.random.uniform([], name="RandomUniform")
        draws = hr.map_fn(lambda x: hr.random.uniform([]) + x, hr.zeros([3]))
    session = hr.Session(graph)
    session.run(draws)
    kept = session.read_streams()
    expected = session.run(draws)
    other = hr.Session(graph)
    other.write_streams(kept)
    np.testing.assert_array_equal(other.run(draws), expected)


def _call(function_type: str) -> tuple[hr.Graph, hr.Tensor, hr.Tensor]:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None], name="x")
        body = Body("square_and_sum", outer=graph, captures=Captures(1))
        argument = body.add_argument(0, x.spec, like=x)
        with body.as_default():
            square = hr.square(argument)
            total = hr.sum(hr.exp(square))
        body.complete([square, total])
        outputs = hr.apply_op(function_type, [x], Tout=[hr.float64, hr.float64], f="square_and_sum")
    return graph, x, outputs


@pytest.mark.parametrize("function_type", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_gives_what_its_function_gives_and_is_differentiated_twice(function_type: str) -> None:
    graph, x, (square, total) = _call(function_type)
    with graph.as_default():
        (dx,) = hr.gradients([square, total], [x])
        (ddx,) = hr.gradients(dx, [x])
    value = np.array([0.5, -0.25])
    results = hr.Session(graph).run([square, total, dx, ddx], feeds={x: value})
    exp = np.exp(value**2)
    np.testing.assert_allclose(results[0], value**2)
    np.testing.assert_allclose(results[1], exp.sum())
    np.testing.assert_allclose(results[2], 2 * value + 2 * value * exp)
    np.testing.assert_allclose(results[3], 2 + 2 * exp + 4 * value**2 * exp)


def test_calls_are_written_into_the_plan_of_the_step() -> None:
    graph, x, (square, _) = _call("PartitionedCall")
    optimized = hr.Session(graph).optimized_graph(square, feeds={x: [1.0]})
    assert [op.type for op in optimized.operations] == ["_Arg", "Square", "_Retval"]


def test_a_function_that_does_not_fit_its_call_is_refused() -> None:
    graph, x, _ = _call("PartitionedCall")
    message = r"'square_and_sum' does not fit PartitionedCall(.|\n)*got:      arguments \(float64\)"
    with graph.as_default(), pytest.raises(hr.errors.DTypeError, match=message):
        hr.apply_op("PartitionedCall", [x, x], Tout=[hr.float64], f="square_and_sum")
    with graph.as_default(), pytest.raises(hr.errors.DTypeError, match="does not fit PartitionedCall"):
        hr.apply_op("PartitionedCall", [x], Tout=[hr.float64, hr.int32], f="square_and_sum")
    stated = {"cond": "missing", "body": "missing", "output_shapes": [[], []]}
    with graph.as_default(), pytest.raises(hr.errors.AttrError, match="'output_shapes' does not fit(.|\n)*1 outputs"):
        hr.apply_op("While", [x], **stated)
    with graph.as_default():
        y = hr.apply_op("PartitionedCall", [x], Tout=[hr.float64], f="missing")
    with pytest.raises(hr.errors.NotFoundError, match="no function 'missing'"):
        hr.Session(graph).run(y, feeds={x: [1.0]})


@pytest.mark.parametrize(
    "optimizer",
    [lambda: hr.optim.SGD(0.01), lambda: hr.optim.Momentum(0.01, momentum=0.9), lambda: hr.optim.Adam(0.01)],
)
def test_training_steps_in_a_loop_of_the_graph_equal_steps_of_the_session(optimizer) -> None:
    def loss(w: hr.Variable) -> hr.Tensor:
        return hr.mean(hr.square(hr.constant([[1.0, 2.0], [3.0, 4.0]]) @ hr.reshape(w, [2, 1]) - [[1.0], [-1.0]]))

    start = np.array([1.0, 2.0], np.float32)
    with hr.Graph().as_default() as looping:
        w, inside = hr.Variable(start, name="w"), optimizer()

        def body(i: hr.Tensor) -> hr.Tensor:
            inside.minimize(loss(w))
            return i + 1

        steps = hr.while_loop(lambda i: i < 5, body, [0])[0]
        looped = w.read()
    session = hr.Session(looping)
    session.run(steps)
    with hr.Graph().as_default() as plain:
        v = hr.Variable(start, name="w")
        train = optimizer().minimize(loss(v))
        stepped = v.read()
    other = hr.Session(plain)
    for _ in range(5):
        other.run(train)
    np.testing.assert_array_equal(session.run(looped), other.run(stepped))
