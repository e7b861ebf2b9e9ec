"""Function bodies: what they capture, and the library that holds them."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.functions import Body, Captures
from headrace.types import TensorSpec


def _body(graph: hr.Graph, name: str = "f") -> Body:
    return Body(name, outer=graph, captures=Captures(0))


def test_a_tensor_of_the_graph_around_is_captured_once() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2], name="x")
        body = _body(graph)
        with body.as_default():
            y = x * x + hr.sin(x)
    assert body.captures.tensors == (x,)
    assert [tensor.spec for tensor in body.arguments.values()] == [x.spec]
    assert y.graph is body
    assert y.shape == hr.Shape([2])


def test_a_tensor_is_captured_through_every_function_around() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [], name="x")
        outer = _body(graph, "outer")
        with outer.as_default():
            inner = _body(outer, "inner")
            with inner.as_default():
                hr.negative(x)
    assert outer.captures.tensors == (x,)
    assert inner.captures.tensors == (outer.arguments[0],)


def test_integer_constants_are_copied_so_that_shapes_follow_from_them() -> None:
    with hr.Graph().as_default() as graph:
        shape = hr.constant([2, 3])
        body = _body(graph)
        with body.as_default():
            zeros = hr.zeros(shape)
            hr.zeros(shape)
    assert zeros.shape == hr.Shape([2, 3])
    assert body.captures.tensors == ()
    assert sum(op.type == "Const" and op.attrs["value"].shape == (2,) for op in body.operations) == 1


def test_functions_of_one_operation_share_the_order_of_arguments() -> None:
    with hr.Graph().as_default() as graph:
        a, b, c = (hr.placeholder(hr.float32, [], name=name) for name in "abc")
        captures = Captures(0)
        first, second = (Body(name, outer=graph, captures=captures) for name in ("first", "second"))
        with first.as_default():
            one = a + b
        with second.as_default():
            other = c * b
        first.complete([one])
        second.complete([other])
    assert captures.tensors == (a, b, c)
    for body in (first, second):
        assert [body.arguments[index].op.attrs["index"] for index in range(3)] == [0, 1, 2]


def test_a_handle_that_is_captured_tells_what_variable_it_is() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.zeros((2, 3), np.float32), name="v")
        body = _body(graph)
        with body.as_default():
            read = v.read()
    assert read.spec == TensorSpec(hr.float32, hr.Shape([2, 3]))
    assert body.captures.tensors == (v.handle,)


def test_a_variable_made_in_a_function_lives_in_the_graph_around_and_gets_its_initial_value() -> None:
    made: list[hr.Variable] = []

    def branch() -> hr.Tensor:
        made.append(hr.Variable(hr.ones([2]) * 3.0, name="made"))
        return made[0].read()

    with hr.Graph().as_default() as graph:
        y = hr.cond(hr.placeholder(hr.bool, [], name="p"), branch, lambda: hr.zeros([2]))
    assert made[0].handle.graph is graph
    np.testing.assert_array_equal(hr.Session(graph).run(y, feeds={"p:0": True}), [3, 3])


def test_a_variable_cannot_start_from_what_differs_from_iteration_to_iteration() -> None:
    def body(i: hr.Tensor) -> hr.Tensor:
        return i + hr.Variable(i * 2, name="v")

    with hr.Graph().as_default(), pytest.raises(hr.errors.GraphError, match="differs from one call(.|\n)*argument 0"):
        hr.while_loop(lambda i: i < 3, body, [0])


def test_a_variable_of_the_process_is_reached_from_a_function() -> None:
    v = hr.Variable(np.float32(4.0), name="process")
    with hr.Graph().as_default() as graph:
        y = hr.cond(hr.placeholder(hr.bool, [], name="p"), lambda: v * 2.0, lambda: 0.0)
    assert hr.Session(graph).run(y, feeds={"p:0": True}) == 8.0


def test_a_foreign_tensor_is_refused() -> None:
    with hr.Graph().as_default():
        foreign = hr.constant(1.0, name="foreign")
    with hr.Graph().as_default() as graph, _body(graph).as_default() as body:
        with pytest.raises(hr.errors.GraphError, match="'foreign:0' belongs to another graph"):
            hr.convert_to_tensor(foreign)
        with pytest.raises(hr.errors.GraphError, match="'foreign' belongs to another graph"):
            body.create_op("Neg", [foreign])


def test_a_function_that_is_complete_does_not_change() -> None:
    with hr.Graph().as_default() as graph:
        body = _body(graph)
        with body.as_default():
            one = hr.constant(1.0)
        body.complete([one])
        with body.as_default(), pytest.raises(hr.errors.GraphError, match="finalized"):
            hr.constant(2.0)


def test_names_in_a_library_are_unique() -> None:
    library = FunctionLibrary()
    assert not library
    assert [library.unique_name("f"), library.unique_name("f"), library.unique_name("f")] == ["f", "f_1", "f_2"]
    Body("g", functions=library).complete([])
    with pytest.raises(hr.errors.GraphError, match="two functions are named 'g'"):
        library.add(Body("g", functions=library))
    with pytest.raises(hr.errors.NotFoundError, match="no function 'h'(.|\n)*one of: g"):
        library["h"]
