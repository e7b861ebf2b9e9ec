"""Stacks that live in a step."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def test_last_in_first_out_in_each_step_anew() -> None:
    with hr.Graph().as_default() as graph:
        handle = hr.apply_op("StackV2", 2, elem_type=hr.float32)
        x = hr.placeholder(hr.float32, [2])
        first = hr.apply_op("StackPushV2", handle, x)
        with hr.control_dependencies([first]):
            second = hr.apply_op("StackPushV2", handle, x + x)
        with hr.control_dependencies([second]):
            top = hr.apply_op("StackPopV2", handle, elem_type=hr.float32)
        with hr.control_dependencies([top]):
            bottom = hr.apply_op("StackPopV2", handle, elem_type=hr.float32)
    session = hr.Session(graph)
    for number in (1, 5):
        values = session.run([top, bottom], feeds={x: np.full(2, number, np.float32)})
        np.testing.assert_array_equal(values, [[2 * number] * 2, [number] * 2])


def test_a_closed_stack_is_not_used() -> None:
    with hr.Graph().as_default() as graph:
        handle = hr.apply_op("StackV2", -1, elem_type=hr.float32)
        with hr.control_dependencies([hr.apply_op("StackCloseV2", handle)]):
            pushed = hr.apply_op("StackPushV2", handle, 1.0)
    with pytest.raises(hr.errors.FailedPreconditionError, match="the stack is closed"):
        hr.Session(graph).run(pushed)
