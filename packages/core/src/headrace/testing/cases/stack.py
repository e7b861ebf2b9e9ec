"""Cases of the StackV2 family; each makes its stacks, so that it gives the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

Apply = Callable[..., Any]

_ROW = np.array([7.0, -1.0], np.float32)


def _pushed(apply: Apply, a: Any, b: Any) -> Any:
    """Pushing gives what was pushed; tests of the order are in tests/ops/test_stack.py."""
    handle = apply("StackV2", np.int32(-1), elem_type=a.dtype)
    first = apply("StackPushV2", handle, a)
    second = apply("StackPushV2", handle, b + 0 * first, swap_memory=True)
    return [first, second]


def _more_than_it_takes(apply: Apply, a: Any, n: Any) -> Any:
    handle = apply("StackV2", n, elem_type=a.dtype)
    return apply("StackPushV2", handle, apply("StackPushV2", handle, a))


def _of_another_dtype(apply: Apply, a: Any, n: Any) -> Any:
    return apply("StackPushV2", apply("StackV2", n, elem_type="float64"), a)


def _popped_empty(apply: Apply, n: Any) -> Any:
    return apply("StackPopV2", apply("StackV2", n, elem_type="float32"), elem_type="float32")


def _popped_from_an_array(apply: Apply, n: Any) -> Any:
    handle, _ = apply("TensorArrayV3", n, dtype="float32")
    return apply("StackPopV2", handle, elem_type="float32")


def _case(
    what: str, op: str, build: Callable[..., Any], inputs: list[Any], expected: Any = None, **more: Any
) -> OpCase:
    return OpCase(f"{op}/{what}", op, inputs, expected=expected, build=build, **more)


CASES = [
    _case("what is pushed", "StackPushV2", _pushed, [_ROW, _ROW * 2], (_ROW, _ROW * 2)),
    _case("full", "StackPushV2", _more_than_it_takes, [_ROW, np.int32(1)], raises=r"the stack is full"),
    _case(
        "another dtype",
        "StackPushV2",
        _of_another_dtype,
        [_ROW, np.int32(1)],
        raises=r"the stack has elements of another dtype",
    ),
    _case("empty", "StackPopV2", _popped_empty, [np.int32(1)], raises=r"the stack is empty"),
    _case(
        "another kind of handle",
        "StackPopV2",
        _popped_from_an_array,
        [np.int32(1)],
        raises=r"the handle is not that of a stack",
    ),
]
