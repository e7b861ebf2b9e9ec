"""Gradients of calls, branches and loops: equal to finite differences, second order too; only what is read is kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.extensions import latest
from headrace.graph.functions import Body, Captures
from headrace.graph.scopes import current_graph
from headrace.testing import check_gradient

Tensors = Sequence[hr.Tensor]


def _check(build: Callable[[Tensors], Any], *values: Any) -> None:
    """Compare first and second derivatives of the sum of what `build` gives with central differences."""

    def outputs(inputs: Tensors) -> list[hr.Tensor]:
        result = build(inputs)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    check_gradient(outputs, [np.asarray(value, np.float64) for value in values])


def _repeat(count: int, body: Callable[[hr.Tensor], hr.Tensor], start: hr.Tensor, **options: Any) -> hr.Tensor:
    result: hr.Tensor = hr.while_loop(
        lambda i, s: i < count, lambda i, s: (i + 1, body(s)), (0, start), name="loop", **options
    )[1]
    return result


@pytest.mark.parametrize("value", [0.7, 0.2])
def test_A74_D16_gradient_of_the_branch_that_was_taken(value: float) -> None:
    _check(lambda t: hr.cond(t[0] > 0.5, lambda: hr.sin(t[0]) * t[0], lambda: t[0] * 2.0 * t[1]), value, 0.3)


@pytest.mark.parametrize("value", [0.7, -0.4])
def test_A74_gradient_of_nested_branches(value: float) -> None:
    def build(t: Tensors) -> hr.Tensor:
        x, y = t
        inner = lambda: hr.cond(y > 0.0, lambda: hr.exp(x * y), lambda: x)  # noqa: E731
        return hr.cond(x > 0.0, inner, lambda: hr.cond(y > 0.0, lambda: x * x * y, lambda: y))

    _check(build, value, 0.3)
    _check(build, value, -0.3)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_A74_gradient_of_switch_case(index: int) -> None:
    def build(t: Tensors) -> hr.Tensor:
        x = t[0]
        result: hr.Tensor = hr.switch_case(index, [lambda: x * x, lambda: hr.exp(x), lambda: hr.sin(x) * x])
        return result

    _check(build, 0.6)


def test_A74_D16_gradient_of_a_branch_in_a_loop() -> None:
    def body(s: hr.Tensor, x: hr.Tensor) -> hr.Tensor:
        result: hr.Tensor = hr.cond(s > 0.5, lambda: hr.sin(s) * x, lambda: s * s + x)
        return result

    _check(lambda t: _repeat(4, lambda s: body(s, t[0]), t[0]), 0.3)


def test_D16_gradient_of_a_loop_in_a_branch_in_a_loop() -> None:
    def inner(s: hr.Tensor, x: hr.Tensor) -> hr.Tensor:
        return _repeat(3, lambda u: hr.cond(u > 0.0, lambda: u * hr.cos(u) * x, lambda: u * u), s)

    _check(lambda t: _repeat(3, lambda s: inner(s, t[1]) + hr.sin(s), t[0]), 0.3, 0.9)


def test_D16_gradient_of_loops_three_deep() -> None:
    def nest(depth: int, s: hr.Tensor, x: hr.Tensor) -> hr.Tensor:
        if depth == 0:
            return hr.sin(s) * x
        return _repeat(2, lambda u: nest(depth - 1, u, x), s)

    _check(lambda t: nest(3, t[0], t[1]), 0.8, 1.1)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_A75_gradient_of_a_loop_of_any_number_of_iterations(count: int) -> None:
    _check(lambda t: _repeat(count, lambda s: hr.sin(s) * t[1] + s * s, t[0]), 0.3, 0.5)


def test_A75_gradient_through_a_thousand_iterations() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [])
        y = _repeat(1000, lambda s: s * 0.999 + 0.001 * hr.sin(s), x)
        (dx,) = hr.gradients(y, [x])
    session = hr.Session(graph)
    h = 1e-6
    up, down = (session.run(y, feeds={x: 0.5 + step}) for step in (h, -h))
    np.testing.assert_allclose(session.run(dx, feeds={x: 0.5}), (up - down) / (2 * h), rtol=1e-7)


@pytest.mark.parametrize("parallel", [1, 10])
def test_G11_a_body_that_uses_its_variable_twice(parallel: int) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant(5.0)
        y = _repeat(6, lambda s: s + s, x, parallel_iterations=parallel)
        (dx,) = hr.gradients(y, [x])
    assert hr.Session(graph).run([y, dx]) == [320.0, 64.0]


def test_D16_gradients_of_scan_map_and_folds() -> None:
    values = np.array([0.1, 0.4, 0.3])
    _check(lambda t: hr.scan(lambda c, x: (hr.tanh(c * x), c * x + hr.cos(c)), t[0], init=t[1]), values, 0.5)
    _check(lambda t: hr.scan(lambda c, x: (c * x, c + x * c), t[0], init=t[1], reverse=True), values, 0.5)
    _check(lambda t: hr.map_fn(lambda x: x * x * t[1], t[0]), values, 0.5)
    _check(lambda t: hr.foldl(lambda a, x: a * x + t[1], t[0]), values, 0.5)
    _check(lambda t: hr.foldr(lambda a, x: hr.sin(a) * x, t[0]), values)


def test_D16_gradient_of_scan_over_rows_of_matrices() -> None:
    rng = np.random.default_rng(5)
    xs, w = rng.normal(size=(4, 2, 3)), rng.normal(size=(3, 3)) * 0.5

    def build(t: Tensors) -> Any:
        zeros = hr.zeros([2, 3], hr.float64)
        return hr.scan(lambda h, x: (hr.tanh(h @ t[1]), hr.tanh(x + h @ t[1])), t[0], init=zeros)

    _check(build, xs, w)


def _call(x: hr.Tensor) -> hr.Tensor:
    """A call of a function of its own."""
    graph = current_graph()
    body = Body(graph.functions.unique_name("callee"), outer=graph, captures=Captures(1))
    argument = body.add_argument(0, x.spec, like=x)
    with body.as_default():
        result = hr.sin(argument) * hr.exp(argument)
    body.complete([result])
    called: hr.Tensor = hr.apply_op("PartitionedCall", [x], Tout=[x.dtype], f=body.name)[0]
    return called


def test_gradient_of_a_call_in_a_loop_and_in_a_branch() -> None:
    _check(lambda t: _repeat(3, lambda s: _call(s) * 0.5, t[0]), 0.4)
    _check(lambda t: hr.cond(t[0] > 0.0, lambda: _call(t[0] * t[0]), lambda: t[0]), 0.4)


def test_rows_picked_from_what_changes_and_from_what_is_captured() -> None:
    values = [0.1, 0.5, 0.3]
    _check(lambda t: _repeat(3, lambda s: hr.gather(s, [0, 2, 1]) * 2.0 + hr.gather(s, [1, 1, 0]), t[0]), values)
    _check(lambda t: _repeat(3, lambda s: s * hr.sum(hr.gather(t[0], [0, 2])), t[1]), values, 0.7)
    for scale in (0.7, -0.7):
        _check(lambda t: hr.cond(t[1] > 0.0, lambda: hr.gather(t[0], [0, 2]) * t[1], lambda: t[0][:2]), values, scale)


def test_a_variable_that_the_body_leaves_alone_and_that_is_used_after_the_loop() -> None:
    def build(t: Tensors) -> Any:
        return hr.while_loop(lambda i, s, c: i < 3, lambda i, s, c: (i + 1, s * c, c), (0, t[0], t[1]))[1:]

    _check(build, 0.3, 0.8)


def test_a_list_of_which_each_iteration_reads_two_elements() -> None:
    def build(t: Tensors) -> hr.Tensor:
        rows = hr.TensorArray(4, hr.float64, element_shape=[]).unstack(t[0])
        total: hr.Tensor = hr.while_loop(
            lambda i, s: i < 3,
            lambda i, s: (i + 1, s * rows.read(i) + rows.read(i + 1)),
            (0, hr.constant(1.0, hr.float64)),
        )[1]
        return total

    _check(build, [0.1, 0.5, 0.3, 0.7])


def _changing(s: hr.Tensor) -> hr.Tensor:
    return hr.tanh(s) * hr.sum(s) + hr.nn.softmax(s)


@pytest.mark.parametrize("shape", [None, [None, None], [None, 3]])
def test_what_a_step_alone_knows_of_shapes_is_enough(shape: Any) -> None:
    def built(shape: Any, repeat: Callable[[hr.Tensor], hr.Tensor]) -> list[np.ndarray]:
        with hr.Graph().as_default() as graph:
            x = hr.placeholder(hr.float64, shape)
            y = repeat(x)
            (dx,) = hr.gradients(y, [x])
            (ddx,) = hr.gradients(hr.sum(dx * dx), [x])
        value = np.random.default_rng(0).normal(size=(2, 3))
        return hr.Session(graph).run([y, dx, ddx], feeds={x: value})

    looped = built(shape, lambda x: _repeat(3, _changing, x))
    unrolled = built([2, 3], lambda x: _changing(_changing(_changing(x))))
    for one, other in zip(looped, unrolled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("taken", [True, False])
def test_gradients_by_variables_of_open_shape(taken: bool) -> None:
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        w = hr.Variable(np.array([1.0, 2.0]), shape=[None], name="w")
        table = hr.Variable(np.arange(6.0).reshape(3, 2), shape=[None, None], name="table")
        one = hr.ones([2], hr.float64)
        results = [
            (_repeat(2, lambda s: s * w.read(), one), w),
            (hr.cond(p, lambda: w.read() * 2.0, lambda: one), w),
            (hr.cond(p, lambda: table.rows([1]).read(), lambda: hr.ones([1, 2], hr.float64)), table),
            (_repeat(2, lambda s: s + hr.sum(table.rows([1]).read()), hr.constant(0.0, hr.float64)), table),
        ]
        gradients = [hr.gradients(y, [x])[0] for y, x in results]
    found = hr.Session(graph).run(gradients, feeds={p: taken})
    row = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    for value, expected in zip(found, [[2.0, 4.0], [2.0 * taken] * 2, row * taken, row * 2], strict=True):
        np.testing.assert_array_equal(value, expected)


def test_rows_that_a_call_reads_stay_sparse() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.Variable(np.arange(6.0).reshape(3, 2), name="table")
        body = Body("looks_up", outer=graph, captures=Captures(0))
        with body.as_default():
            rows = table.rows([2, 0]).read() * 3.0
        body.complete([rows])
        (y,) = hr.apply_op("StatefulPartitionedCall", list(body.captures.tensors), Tout=[hr.float64], f="looks_up")
        (gradient,) = hr.gradients(y, [table])
    assert isinstance(gradient, hr.IndexedSlices)
    values, indices = hr.Session(graph).run([gradient.values, gradient.indices])
    assert values.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert indices.tolist() == [2, 0]


def test_what_is_stopped_in_a_body_is_a_constant_there() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant(0.5, hr.float64)
        y = _repeat(3, lambda s: s * hr.stop_gradient(s), x)
        (dx,) = hr.gradients(y, [x])
    assert hr.Session(graph).run(dx) == 0.5 * 0.25 * 0.0625


@pytest.mark.parametrize("dtype", [hr.complex128, hr.float16, hr.float32])
def test_gradients_of_loops_of_any_floating_dtype(dtype: hr.DType) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant(np.array([0.5, 0.25]).astype(dtype.array_type))
        y = _repeat(3, lambda s: s * x, x)
        (dx,) = hr.gradients(y, [x])
    value, gradient = hr.Session(graph).run([y, dx])
    np.testing.assert_array_equal(value, np.array([0.5, 0.25]) ** 4)
    np.testing.assert_array_equal(gradient, 4 * np.array([0.5, 0.25]) ** 3)


def test_several_variables_of_which_some_have_no_gradient() -> None:
    def build(t: Tensors) -> Any:
        x, y = t
        return hr.while_loop(
            lambda i, a, b, n: i < 4,
            lambda i, a, b, n: (i + 1, b * y, hr.sin(a) + b, n * 2),
            (hr.constant(0), x, y * 1.0, hr.constant(1)),
        )[1:3]

    _check(build, 0.3, 0.8)


def test_a_variable_whose_shape_changes() -> None:
    def build(t: Tensors) -> hr.Tensor:
        grow = lambda i, v: (i + 1, hr.concat([v * t[1], hr.sin(v[-1:])], axis=0))  # noqa: E731
        shapes = [None, [None]]
        result: hr.Tensor = hr.while_loop(lambda i, v: i < 3, grow, (0, t[0]), shape_invariants=shapes)[1]
        return result

    _check(build, [0.3, 0.5], 0.7)


def test_gradient_by_a_variable_that_a_loop_and_a_branch_read() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.array([0.5, 2.0]), name="w")
        p = hr.placeholder(hr.bool, [])
        y = _repeat(3, lambda s: s * hr.cond(p, lambda: w.read(), lambda: w.read() * 2.0), hr.ones([2], hr.float64))
        (dw,) = hr.gradients(y, [w])
    session = hr.Session(graph)
    np.testing.assert_allclose(session.run(dw, feeds={p: True}), 3 * np.array([0.5, 2.0]) ** 2)
    np.testing.assert_allclose(session.run(dw, feeds={p: False}), 8 * 3 * np.array([0.5, 2.0]) ** 2)


@pytest.mark.parametrize("rows", [[1, 3, 1], []])
def test_gradient_of_rows_read_in_a_loop_stays_sparse(rows: list[int]) -> None:
    with hr.Graph().as_default() as graph:
        table = hr.Variable(np.arange(10.0).reshape(5, 2), name="table")
        indices = hr.placeholder(hr.int32, [None])
        total = hr.foldl(
            lambda so_far, i: so_far + table.rows(hr.reshape(i, [1])).read()[0] ** 2.0,
            indices,
            init=hr.zeros([2], hr.float64),
        )
        (gradient,) = hr.gradients(total, [table])
    assert isinstance(gradient, hr.IndexedSlices)
    values, found = hr.Session(graph).run([gradient.values, gradient.indices], feeds={indices: rows})
    table_value = np.arange(10.0).reshape(5, 2)
    assert sorted(found.tolist()) == sorted(rows)
    np.testing.assert_array_equal(values, 2 * table_value[found])


def test_gradient_of_rows_read_in_one_branch_stays_sparse() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.Variable(np.arange(10.0).reshape(5, 2), name="table")
        p = hr.placeholder(hr.bool, [])
        y = hr.cond(p, lambda: table.rows([4, 2]).read() * 3.0, lambda: hr.ones([2, 2], hr.float64))
        (gradient,) = hr.gradients(y, [table])
    assert isinstance(gradient, hr.IndexedSlices)
    session = hr.Session(graph)
    parts = [gradient.values, gradient.indices]
    values, indices = session.run(parts, feeds={p: True})
    assert values.tolist() == [[3, 3], [3, 3]]
    assert indices.tolist() == [4, 2]
    values, indices = session.run(parts, feeds={p: False})
    assert values.shape == (0, 2)
    assert indices.shape == (0,)


def _lists(session: hr.Session, fetches: Any, feeds: dict[Any, Any]) -> int:
    """How many lists the forward loop of a step keeps."""
    optimized = session.optimized_graph(fetches, feeds)
    loop = next(op for op in optimized.operations if op.name == "loop" or op.name.startswith("loop_1"))
    return sum(tensor.dtype.name == "variant" for tensor in loop.outputs)


@pytest.mark.parametrize(
    ("body", "saved"),
    [
        (lambda s, x: s + x, 0),  # nothing is read backward
        (lambda s, x: s * x, 1),  # s, for the gradient of x; x itself does not change
        (lambda s, x: hr.tanh(s), 1),  # the result
        (lambda s, x: hr.sin(s) + hr.sum(hr.ones([3], hr.float64)), 1),  # of the sum only the shape is read
        (lambda s, x: hr.exp(hr.sin(s)), 2),
    ],
)
def test_A75_a_loop_keeps_only_what_its_gradient_reads(body: Callable[[Any, Any], Any], saved: int) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [])
        y = _repeat(3, lambda s: body(s, x), x)
        (dx,) = hr.gradients(y, [x])
    session = hr.Session(graph)
    assert _lists(session, [y, dx], {x: 0.5}) == saved
    assert _lists(session, y, {x: 0.5}) == 0


def test_the_index_and_the_row_of_an_iteration_are_had_again_not_kept() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [4])
        y = hr.map_fn(lambda row: row * row, x)
        (dx,) = hr.gradients(y, [x])
    session = hr.Session(graph)
    np.testing.assert_array_equal(session.run(dx, feeds={x: np.arange(4.0)}), 2 * np.arange(4.0))
    optimized = session.optimized_graph([y, dx], {x: np.arange(4.0)})
    forward = next(op for op in optimized.operations if op.type == "StatelessWhile")
    assert sum(tensor.dtype.name == "variant" for tensor in forward.outputs) == 2  # the rows and the results


def test_A76_recomputing_keeps_the_loop_variables_alone_and_gives_the_same() -> None:
    def build(recompute: bool) -> tuple[hr.Graph, Any, Any, Any]:
        with hr.Graph().as_default() as graph:
            x = hr.placeholder(hr.float64, [3])
            y = _repeat(5, lambda s: hr.tanh(hr.sin(s) * hr.cos(s) + x) * hr.exp(-s * s), x, recompute=recompute)
            (dx,) = hr.gradients(y, [x])
            (second,) = hr.gradients(hr.sum(dx * dx), [x])
        return graph, x, [y, dx], second

    results, counts = [], []
    for recompute in (False, True):
        graph, x, first, second = build(recompute)
        session = hr.Session(graph)
        results.append(session.run([*first, second], feeds={x: [0.1, 0.2, 0.3]}))
        counts.append(_lists(session, first, {x: [0.1, 0.2, 0.3]}))
    for plain, recomputed in zip(*(found[:2] for found in results), strict=True):
        np.testing.assert_array_equal(plain, recomputed)
    # of second order sums of three may be added in another order
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-14)
    assert counts[1] == 1
    assert counts[0] >= 5


def test_random_numbers_and_effects_happen_once_in_a_step_with_a_gradient() -> None:
    with hr.Graph(seed=3).as_default() as graph:
        calls = hr.Variable(0, name="calls")
        x = hr.placeholder(hr.float32, [])

        def body(s: hr.Tensor) -> hr.Tensor:
            calls.assign_add(1)
            return s * hr.random.uniform([], 0.5, 2.0)

        y = _repeat(4, body, x)
        (dx,) = hr.gradients(y, [x])
    session = hr.Session(graph)
    value, gradient = session.run([y, dx], feeds={x: 3.0})
    np.testing.assert_allclose(gradient, value / 3.0, rtol=1e-6)
    assert session.run(calls) == 4


@pytest.mark.parametrize("taken", [True, False])
def test_A74_a_branch_of_another_shape_than_the_other_one_keeps_its_own(taken: bool) -> None:
    """What is to be kept of a branch made an extension whose outputs all had the shapes of the first branch."""
    with hr.Graph().as_default() as graph:
        x, pred = hr.placeholder(hr.float32, [4]), hr.placeholder(hr.bool, [])
        out = hr.cond(pred, lambda: hr.tanh(x)[:2], lambda: hr.tanh(x))
        (gradient,) = hr.gradients(hr.sum(hr.square(out)), [x])
        (second,) = hr.gradients(hr.sum(hr.square(gradient)), [x])
        y = hr.tanh(x)
        plain = y[:2] if taken else y
        (wanted,) = hr.gradients(hr.sum(hr.square(plain)), [x])
        (wanted_second,) = hr.gradients(hr.sum(hr.square(wanted)), [x])
    feeds = {x: [0.1, -0.5, 1.0, 2.0], pred: taken}
    found = hr.Session(graph).run([out, gradient, second], feeds=feeds)
    expected = hr.Session(graph).run([plain, wanted, wanted_second], feeds=feeds)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_A75_a_handle_of_an_array_that_an_iteration_asks_for_is_kept() -> None:
    """Loops that TensorFlow 1 differentiated ask for the array of gradients in each iteration. Its handle is a list of
    two by its shape function, as TensorFlow's is, and was refused when it was kept for the second derivative."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [3])
        array, flow = hr.apply_op("TensorArrayV3", 3, dtype=hr.float64)
        other, other_flow = hr.apply_op("TensorArrayGradV3", array, flow, source="gradients")
        written = hr.apply_op("TensorArrayScatterV3", other, [0, 1, 2], x, other_flow)

        def body(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            again, _ = hr.apply_op("TensorArrayGradV3", array, flow, source="gradients")
            element = hr.apply_op("TensorArrayReadV3", again, i, written, dtype=hr.float64)
            return i + 1, s * hr.ensure_shape(element, [])

        product = hr.while_loop(lambda i, s: i < 3, body, (0, hr.constant(1.0, hr.float64)))[1]
        (gradient,) = hr.gradients(product, [x])
    np.testing.assert_allclose(hr.Session(graph).run(gradient, feeds={x: [2.0, 3.0, 5.0]}), [15, 10, 6])


@pytest.mark.parametrize("taken", [True, False])
def test_D15_a_branch_with_an_effect_is_differentiable(taken: bool) -> None:
    """What the backward pass reads of it was taken for an effect of the user's that one branch alone asks for."""
    with hr.Graph().as_default() as graph:
        x, pred, total = hr.placeholder(hr.float32, [2]), hr.placeholder(hr.bool, []), hr.Variable([1.0, 2.0])

        def updating() -> hr.Tensor:
            with hr.control_dependencies([total.assign_add(x)]):
                return hr.tanh(hr.sin(x))

        out = hr.cond(pred, updating, lambda: x)
        (gradient,) = hr.gradients(out, [x])
    session = hr.Session(graph)
    point = np.array([0.3, -1.2], np.float32)
    slope = np.cos(point) / np.cosh(np.sin(point)) ** 2 if taken else np.ones(2)
    np.testing.assert_allclose(session.run(gradient, feeds={x: point, pred: taken}), slope, rtol=1e-6)
    np.testing.assert_array_equal(session.run(total), np.float32([1, 2]) + (point if taken else 0))


def test_G13_D14_a_traced_training_step_through_a_loop_keeps_program_order() -> None:
    w = hr.Variable(np.array([1.0, 2.0]), name="looped")

    @hr.function
    def step(x: hr.Tensor) -> hr.Tensor:
        loss = hr.sum(_repeat(2, lambda s: s * w, x))
        (g,) = hr.gradients(loss, [w])
        w.assign_sub(0.1 * g)
        return loss

    assert step(np.array([1.0, 1.0])) == 5.0
    np.testing.assert_allclose(w.numpy(), [0.8, 1.6])
    np.testing.assert_allclose(step(np.array([1.0, 1.0])), 0.64 + 2.56)


def test_A72_rules_of_an_override_hold_inside_loops_and_branches() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [])
        with hr.gradient_override({"Rint": lambda op, grad: [grad * 3.0]}):
            y = _repeat(2, lambda s: hr.cond(s > 0.0, lambda: hr.round(s), lambda: s), x)
        (dx,) = hr.gradients(y, [x])
    assert hr.Session(graph).run(dx, feeds={x: 1.4}) == 9.0


