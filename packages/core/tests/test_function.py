"""Traced functions."""

from __future__ import annotations

import collections
import gc
import threading
import weakref

import numpy as np
import pytest

import headrace as hr


def test_D04_python_numbers_are_no_new_traces() -> None:

    @hr.function
    def scaled(x, factor):
        return x * factor

    for factor in (1.0, 2.0, 3.5):
        np.testing.assert_array_equal(scaled(np.ones(2, np.float32), factor), [factor] * 2)
    assert scaled.explain_traces() == "trace 1: (float32[2], float32[]): first call"


def test_sizes_that_change_are_left_open_once() -> None:
    @hr.function
    def total(x):
        return hr.sum(x)

    for size in (3, 4, 5, 6, 0):
        assert total(np.ones(size, np.float32)) == size
    lines = total.explain_traces().splitlines()
    assert len(lines) == 2
    assert "[3] became [4]" in lines[1]


def test_a_function_that_needs_the_size_is_traced_for_each() -> None:
    @hr.function
    def unrolled(x):
        return hr.add_n([x[i] for i in range(len(x))])

    assert unrolled(np.ones(2, np.float32)) == 2
    assert unrolled(np.ones(3, np.float32)) == 3
    assert "the function needs to know it" in unrolled.explain_traces()


def test_reasons_name_what_changed() -> None:
    @hr.function
    def f(x, mode="a"):
        return x + (1.0 if mode == "a" else 2.0)

    f(1.0)
    f(np.float64(1))
    f(1.0, mode="b")
    lines = f.explain_traces().splitlines()
    assert "argument 0: float32[] became float64[]" in lines[1]
    assert "not a tensor changed" in lines[2]


def test_structures_go_in_and_come_out() -> None:
    @hr.function
    def f(batch, *more, scale=1.0):
        return {"sum": batch["a"] + batch["b"][0] * scale, "rest": list(more), "none": None, "number": 3}

    result = f({"a": np.ones(2, np.float32), "b": [np.ones(2, np.float32)]}, 5.0, scale=4.0)
    np.testing.assert_array_equal(result["sum"], [5, 5])
    assert result["rest"] == [5.0]
    assert result["none"] is None
    assert result["number"] == 3


def test_D14_effects_on_one_variable_happen_in_program_order() -> None:
    w = hr.Variable(1.0, name="ordered")

    @hr.function
    def f():
        before = w.read()
        w.assign_add(10.0)
        between = w.read()
        w.assign(between * 2.0)
        w.assign_sub(1.0)
        return before, between, w.read()

    assert f() == (1.0, 11.0, 21.0)
    assert w.numpy() == 21.0


def test_effects_run_even_if_nothing_is_returned() -> None:
    w = hr.Variable([0.0, 0.0])

    @hr.function
    def f(x):
        w.assign_add(x)

    assert f([1.0, 2.0]) is None
    np.testing.assert_array_equal(w.numpy(), [1, 2])


def test_training_step_of_the_guide() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 8)).astype(np.float32), rng.integers(0, 3, 64).astype(np.int32)
    w = hr.Variable(np.zeros((8, 3), np.float32))

    @hr.function
    def step(x, y):
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=x @ w))
        (g,) = hr.gradients(loss, [w])
        w.assign_sub(0.5 * g)
        return loss

    losses = [float(step(images, labels)) for _ in range(50)]
    assert losses[0] == pytest.approx(np.log(3), rel=1e-6)
    assert losses[-1] < 0.9 * losses[0]
    lowered = step.lower(images, labels)
    assert "AssignSubVariableOp" in lowered.text()
    assert "backend" in lowered.explain()


def test_a_function_called_while_another_is_traced_becomes_part_of_it() -> None:
    @hr.function
    def inner(x):
        return x * 2.0

    @hr.function
    def outer(x):
        return inner(x) + 1.0

    assert outer(3.0) == 7.0
    assert inner.explain_traces() == "not traced yet"


def test_too_many_traces_are_an_error_that_says_why() -> None:
    @hr.function
    def f(x, tag):
        return x

    for tag in map(str, range(32)):
        f(1.0, tag)
    with pytest.raises(hr.errors.InvalidArgumentError, match="was traced 32 times(.|\n)*not a tensor changed"):
        f(1.0, "one more")


def test_arguments_that_cannot_be_part_of_a_signature_are_refused() -> None:
    @hr.function
    def f(x):
        return x

    with pytest.raises(hr.errors.InvalidArgumentError, match="cannot be part of its signature(.|\n)*set"):
        f({1, 2})


def test_an_error_inside_the_function_reaches_the_caller_at_his_line() -> None:
    @hr.function
    def f(x):
        return x + np.ones(3, np.float32)

    with pytest.raises(hr.errors.ShapeError, match="test_function.py"):
        f(np.ones(2, np.float32))


class _Counter:
    def __init__(self, start: float) -> None:
        self.total = hr.Variable(start)

    @hr.function
    def add(self, x, *, how="once"):
        self.total.assign_add(x * 2.0 if how == "twice" else x)
        return self.total.read()


def test_a_method_is_traced_for_each_object_and_its_traces_end_with_the_object() -> None:
    counters = [_Counter(float(number)) for number in range(40)]  # more objects than one function may have traces
    assert [counter.add(1.0) for counter in counters] == [number + 1.0 for number in range(40)]
    assert counters[0].add(1.0, how="twice") == 3.0
    assert len(counters[0].add.explain_traces().splitlines()) == 2
    assert _Counter.add.explain_traces() == "not traced yet"
    assert _Counter(5.0).add(1.0) == 6.0
    gone = weakref.ref(counters[7])
    del counters
    gc.collect()
    assert gone() is None


