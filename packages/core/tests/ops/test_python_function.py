"""Python functions as operations."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError
from headrace.ops import python_function
from headrace.testing import check_gradient


def test_results_dtypes_and_shapes():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        low, count = hr.py_function(lambda a: (a.min(), np.int64(a.size)), [x], [hr.float32, hr.int64], shapes=[[], []])
        text = hr.py_function(lambda a: b"%d" % a.size, [x], hr.string)
    assert low.shape == []
    assert text.shape.rank is None
    values = hr.Session(graph).run([low, count, text], feeds={x: [3.0, 1.0]})
    assert [value.item() for value in values] == [1.0, 2, b"2"]


def test_runs_for_its_effect_alone():
    seen = []
    with hr.Graph().as_default() as graph:
        done = hr.py_function(seen.append, [hr.constant(5)], [])
        with hr.control_dependencies([next(op for op in graph.operations if op.type == "PyFunc")]):
            y = hr.identity(1)
    assert done == ()
    hr.Session(graph).run(y)
    assert [int(value) for value in seen] == [5]


def test_gradient_given_by_the_user():
    def build(xs):
        return [
            hr.py_function(
                lambda a, b: a * a * b,
                xs,
                hr.float64,
                shapes=[2],
                gradient=lambda a, b, g: (2 * a * b * g, a * a * g),
            )
        ]

    check_gradient(build, [[1.0, 2.0], [3.0, -1.0]], second_order=False)


def test_none_in_a_gradient_is_zero_and_no_gradient_is_a_constant():
    with hr.Graph().as_default() as graph:
        x, y = hr.constant(2.0), hr.constant(3.0)
        z = hr.py_function(lambda a, b: a * b, [x, y], hr.float32, gradient=lambda a, b, g: (b * g, None))
        dx, dy = hr.gradients(z, [x, y])
        assert hr.gradients(hr.py_function(np.square, [x], hr.float32), [x]) == [None]
    assert hr.Session(graph).run([dx, dy]) == [3.0, 0.0]


@pytest.mark.parametrize(
    ("function", "dtypes", "shapes", "text"),
    [
        (lambda a: (a, a), [hr.float32], None, "another number of results"),
        (lambda a: None, hr.float32, None, "another dtype|another number"),
        (lambda a: a.astype(np.float64), hr.float32, None, "another dtype"),
        (lambda a: "text", hr.float32, None, "another dtype"),
        (lambda a: a, hr.float32, [3], "another shape"),
    ],
)
def test_wrong_results_are_named(function, dtypes, shapes, text):
    with hr.Graph().as_default() as graph:
        y = hr.py_function(function, [hr.constant([1.0, 2.0])], dtypes, shapes=shapes)
    with pytest.raises(InvalidArgumentError, match=text):
        hr.Session(graph).run(y)


def test_a_wrong_number_of_gradients_is_named():
    with hr.Graph().as_default() as graph:
        x = hr.constant(2.0)
        (dx,) = hr.gradients(hr.py_function(np.square, [x], hr.float32, gradient=lambda a, g: (g, g)), [x])
    with pytest.raises(InvalidArgumentError, match="gradient of a Python function gave another number"):
        hr.Session(graph).run(dx)


def test_shapes_of_another_number_are_refused():
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match="differ in number"):
        hr.py_function(np.square, [1.0], [hr.float32], shapes=[[], []])
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match="py_function was given is no function"):
        hr.py_function(2.0, [1.0], hr.float32)


def test_inputs_cannot_be_written_to():
    def scribble(a):
        a[0] = 9
        return a

    with hr.Graph().as_default() as graph:
        y = hr.py_function(scribble, [hr.constant([1.0])], hr.float32)
    with pytest.raises(ValueError, match="read-only"):
        hr.Session(graph).run(y)


def test_an_error_of_the_function_reaches_the_caller_with_the_operation():
    def fail(a):
        raise KeyError("mine")

    with hr.Graph().as_default() as graph:
        y = hr.py_function(fail, [1.0], hr.float32, name="failing")
    with pytest.raises(KeyError, match="mine") as caught:
        hr.Session(graph).run(y)
    assert any("failing" in note for note in caught.value.__notes__)


def test_the_function_lives_as_long_as_its_graph():
    graph = hr.Graph()
    with graph.as_default():
        y = hr.py_function(np.square, [2.0], hr.float32)
    token = y.op.attrs["token"]
    gc.collect()
    assert hr.Session(graph).run(y) == 4.0
    assert token in python_function._functions
    del graph, y
    gc.collect()
    assert token not in python_function._functions


def test_a_token_of_another_program_is_refused_with_the_way_out():
    with hr.Graph().as_default() as graph:
        (y,) = hr.apply_op("PyFunc", [1.0], token="pyfunc_0", Tin=[hr.float32], Tout=[hr.float32])
    with pytest.raises(NotFoundError, match="feed the output of the operation"):
        hr.Session(graph).run(y)
    with pytest.raises(NotFoundError, match="not in this program"):
        hr.gradients(y, [y.op.inputs[0]])


def test_works_inside_a_traced_function():
    @hr.function
    def f(x):
        return hr.py_function(np.sqrt, [x], hr.float32) + 1

    assert f(np.float32(4)) == 3
