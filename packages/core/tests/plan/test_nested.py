"""The bodies of functions as segments, for backends that compile them with the operation that calls them."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.config import Config
from headrace.plan.nested import NestedPlans
from headrace.plan.numpy_backend import NumpyBackend
from headrace.runtime.resources import ResourceManager
from headrace.types import Shape


def _functions() -> tuple[NestedPlans, str, str]:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [3])
        loop = hr.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s * 2.0), (0, x))[0].op
    plans = NestedPlans(graph.functions, NumpyBackend(), ResourceManager(), Config())
    return plans, loop.attrs["cond"].name, loop.attrs["body"].name


def test_a_segment_is_what_would_be_compiled_and_is_made_once() -> None:
    plans, condition, body = _functions()
    shapes = [Shape([]), Shape([3])]
    segment, functions = plans.segment(body, shapes, condition)
    assert [op.type for op in segment.operations if op.type.startswith("_Ret")] == ["_Retval"] * 3
    assert plans.segment(body, shapes, condition)[0] is segment
    compiled = NumpyBackend().compile(segment, ResourceManager(), functions)
    number, doubled, goes_on = compiled([np.int32(3), np.ones(3, np.float32)])
    assert (int(number), doubled.tolist(), bool(goes_on)) == (4, [2.0] * 3, False)
    assert [tensor.shape for tensor in plans.segment(condition, shapes)[0].operations[0].outputs] == [Shape([])]


def test_a_function_that_is_not_there_has_no_segment() -> None:
    plans, _, _ = _functions()
    with pytest.raises(hr.errors.NotFoundError, match="nobody"):
        plans.segment("nobody", [])
