"""Cases of optionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

Apply = Callable[..., Any]

_ROW = np.array([7.0, -1.0], np.float32)


def _case(
    what: str, op: str, build: Callable[..., Any], inputs: list[Any], expected: Any = None, **more: Any
) -> OpCase:
    return OpCase(f"{op}/{what}", op, inputs, expected=expected, build=build, **more)


def _get(apply: Apply, optional: Any, *dtypes: Any, shapes: Any = None) -> Any:
    open_shapes = [(None,)] * len(dtypes)
    return apply("OptionalGetValue", optional, output_types=list(dtypes), output_shapes=shapes or open_shapes)


def _square_and_sum(apply: Apply, a: Any, b: Any) -> Any:
    optional = apply("OptionalFromValue", [a * a, b])
    return _get(apply, optional, a.dtype, b.dtype)


def _has(apply: Apply, a: Any) -> Any:
    return [
        apply("OptionalHasValue", optional)
        for optional in (
            apply("OptionalFromValue", [a]),
            apply("OptionalNone"),
            apply("ZerosLike", apply("OptionalNone")),
        )
    ]


def _added(apply: Apply, a: Any, b: Any) -> Any:
    optionals = [apply("OptionalFromValue", [a]), apply("OptionalFromValue", [b])]
    nothing = apply("AddN", [apply("OptionalNone"), apply("OptionalNone")])
    return [*_get(apply, apply("AddN", optionals), a.dtype), apply("OptionalHasValue", nothing)]


def _in_a_list(apply: Apply, a: Any) -> Any:
    empty = apply("EmptyTensorList", np.int32(-1), np.int32(-1), element_dtype="variant")
    pushed = apply("TensorListPushBack", empty, apply("OptionalFromValue", [a * a]))
    _, popped = apply("TensorListPopBack", pushed, np.int32(-1), element_dtype="variant")
    return _get(apply, popped, a.dtype)


CASES = [
    _case("two tensors", "OptionalFromValue", _square_and_sum, [_ROW, _ROW[:1]], (_ROW**2, _ROW[:1])),
    _case("in a list", "OptionalFromValue", _in_a_list, [_ROW], (_ROW**2,)),
    _case("holds something or not", "OptionalHasValue", _has, [_ROW], (np.True_, np.False_, np.False_)),
    _case("nothing", "OptionalNone", _has, [_ROW], (np.True_, np.False_, np.False_)),
    _case(
        "one of two used",
        "OptionalGetValue",
        lambda apply, a, b: [_square_and_sum(apply, a, b)[0]],
        [_ROW, _ROW[:1]],
        (_ROW**2,),
    ),
    _case(
        "of nothing",
        "OptionalGetValue",
        lambda apply, a: [a + part for part in _get(apply, apply("OptionalNone"), a.dtype)],
        [_ROW],
        raises=r"the optional holds nothing",
    ),
    _case(
        "another dtype",
        "OptionalGetValue",
        lambda apply, a: _get(apply, apply("OptionalFromValue", [a]), "float64"),
        [_ROW],
        raises=r"the optional holds tensors of other dtypes",
    ),
    _case(
        "another shape",
        "OptionalGetValue",
        lambda apply, a: _get(apply, apply("OptionalFromValue", [a]), a.dtype, shapes=[(3,)]),
        [_ROW],
        raises=r"a component of the optional has another shape",
    ),
    _case(
        "shapes for one only",
        "OptionalGetValue",
        lambda apply, a: _get(apply, apply("OptionalFromValue", [a, a]), a.dtype, a.dtype, shapes=[(2,)]),
        [_ROW],
        raises=r"output_types and output_shapes differ in number",
    ),
    _case(
        "a list",
        "OptionalGetValue",
        lambda apply, a: _get(apply, apply("TensorListFromTensor", a, np.int32(-1)), a.dtype),
        [_ROW],
        raises=r"the value is no optional",
    ),
    _case("optionals", "AddN", _added, [_ROW, _ROW * 2], (_ROW * 3, np.False_)),
    _case(
        "an optional and nothing",
        "AddN",
        lambda apply, a: apply(
            "OptionalHasValue", apply("AddN", [apply("OptionalFromValue", [a]), apply("OptionalNone")])
        ),
        [_ROW],
        raises=r"only optionals that hold the same can be added",
    ),
    _case(
        "an optional",
        "ZerosLike",
        lambda apply, a: _get(apply, apply("ZerosLike", apply("OptionalFromValue", [a])), a.dtype),
        [_ROW],
        (0 * _ROW,),
        differentiate=(),  # it has no gradient
    ),
]
