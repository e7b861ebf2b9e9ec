"""Cases of the elementary family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import in_float64, numbers

_INF, _NAN = np.inf, np.nan
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FLUSHED = "TensorFlow flushes denormals to zero"


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _by_math(function: Callable[[float], float]) -> Callable[..., Any]:
    """A function of Python's math module, element by element."""

    def apply(x: Any) -> Any:
        return np.array([function(float(item)) for item in np.reshape(x, -1)], np.float64).reshape(np.shape(x))

    return in_float64(apply)


def _digamma(x: float) -> float:
    """The slope of math.lgamma, by the recurrence up to where a short series is exact."""
    total = 0.0
    while x < 20:
        total -= 1 / x
        x += 1
    return total + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


# The function by Python's math module, and a range inside its domain and away from its edges.
_REAL: dict[str, tuple[Callable[..., Any], float, float]] = {
    "Sqrt": (_by_math(math.sqrt), 0.2, 9),
    "Rsqrt": (_by_math(lambda x: 1 / math.sqrt(x)), 0.2, 9),
    "Reciprocal": (_by_math(lambda x: 1 / x), 0.2, 9),
    "Inv": (_by_math(lambda x: 1 / x), 0.2, 9),
    "Exp": (_by_math(math.exp), -4, 4),
    "Expm1": (_by_math(math.expm1), -4, 4),
    "Log": (_by_math(math.log), 0.2, 9),
    "Log1p": (_by_math(math.log1p), -0.8, 9),
    "Sin": (_by_math(math.sin), -4, 4),
    "Cos": (_by_math(math.cos), -4, 4),
    "Tan": (_by_math(math.tan), -1.2, 1.2),
    "Asin": (_by_math(math.asin), -0.8, 0.8),
    "Acos": (_by_math(math.acos), -0.8, 0.8),
    "Atan": (_by_math(math.atan), -4, 4),
    "Sinh": (_by_math(math.sinh), -3, 3),
    "Cosh": (_by_math(math.cosh), -3, 3),
    "Tanh": (_by_math(math.tanh), -3, 3),
    "Asinh": (_by_math(math.asinh), -4, 4),
    "Acosh": (_by_math(math.acosh), 1.2, 9),
    "Atanh": (_by_math(math.atanh), -0.8, 0.8),
    "Sigmoid": (_by_math(lambda x: 1 / (1 + math.exp(-x))), -4, 4),
    "Erf": (_by_math(math.erf), -3, 3),
    "Erfc": (_by_math(math.erfc), -3, 3),
    "Lgamma": (_by_math(math.lgamma), 2.2, 9),
    "Digamma": (_by_math(_digamma), 2.2, 9),
}
_COMPLEX: dict[str, Callable[..., Any]] = {
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Reciprocal": lambda x: 1 / x,
    "Inv": lambda x: 1 / x,
    "Exp": np.exp,
    "Expm1": lambda x: np.exp(x) - 1,
    "Log": np.log,
    "Log1p": lambda x: np.log(1 + x),
    "Sin": lambda x: (np.exp(1j * x) - np.exp(-1j * x)) / 2j,
    "Cos": lambda x: (np.exp(1j * x) + np.exp(-1j * x)) / 2,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": lambda x: (np.exp(x) - np.exp(-x)) / 2,
    "Cosh": lambda x: (np.exp(x) + np.exp(-x)) / 2,
    "Tanh": np.tanh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
_SLOPES: dict[str, Callable[..., Any]] = {
    "TanhGrad": lambda y, dy: dy * (1 - y * y),
    "SigmoidGrad": lambda y, dy: dy * y * (1 - y),
    "SqrtGrad": lambda y, dy: dy / (2 * y),
    "RsqrtGrad": lambda y, dy: -dy * y**3 / 2,
    "ReciprocalGrad": lambda y, dy: -dy * y**2,
    "InvGrad": lambda y, dy: -dy * y**2,
}


def _conjugating(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda y, dy: function(np.conj(y), dy)


_UNARY_CASES = [
    *(
        OpCase(f"{op}/{dtype}", op, [numbers(dtype, 3, 5, low=low, high=high)], expected=function)
        for op, (function, low, high) in _REAL.items()
        for dtype in _FLOATS
    ),
    *(
        OpCase(f"{op}/{what}", op, [x], expected=function)
        for op, (function, low, high) in _REAL.items()
        for what, x in (
            ("empty", np.zeros([3, 0], np.float32)),
            ("scalar", numbers("float32", low=low, high=high)),
            ("odd size", numbers("float32", 33, low=low, high=high, seed=2)),
        )
    ),
    *(
        OpCase(f"{op}/{dtype}", op, [numbers(dtype, 3, 5, low=0.3, high=1.1)], expected=in_float64(function))
        for op, function in _COMPLEX.items()
        for dtype in ("complex64", "complex128")
    ),
    *(
        OpCase(
            f"{op}/{dtype}",
            op,
            [numbers(dtype, 3, 5, low=0.2, high=0.9), numbers(dtype, 3, 5, seed=1)],
            expected=in_float64(function),
        )
        for op, function in _SLOPES.items()
        for dtype in _FLOATS
    ),
    *(
        OpCase(
            f"{op}/complex64 takes y{' conjugated' if conjugated else ''}",
            op,
            [numbers("complex64", 5, low=0.2, high=0.9), numbers("complex64", 5, seed=1)],
            expected=in_float64(_conjugating(function) if conjugated else function),
        )
        for op, function in _SLOPES.items()
        for conjugated in [op not in ("TanhGrad", "SigmoidGrad")]
    ),
]

_EDGES = {
    "Sqrt": ([-1, -0.0, 0, _INF, _NAN], [_NAN, -0.0, 0, _INF, _NAN]),
    "Rsqrt": ([-1, 0, _INF, _NAN], [_NAN, _INF, 0, _NAN]),
    "Reciprocal": ([0, -0.0, _INF, -_INF, _NAN], [_INF, -_INF, 0, -0.0, _NAN]),
    "Exp": ([_INF, -_INF, _NAN, 100, -200], [_INF, 0, _NAN, _INF, 0]),
    "Expm1": ([_INF, -_INF, _NAN, 1e-10], [_INF, -1, _NAN, 1e-10]),
    "Log": ([0, -1, _INF, _NAN, 1], [-_INF, _NAN, _INF, _NAN, 0]),
    "Log1p": ([-1, -2, _INF, _NAN, 1e-10], [-_INF, _NAN, _INF, _NAN, 1e-10]),
    "Sin": ([_INF, -_INF, _NAN, 0], [_NAN, _NAN, _NAN, 0]),
    "Cos": ([_INF, -_INF, _NAN, 0], [_NAN, _NAN, _NAN, 1]),
    "Tan": ([_INF, -_INF, _NAN, 0], [_NAN, _NAN, _NAN, 0]),
    "Asin": ([1, -1, 1.5, _NAN], [math.pi / 2, -math.pi / 2, _NAN, _NAN]),
    "Acos": ([1, -1, 1.5, _NAN], [0, math.pi, _NAN, _NAN]),
    "Atan": ([_INF, -_INF, _NAN], [math.pi / 2, -math.pi / 2, _NAN]),
    "Sinh": ([_INF, -_INF, _NAN, 100], [_INF, -_INF, _NAN, _INF]),
    "Cosh": ([_INF, -_INF, _NAN, 100], [_INF, _INF, _NAN, _INF]),
    "Tanh": ([_INF, -_INF, _NAN, 50], [1, -1, _NAN, 1]),
    "Asinh": ([_INF, -_INF, _NAN], [_INF, -_INF, _NAN]),
    "Acosh": ([1, 0.5, _INF, _NAN], [0, _NAN, _INF, _NAN]),
    "Atanh": ([1, -1, 1.5, _NAN], [_INF, -_INF, _NAN, _NAN]),
    "Sigmoid": ([_INF, -_INF, _NAN, 200, -200], [1, 0, _NAN, 1, 0]),
    "Erf": ([_INF, -_INF, _NAN, 9, 0], [1, -1, _NAN, 1, 0]),
    "Erfc": ([_INF, -_INF, _NAN, 9, -9], [0, 2, _NAN, math.erfc(9), 2]),
    "Lgamma": ([0, -1, -2, _INF, _NAN, 1, 2], [_INF, _INF, _INF, _INF, _NAN, 0, 0]),
    "Digamma": ([0, -1, _INF, _NAN, 1], [_NAN, _NAN, _INF, _NAN, -0.5772156649015329]),
}

CASES = [
    *_UNARY_CASES,
    *(OpCase(f"{op}/edges", op, [_f32(*x)], expected=_f32(*y), differentiate=()) for op, (x, y) in _EDGES.items()),
    OpCase("Lgamma/negative", "Lgamma", [np.array([-0.5, -2.5, -9.3])], expected=_by_math(math.lgamma)),
    OpCase(
        "Lgamma/large and small",
        "Lgamma",
        [np.array([1e-30, 0.3, 30.0, 1e5])],
        expected=_by_math(math.lgamma),
        differentiate=(),
    ),
    OpCase(
        "Digamma/negative",
        "Digamma",
        [np.array([-0.5, -2.5])],
        expected=np.array([0.03648997397857652, 1.1031566406452432]),
    ),
    OpCase("Erfc/far out", "Erfc", [np.array([5.0, 10.0, 26.0])], expected=_by_math(math.erfc), differentiate=()),
    OpCase(
        "Reciprocal/integers",
        "Reciprocal",
        [np.array([1, -1, 2, -7], np.int32)],
        expected=np.array([1, -1, 0, 0], np.int32),
        oracle=False,
    ),
    OpCase(
        "Inv/integers",
        "Inv",
        [np.array([1, -1, 2, -7], np.int64)],
        expected=np.array([1, -1, 0, 0], np.int64),
        oracle=False,
    ),
    OpCase(
        "Reciprocal/O07 integer zero",
        "Reciprocal",
        [np.array([1, 0], np.int32)],
        raises="division by zero",
        oracle=False,
    ),
    OpCase("Inv/O07 integer zero", "Inv", [np.array([1, 0], np.int32)], raises="division by zero", oracle=False),
    OpCase(
        "Tanh/C11 never beyond 1", "Tanh", [np.arange(7, 9.1, 0.001).astype(np.float32)], expected=_by_math(math.tanh)
    ),
    OpCase(
        "Tanh/C11 bfloat16", "Tanh", [np.arange(3, 9.1, 0.01).astype(ml_dtypes.bfloat16)], expected=_by_math(math.tanh)
    ),
    OpCase("Log/C13 denormal", "Log", [_f32(1e-40)], expected=_f32(-92.1034), differentiate=(), deviation=_FLUSHED),
    OpCase(
        "Sqrt/C13 denormal",
        "Sqrt",
        [_f32(1e-40)],
        expected=np.sqrt(np.float64(_f32(1e-40))),
        differentiate=(),
    ),
    OpCase(
        "Rsqrt/C13 denormal",
        "Rsqrt",
        [_f32(1e-40)],
        expected=1 / np.sqrt(np.float64(_f32(1e-40))),
        differentiate=(),
        deviation=_FLUSHED,
    ),
    OpCase(
        "Sigmoid/large negative float64",
        "Sigmoid",
        [np.array([-700.0, -40.0])],
        expected=np.exp([-700.0, -40.0]),
        differentiate=(),
    ),
    OpCase(
        "Atan2/quadrants",
        "Atan2",
        [_f32(1, 1, -1, -1, 0.5), _f32(1, -1, -1, 1, 2)],
        expected=in_float64(lambda y, x: np.angle(x + 1j * y)),
    ),
    OpCase(
        "Atan2/broadcast float64",
        "Atan2",
        [numbers("float64", 3, 1), numbers("float64", 4, seed=1)],
        expected=in_float64(lambda y, x: np.angle(x + 1j * y)),
    ),
    OpCase(
        "Atan2/zeros and infinity",
        "Atan2",
        [_f32(0, -0.0, 0, _INF), _f32(-1, -1, 1, _INF)],
        expected=_f32(math.pi, -math.pi, 0, math.pi / 4),
        differentiate=(),
    ),
    *(
        OpCase(
            f"{op}/{dtype}",
            op,
            [numbers(dtype, 3, 1, low=0.5), numbers(dtype, 4, low=0.5, high=3, seed=1)],
            expected=in_float64(function),
        )
        for op, function in (("Xlogy", lambda x, y: x * np.log(y)), ("Xdivy", lambda x, y: x / y))
        for dtype in (*_FLOATS, "complex64")
    ),
    OpCase(
        "Xlogy/zero wins",
        "Xlogy",
        [_f32(0, 0, 0, 2), _f32(0, _NAN, -1, 0)],
        expected=_f32(0, 0, 0, -_INF),
        differentiate=(),
    ),
    OpCase(
        "Xdivy/zero wins",
        "Xdivy",
        [_f32(0, 0, 0, 2), _f32(0, _NAN, -1, 0)],
        expected=_f32(0, 0, 0, _INF),
        differentiate=(),
    ),
    OpCase(
        "Zeta/values",
        "Zeta",
        [np.array([2.0, 4.0, 1.5, 1.0, 0.5]), np.ones(5)],
        expected=np.array([math.pi**2 / 6, math.pi**4 / 90, 2.612375348685488, _INF, _NAN]),
        differentiate=(),
    ),
    OpCase(
        "Zeta/gradient by q",
        "Zeta",
        [np.float64(2.5), np.array([0.7, 3.2])],
        expected=np.array([2.9028675777573466, 0.14722726365956823]),
        differentiate=(1,),
    ),
    OpCase(
        "Polygamma/values",
        "Polygamma",
        [np.array([0.0, 1.0, 2.0, 1.5]), np.ones(4)],
        expected=np.array([-0.5772156649015329, math.pi**2 / 6, -2.4041138063191885, _NAN]),
        differentiate=(),
    ),
    OpCase(
        "Polygamma/gradient by x",
        "Polygamma",
        [np.float64(1), np.array([0.7, 3.2])],
        expected=np.array([2.8340491566946109, 0.36632119073140077]),
        differentiate=(1,),
    ),
]