def test_a_method_of_an_object_that_cannot_be_referred_to_weakly_is_refused() -> None:
    class Slotted:
        __slots__ = ()

        @hr.function
        def f(self, x):
            return x

    with pytest.raises(hr.errors.InvalidArgumentError, match="'f' cannot be traced for this object(.|\n)*__weakref__"):
        _ = Slotted().f


def test_effects_of_a_function_called_by_another_happen_at_each_call() -> None:
    w = hr.Variable(0.0)

    @hr.function
    def inner(amount=1.0):
        w.assign_add(amount)

    @hr.function
    def outer(x):
        inner()
        inner(10.0)
        return x + w.read()

    assert [outer(0.5) for _ in range(3)] == [11.5, 22.5, 33.5]
    assert inner.explain_traces() == "not traced yet"


def test_effects_of_a_function_called_in_a_graph_happen_in_order_in_each_step_that_needs_it() -> None:
    w = hr.Variable(1.0)

    @hr.function
    def change(x):
        before = w.read()
        w.assign_add(x)
        w.assign(w.read() * 2.0)
        return before, [w.read(), None]

    @hr.function
    def reset():
        w.assign(1.0)

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        result = change(x)
        again = reset()
    session = hr.Session(graph)
    assert session.run(result, feeds={x: 3.0}) == (1.0, [8.0, None])
    assert session.run(result[0], feeds={x: 0.5}) == 8.0
    assert w.numpy() == 17.0
    assert session.run(again) is None
    assert w.numpy() == 1.0


def test_a_text_argument_is_not_taken_for_a_tensor() -> None:
    @hr.function
    def f(a, b):
        return a if isinstance(b, str) else b * 10.0

    assert [f("tensor", 3.0), f(3.0, "tensor")] == [30.0, 3.0]


def test_a_variable_may_be_made_in_the_first_trace_only() -> None:
    @hr.function
    def f(x, scale=1):
        w = hr.Variable(1.0)
        w.assign_add(x)
        return w.read()

    assert [f(1.0), f(1.0)] == [2.0, 3.0]
    with pytest.raises(hr.errors.InvalidArgumentError, match="makes a new variable(.|\n)*trace 2(.|\n)*float32"):
        f(1.0, 1.5)


def test_results_may_be_the_arguments_named_tuples_and_python_values() -> None:
    Pair = collections.namedtuple("Pair", "left right")

    @hr.function
    def f(x):
        return Pair(x, {"same": [x, x], "number": 2})

    given = np.ones(2, np.float32)
    result = f(given)
    assert type(result) is Pair
    assert result.right["number"] == 2
    result.left[:] = 5.0
    assert given.tolist() == result.right["same"][0].tolist() == result.right["same"][1].tolist() == [1.0, 1.0]


def test_a_tensor_of_another_graph_is_refused_by_name() -> None:
    with hr.Graph().as_default():
        outside = hr.constant(1.0, name="outside")

    @hr.function
    def f(x):
        return x + outside

    with pytest.raises(hr.errors.GraphError, match="'outside(:0)?' belongs to another graph"):
        f(1.0)


def test_threads_that_call_a_function_at_the_same_first_time_share_one_trace() -> None:
    calls: list[int] = []

    @hr.function
    def f(x):
        calls.append(1)
        return x * 2.0

    start = threading.Barrier(8)
    results: list[float] = []

    def work(number: int) -> None:
        start.wait()
        results.extend(float(f(float(number))) / 2.0 - number for _ in range(20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0.0] * 160
    assert len(calls) == 1


def test_a_python_bool_keeps_its_value_and_is_traced_for_each() -> None:
    layer = hr.layers.Sequential([hr.layers.Dropout(0.5)])

    @hr.function
    def apply(x, flags, training=False):
        return layer(x, training=training) + (1.0 if flags["shift"] else 0.0)

    ones = np.ones(64, np.float32)
    np.testing.assert_array_equal(apply(ones, {"shift": False}), ones)
    np.testing.assert_array_equal(apply(ones, {"shift": True}), ones + 1)
    assert set(np.unique(apply(ones, {"shift": False}, training=True))) == {0.0, 2.0}
    apply(ones, {"shift": True}, training=False)
    assert len(apply.explain_traces().splitlines()) == 3


def test_a_bool_of_numpy_is_a_tensor() -> None:
    choose = hr.function(lambda flag: hr.where(flag, 1.0, 2.0))
    assert (choose(np.True_), choose(np.False_)) == (1.0, 2.0)
    assert len(choose.explain_traces().splitlines()) == 1


def test_a_recursion_that_only_tensors_could_end_is_refused_where_it_is_traced() -> None:
    @hr.function
    def sum_down(x: hr.Tensor) -> hr.Tensor:
        return hr.cond(x < 1.0, lambda: x, lambda: x + sum_down(x - 1.0))

    message = r"'sum_down' calls itself without end(.|\n)*where:    test_function.py:\d+(.|\n)*hr.while_loop"
    with pytest.raises(hr.errors.UnimplementedError, match=message):
        sum_down(3.0)
    with hr.Graph().as_default(), pytest.raises(hr.errors.UnimplementedError, match=message):
        sum_down(hr.constant(3.0))


def test_a_recursion_that_python_values_end_is_traced() -> None:
    @hr.function
    def power(x: hr.Tensor, exponent: str) -> hr.Tensor:
        return x * power(x, exponent[1:]) if exponent else hr.ones([])

    assert power(3.0, "xxxx") == 81.0


def test_only_functions_are_decorated() -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="what hr.function decorates is no function"):
        hr.function(3)
