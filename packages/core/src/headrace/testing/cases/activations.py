"""Cases of the element-wise nonlinearities. What must come out is computed in float64 from the textbook form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16


def _f32(values: Any) -> Array:
    return np.array(values, np.float32)


def _f64(values: Any) -> Array:
    return np.array(values, np.float64)


def _i32(values: Any) -> Array:
    return np.array(values, np.int32)


_BFLOAT16 = bfloat16.array_type
_NAN, _INF = np.nan, np.inf

_X = np.array([[-3.5, -1.0, -0.25], [0.5, 2.0, 7.5]], np.float32)
_G = np.array([[1.0, -2.0, 0.5], [3.0, -0.25, 1.5]], np.float32)
_EDGES = np.array([_NAN, _INF, -_INF, 0.0, -1e-30, 1e-30, -100.0, 100.0], np.float32)
_LONG = np.linspace(-4, 4, 33, dtype=np.float32)  # body and tail of vector loops
_SCALE, _ALPHA = 1.0507009873554804934, 1.6732632423543772848

Reference = Callable[..., Array]


def _wide(function: Reference) -> Reference:
    def reference(*inputs: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(*(np.asarray(item, np.float64) for item in inputs))

    return reference


def _relu(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.where(x > 0, x, 0))


def _relu6(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.clip(x, 0, 6))


def _leaky(alpha: float) -> Reference:
    return lambda x: np.where(x > 0, x, alpha * x)


def _elu(x: Array) -> Array:
    return np.where(x >= 0, x, np.exp(x) - 1)


def _selu(x: Array) -> Array:
    return _SCALE * np.where(x >= 0, x, _ALPHA * (np.exp(x) - 1))


def _softplus(x: Array) -> Array:
    return np.where(x > 50, x, np.log1p(np.exp(np.minimum(x, 50))))


def _softsign(x: Array) -> Array:
    return np.asarray(x / (1 + np.abs(x)))


_FUNCTIONS: dict[str, Reference] = {
    "Relu": _relu,
    "Relu6": _relu6,
    "LeakyRelu": _leaky(float(np.float32(0.2))),
    "Elu": _elu,
    "Selu": _selu,
    "Softplus": _softplus,
    "Softsign": _softsign,
}
_GRADIENTS: dict[str, Reference] = {
    "ReluGrad": lambda g, x: g * (x > 0),
    "Relu6Grad": lambda g, x: g * ((x > 0) & (x < 6)),
    "LeakyReluGrad": lambda g, x: g * np.where(x > 0, 1, float(np.float32(0.2))),
    "EluGrad": lambda g, y: g * np.where(y < 0, y + 1, 1),
    "SeluGrad": lambda g, y: g * np.where(y < 0, y + _SCALE * _ALPHA, _SCALE),
    "SoftplusGrad": lambda g, x: g / (1 + np.exp(-x)),
    "SoftsignGrad": lambda g, x: g / (1 + np.abs(x)) ** 2,
}


def _function_cases(op: str, reference: Reference) -> list[OpCase]:
    expected = _wide(reference)
    edges = (
        _EDGES if op != "Softsign" else _EDGES[[0, 3, 4, 5, 6, 7]]
    )  # its form, x / (1 + |x|), has no value at infinity
    return [
        OpCase(f"{op}/matrix", op, [_X], expected=expected),
        OpCase(f"{op}/C01 edges", op, [edges], expected=expected, differentiate=()),  # NaN, infinities and kinks
        OpCase(f"{op}/33 elements", op, [_LONG + np.float32(0.01)], expected=expected),
        OpCase(f"{op}/scalar", op, [np.float64(1.25)], expected=expected),
        OpCase(f"{op}/empty", op, [np.zeros((2, 0, 3), np.float32)], expected=expected),
        OpCase(f"{op}/float16", op, [_X.astype(np.float16)], expected=expected),
        OpCase(f"{op}/bfloat16", op, [_X.astype(_BFLOAT16)], expected=expected),
        OpCase(f"{op}/float64", op, [_X.astype(np.float64)], expected=expected),
    ]


def _gradient_cases(op: str, reference: Reference) -> list[OpCase]:
    expected = _wide(reference)
    by_outputs = op in ("EluGrad", "SeluGrad")
    points = _f32([[-0.9, -0.5, -0.1], [0.5, 2.0, 7.5]]) if by_outputs else _X
    return [
        OpCase(f"{op}/matrix", op, [_G, points], expected=expected),
        OpCase(f"{op}/at the kinks", op, [np.ones(2, np.float32), _f32([0, 6])], expected=expected, differentiate=()),
        OpCase(f"{op}/scalar", op, [np.float64(2), np.float64(0.75)], expected=expected),
        OpCase(f"{op}/empty", op, [np.zeros((0, 3), np.float32)] * 2, expected=expected),
        OpCase(f"{op}/float16", op, [_G.astype(np.float16), points.astype(np.float16)], expected=expected),
        OpCase(f"{op}/bfloat16", op, [_G.astype(_BFLOAT16), points.astype(_BFLOAT16)], expected=expected),
        OpCase(f"{op}/shapes differ", op, [_G, _X[0]], raises="two shapes contradict each other|do not fit together"),
    ]


def _case(name: str, op: str, inputs: list[Any], expected: Any, **options: Any) -> OpCase:
    return OpCase(f"{op}/{name}", op, inputs, expected=expected, **options)


def _normal(x: Array) -> Array:
    return np.array([0.5 * math.erfc(-float(item) / 2**0.5) for item in x.reshape(-1)]).reshape(x.shape)


def _gelu(x: Array) -> Array:
    return x * _normal(x)


def _gelu_grad(g: Array, x: Array) -> Array:
    return np.asarray(g * (_normal(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _gelu_tanh_grad(g: Array, x: Array) -> Array:
    step = 1e-6
    return np.asarray(g * (_gelu_tanh(x + step) - _gelu_tanh(x - step)) / (2 * step))


_GELU = [
    OpCase(f"{op}/{dtype} {label}", op, [item.astype(dtype) for item in inputs], attrs, expected=_wide(reference))
    for op, label, inputs, attrs, reference in (
        ("Gelu", "exact", [_X], {}, _gelu),
        ("Gelu", "exact long", [_LONG], {}, _gelu),
        ("Gelu", "approximate", [_X], {"approximate": True}, _gelu_tanh),
        ("GeluGrad", "exact", [_G, _X], {}, _gelu_grad),
        ("GeluGrad", "approximate", [_G, _X], {"approximate": True}, _gelu_tanh_grad),
    )
    for dtype in ("float16", "float32", *(["float64"] if "tanh_grad" not in reference.__name__ else []))
]
_ORDERED = np.array([-128, -1, 0, 3, 127], np.int8)

CASES = [
    *(case for op, reference in _FUNCTIONS.items() for case in _function_cases(op, reference)),
    *(case for op, reference in _GRADIENTS.items() for case in _gradient_cases(op, reference)),
    *_GELU,
    _case("int8", "Relu", [_ORDERED], np.array([0, 0, 0, 3, 127], np.int8)),
    _case("uint64", "Relu", [np.array([0, 2**64 - 1], np.uint64)], lambda x: x),
    _case("int8", "Relu6", [_ORDERED], np.array([0, 0, 0, 3, 6], np.int8)),
    _case("int32", "ReluGrad", [_i32([5, -7, 9]), _i32([1, 0, -1])], _i32([5, 0, 0])),
    _case("int32", "Relu6Grad", [_i32([5, -7, 9]), _i32([1, 6, 5])], _i32([5, 0, 9])),
    # At features that are NaN TensorFlow's mask is false; where it is false the gradient is multiplied by 0.
    _case(
        "NaN and infinite gradients",
        "ReluGrad",
        [_f32([_INF, _NAN, 1, 1]), _f32([-1, -1, _NAN, 2])],
        _f32([_NAN, _NAN, 0, 1]),
        differentiate=(),
    ),
    _case(
        "NaN and infinite gradients",
        "Relu6Grad",
        [_f32([_INF, _NAN, 1, 1]), _f32([-1, 7, _NAN, 2])],
        _f32([_NAN, _NAN, 0, 1]),
        differentiate=(),
    ),
    _case(
        "NaN", "LeakyReluGrad", [_f32([_INF, _NAN, 1]), _f32([-1, -1, _NAN])], _f32([_INF, _NAN, 0.2]), differentiate=()
    ),
    _case("slope 2", "LeakyRelu", [_X], lambda x: np.where(x > 0, x, 2 * x), attrs={"alpha": 2.0}),
    _case("slope 0", "LeakyRelu", [_X], lambda x: np.where(x > 0, x, 0), attrs={"alpha": 0.0}),
    _case("slope 2", "LeakyReluGrad", [_G, _X], lambda g, x: np.where(x > 0, g, 2 * g), attrs={"alpha": 2.0}),
    _case("G09 value", "Elu", [_f64([-1.0])], _f64([-0.6321205588285577])),
    _case("far from 0", "Softplus", [_f32([-200, -20, 20, 200])], _f32([0, 2.0611537e-09, 20, 200])),
    _case(
        "far from 0",
        "SoftplusGrad",
        [np.ones(4, np.float32), _f32([-200, -20, 20, 200])],
        _f32([0, 2.0611537e-09, 1, 1]),
    ),
    _case("far from 0", "Softsign", [_f32([-3e38, 3e38])], _f32([-1, 1])),
    _case(
        "far from 0",
        "SoftsignGrad",
        [np.ones(3, np.float32), _f32([-3e38, _INF, _NAN])],
        _f32([0, 0, _NAN]),
        differentiate=(),
    ),
]
