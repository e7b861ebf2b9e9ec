"""hr.debug.check_numerics: the operation, its line, the first bad element and what made it, in steps and updates."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError


def line_of_caller() -> int:
    return sys._getframe(1).f_lineno


def checked(graph: hr.Graph) -> hr.Session:
    return hr.Session(graph, config=hr.debug.check_numerics())


def test_d17_names_the_operation_its_line_the_place_and_the_inputs():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2, 2], name="x")
        y = hr.log(x, name="y"); line = line_of_caller()  # fmt: skip # noqa: E702
        total = hr.sum(y * 0.5)
    with pytest.raises(InvalidArgumentError) as caught:
        checked(graph).run(total, feeds={x: [[1, 1], [1, 0]]})
    error = caught.value
    assert error.what == "output 'y:0' became -inf"
    assert error.where == f"Log 'y' created at test_debug.py:{line}"
    assert error.got == "1 of 4 elements not finite, the first at [1, 1]; its inputs are finite: 'x:0' 0.0"


def test_d17_names_the_first_bad_input_where_one_was_bad_already():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2], name="x")
        y = 2.0 * x
    with pytest.raises(InvalidArgumentError, match=r"first bad input is number 1, 'x:0', with nan at \[1\]"):
        checked(graph).run(y, feeds={x: [1.0, np.nan]})


def test_d17_the_first_of_several_bad_operations_is_named():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [], name="x")
        first = hr.divide(1.0, x, name="first")
        last = hr.exp(hr.sqrt(-first), name="last")
    with pytest.raises(InvalidArgumentError, match="'first:0' became inf"):
        checked(graph).run(last, feeds={x: 0.0})


@pytest.mark.parametrize("sparse", [False, True])
def test_d17_works_in_updates(sparse):
    """The gradient is finite; the update overflows, and nothing reads the variable in this step."""
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.full([2, 2], 3e38, np.float32), name="weights")
        change = hr.constant(3e38, shape=[1, 2] if sparse else [2, 2])
        step = hr.apply_op("ResourceScatterAdd", v.handle, [1], change) if sparse else v.assign_add(change)
    session = checked(graph)
    with pytest.raises(InvalidArgumentError, match="variable 'weights' became inf") as caught:
        session.run(step)
    assert ("ResourceScatterAdd" if sparse else "AssignAddVariableOp") in str(caught.value.where)


def test_d17_works_in_the_updates_of_an_optimizer():
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.array([1.0, 0.0], np.float32), name="weights")
        step = hr.optim.SGD(0.1).minimize(hr.sum(hr.sqrt(v)))
    with pytest.raises(InvalidArgumentError, match="not finite, the first at"):
        checked(graph).run(step)


def test_skip_lets_operations_pass():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        y = hr.where(x > 0, hr.log(x, name="harmless/log"), 0.0)
    with hr.Session(graph, config=hr.debug.check_numerics(skip=["harmless/*"])) as session:
        assert session.run(y, feeds={x: [0.0, 1.0]}).tolist() == [0.0, 0.0]


def test_values_are_the_same_and_other_sessions_are_not_concerned():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [3])
        y = hr.nn.softmax(hr.exp(x))
        z = hr.log(x)
    given = np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_array_equal(checked(graph).run(y, feeds={x: given}), hr.Session(graph).run(y, feeds={x: given}))
    assert np.isneginf(hr.Session(graph).run(z, feeds={x: 0 * given})).all()


def test_works_inside_a_traced_function():
    with hr.debug.check_numerics():

        @hr.function
        def f(x):
            return hr.log(x)

        assert f(np.float32(1.0)) == 0.0
        with pytest.raises(InvalidArgumentError, match="became -inf"):
            f(np.float32(0.0))


def test_integers_and_strings_are_left_alone():
    with hr.Graph().as_default() as graph:
        n = hr.sum(hr.constant([1, 2]) * 2)
        s = hr.strings.join([hr.constant("a"), hr.constant("b")])
    assert checked(graph).run([n, s])[0] == 6


def test_d17_names_the_iteration_of_a_loop():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        _, last = hr.while_loop(lambda n, y: n < 6, lambda n, y: (n + 1, hr.log(y, name="shrink")), [0, x])
    with pytest.raises(InvalidArgumentError, match="became nan") as caught:
        checked(graph).run(last, feeds={x: 2.0})
    assert "Log" in str(caught.value.where)
    assert any("iteration 2" in note for note in caught.value.__notes__)


def test_d17_names_the_iteration_of_a_loop_over_several_devices():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])

        def body(n, y):
            with hr.device("CPU:1"):
                return n + 1, hr.log(y, name="shrink")

        with hr.device("CPU:0"):
            _, last = hr.while_loop(lambda n, y: n < 6, body, [0, x])
    with hr.config(virtual_devices={"CPU": 2}):
        session = checked(graph)
    with pytest.raises(InvalidArgumentError, match="became nan") as caught:
        session.run(last, feeds={x: 2.0})
    assert "Log" in str(caught.value.where)
    assert any(note.startswith("in iteration") and note.endswith(":2") for note in caught.value.__notes__)


def test_d17_works_in_updates_inside_of_loops_and_leaves_queues_alone():
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.float32(1e30), name="weights")
        queue = hr.FIFOQueue(3, hr.float32, shapes=[[]])
        with hr.control_dependencies([queue.enqueue(np.float32(np.nan))]):
            waiting = queue.size()

        def body(n):
            with hr.control_dependencies([v.assign(v.read() * 1e6)]):
                return n + 1

        count = hr.while_loop(lambda n: n < 6, body, [0])
    session = checked(graph)
    assert session.run(waiting) == 1
    with pytest.raises(InvalidArgumentError, match="became inf"):
        session.run(count)