def test_gradients_inside_a_body_by_what_is_around_it() -> None:
    def body(s: hr.Tensor, x: hr.Tensor) -> hr.Tensor:
        (inner,) = hr.gradients(hr.sin(s * x), [s])
        result: hr.Tensor = s - 0.5 * inner
        return result

    _check(lambda t: _repeat(3, lambda s: body(s, t[0]), t[0] * t[0]), 0.8)


def test_gradient_by_a_captured_tensor_taken_inside_a_branch() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [])
        y = hr.sin(x)
        dy = hr.cond(x > 0.0, lambda: hr.gradients(y * y, [y])[0], lambda: y)
    assert hr.Session(graph).run(dy, feeds={x: 0.5}) == 2 * np.sin(0.5)


def test_what_does_not_depend_on_the_source_gets_no_gradient() -> None:
    with hr.Graph().as_default():
        x, z = hr.placeholder(hr.float32, []), hr.placeholder(hr.float32, [])
        y = _repeat(3, lambda s: s * 2.0, x)
        flag = hr.cond(x > 0.0, lambda: z, lambda: z * 2.0)
        assert hr.gradients(y, [z]) == [None]
        assert hr.gradients(flag, [x]) == [None]


def test_an_extension_stands_for_the_operation_and_is_itself_extended() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [])
        y = _repeat(3, hr.sin, x)
        (dx,) = hr.gradients(y, [x])
        first = latest(y.op)
        (second,) = hr.gradients(dx, [x])
        hr.gradients(dx, [x])
    assert first is not y.op
    assert [tensor.spec for tensor in first.outputs[: len(y.op.outputs)]] == [t.spec for t in y.op.outputs]
    session = hr.Session(graph)
    optimized = session.optimized_graph([y, dx, second], {x: 0.4})
    forward = [op for op in optimized.operations if op.type == "StatelessWhile" and op.inputs[1].op.type == "_Arg"]
    assert len(forward) == 1
    values = session.run([y, dx, second], feeds={x: 0.4})
    with hr.Graph().as_default() as plain:
        v = hr.placeholder(hr.float64, [])
        w = hr.sin(hr.sin(hr.sin(v)))
        (dv,) = hr.gradients(w, [v])
        (ddv,) = hr.gradients(dv, [v])
    np.testing.assert_allclose(values, hr.Session(plain).run([w, dv, ddv], feeds={v: 0.4}), rtol=1e-12)


