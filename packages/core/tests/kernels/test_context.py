"""What a kernel meets that asks for state where there is none: while constants are folded."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.kernels.context import NO_FUNCTIONS, NO_RESOURCES


def test_no_variable_is_given_while_folding() -> None:
    with pytest.raises(hr.errors.InternalError, match=r"variable 'w' was asked for while folding(.|\n)*stateful=True"):
        NO_RESOURCES.variable("", "w", hr.float32, hr.Shape([2]))


def test_no_state_is_given_while_folding() -> None:
    with pytest.raises(
        hr.errors.InternalError, match=r"state 'counter' was asked for while folding(.|\n)*stateful=True"
    ):
        NO_RESOURCES.lookup_or_create("counter", dict)


def test_a_kernel_with_undeclared_state_is_not_folded_but_runs_in_the_step() -> None:
    @hr.register_op("TestUndeclaredState", inputs=dict(x="T"), outputs=dict(y="T"))
    def shape(op):
        """x and how often it ran."""
        return [op.inputs[0].shape]

    @hr.register_kernel("TestUndeclaredState")
    def kernel(op, x):
        runs = op.resources.lookup_or_create((op.type, op.name), list)
        runs.append(x)
        return np.asarray(x + np.float32(len(runs)))

    with hr.Graph().as_default() as graph:
        y = hr.apply_op("TestUndeclaredState", hr.constant(1.0))
    session = hr.Session(graph)
    assert [float(session.run(y)) for _ in range(2)] == [2.0, 3.0]


def test_no_function_is_called_where_there_are_none() -> None:
    with pytest.raises(
        hr.errors.InternalError, match=r"function 'f' was called where there are none(.|\n)*Backend\.compile"
    ):
        NO_FUNCTIONS.compiled("f", [])
    with pytest.raises(hr.errors.InternalError, match="function 'g' was called where there are none"):
        NO_FUNCTIONS.segment("g", [])
