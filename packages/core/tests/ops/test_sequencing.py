"""Assertions and triggers."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def test_assertion_shows_its_data() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        check = hr.assert_true(hr.all(x > 0), ["x must be positive:", x, np.int32(7)])
        every = hr.assert_true(hr.all(x > 0), [x], summarize=-1)
        with hr.control_dependencies([check]):
            y = hr.identity(x)
    session = hr.Session(graph)
    assert session.run(y, feeds={x: [1, 2]}).tolist() == [1, 2]
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"x must be positive:, \[1.0 -2.0 3.0 \.\.\.\], 7"):
        session.run(y, feeds={x: [1, -2, 3, 4]})
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"\[1.0 -2.0 3.0 4.0\]"):
        session.run(every, feeds={x: [1, -2, 3, 4]})


def test_condition_must_be_a_scalar() -> None:
    with hr.Graph().as_default() as graph:
        with pytest.raises(hr.errors.ShapeError, match="condition must be a scalar"):
            hr.assert_true([True, True], [1])
        condition = hr.placeholder(hr.bool, None)
        check = hr.assert_true(condition, [1])
    with pytest.raises(hr.errors.ShapeError, match="condition must be a scalar"):
        hr.Session(graph).run(check, feeds={condition: [True, True]})


def test_assertion_runs_inside_a_function() -> None:
    @hr.function
    def positive(x: hr.Tensor) -> hr.Tensor:
        hr.assert_true(x > 0, [x])
        return x * 2

    assert positive(np.float32(2)) == 4
    with pytest.raises(hr.errors.InvalidArgumentError, match="assertion does not hold"):
        positive(np.float32(-2))


def test_trigger_runs_after_what_it_waits_for() -> None:
    with hr.Graph().as_default() as graph:
        count = hr.Variable(0)
        with hr.control_dependencies([count.assign_add(1)]):
            trigger = hr.apply_op("ControlTrigger")
    session = hr.Session(graph)
    session.run(trigger)
    assert session.run(count) == 1