def test_third_derivative_through_a_loop() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [])
        y = _repeat(3, lambda s: s * x, hr.constant(1.0, hr.float64))  # x ** 3
        derivative = y
        for _ in range(3):
            (derivative,) = hr.gradients(derivative, [x])
    assert hr.Session(graph).run(derivative, feeds={x: 1.7}) == pytest.approx(6.0, rel=1e-12)


@pytest.mark.parametrize("build", ["while_loop", "scan"])
def test_A76_what_waits_for_the_backward_pass_is_marked_for_the_host_and_is_the_same(build: str) -> None:
    def graph_of(**options: bool) -> tuple[hr.Graph, Any, list[Any]]:
        with hr.Graph().as_default() as graph:
            x = hr.placeholder(hr.float64, [3])
            if build == "scan":
                _, y = hr.scan(lambda carry, row: ((), hr.sin(carry) * row), hr.ones([4, 3], hr.float64), x, **options)
            else:
                y = _repeat(4, lambda s: hr.sin(hr.sin(s)) * x, x, **options)
            (dx,) = hr.gradients(y, [x])
            (second,) = hr.gradients(hr.sum(dx * dx), [x])
        return graph, x, [y, dx, second]

    def kept(graph: hr.Graph) -> set[bool]:
        """Of what the loop keeps for its backward loop, whether it is marked."""
        loops = [op for op in graph.operations if op.bodies and "grad" not in op.name]
        forward = max(loops, key=lambda op: len(op.outputs))
        return {"_swap_to_host" in op.attrs for op in forward.bodies[1].operations if op.type == "TensorListPushBack"}

    value = [0.1, 0.2, 0.3]
    plain, x, fetches = graph_of()
    swapped, swapped_x, swapped_fetches = graph_of(swap_to_host=True)
    assert kept(plain) == {False}
    assert kept(swapped) == {True}
    expected = hr.Session(plain).run(fetches, feeds={x: value})
    for one, other in zip(hr.Session(swapped).run(swapped_fetches, feeds={swapped_x: value}), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fed_value_of_the_loop_is_the_one_whose_gradient_is_taken() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [])
        y = _repeat(2, lambda s: s * s, x)
        z = y * y
        (dz,) = hr.gradients(z, [y])
        hr.gradients(z, [x])
    assert hr.Session(graph).run(dz, feeds={y: 3.0}) == 6.0


def test_A76_recomputing_cuts_the_memory_of_a_long_loop() -> None:
    """The loop variables alone are kept: one array in each iteration in the place of eight."""
    value = np.linspace(0.1, 0.9, 20_000)

    def peak(recompute: bool) -> int:
        with hr.Graph().as_default() as graph:
            x = hr.placeholder(hr.float64, [len(value)])
            y = _repeat(
                40, lambda s: hr.tanh(hr.sin(s) * hr.cos(s) * hr.exp(-s)) * hr.tanh(s + x), x, recompute=recompute
            )
            (dx,) = hr.gradients(y, [x])
        step = hr.Session(graph).make_callable(dx, [x])
        step(value)
        tracemalloc.start()
        step(value)
        bytes_held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return bytes_held

    assert peak(False) > 3 * peak(True)


@pytest.mark.parametrize("trip_count", [None, 0, 1, 99, -1, "text"])
def test_a_loop_that_was_differentiated_is_differentiated_again_from_its_file(trip_count: int | str | None) -> None:
    """What the first gradient noted about the loop is read again, and not believed where it is damaged."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [], name="x")
        y = _repeat(3, lambda s: s * s * x, x)
        (dx,) = hr.gradients(y, [x])
        (expected,) = hr.gradients(dx, [x])
    proto = hr.to_graph_def(graph)
    noted = [node for node in proto.node if "_trip_count" in node.attr]
    assert noted
    for node in noted if trip_count is not None else ():
        node.attr["_trip_count"].Clear()
        if isinstance(trip_count, str):
            node.attr["_trip_count"].s = trip_count.encode()
        else:
            node.attr["_trip_count"].i = trip_count
    again = hr.import_graph_def(proto)
    with again.as_default():
        (ddx,) = hr.gradients(again.tensor(dx.name), [again.tensor("x:0")])
    assert hr.Session(again).run(ddx, feeds={"x:0": 1.3}) == hr.Session(graph).run(expected, feeds={x: 1.3})
