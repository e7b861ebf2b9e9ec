"""Cases of the math family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import in_float64, in_integers, numbers

_INF, _NAN = np.inf, np.nan
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_SIGNED = _INTEGERS[:4]
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex64", "complex128")


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _int_quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _int_remainder(x: int, y: int) -> int:
    return x - _int_quotient(x, y) * y


_FLOAT_BINARY: dict[str, Callable[..., Any]] = {
    "AddV2": np.add,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "MulNoNan": lambda x, y: np.where(y == 0, 0, x * y),
    "RealDiv": np.divide,
    "Div": np.divide,
    "DivNoNan": lambda x, y: np.where(y == 0, 0, x / np.where(y == 0, 1, y)),
    "FloorDiv": lambda x, y: np.floor(x / y),
    "FloorMod": lambda x, y: x - np.floor(x / y) * y,
    "TruncateDiv": lambda x, y: np.trunc(x / y),
    "TruncateMod": lambda x, y: x - np.trunc(x / y) * y,
    "Mod": lambda x, y: x - np.trunc(x / y) * y,
    "Maximum": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x >= y, x, y)),
    "Minimum": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x <= y, x, y)),
    "SquaredDifference": lambda x, y: np.abs(x - y) ** 2,
}
_COMPLEX_BINARY = ("AddV2", "Add", "Sub", "Mul", "MulNoNan", "RealDiv", "Div", "DivNoNan", "SquaredDifference")
_INT_BINARY: dict[str, Callable[..., int]] = {
    "AddV2": lambda x, y: x + y,
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "RealDiv": _int_quotient,
    "Div": _int_quotient,
    "FloorDiv": lambda x, y: x // y,
    "FloorMod": lambda x, y: x % y,
    "TruncateDiv": _int_quotient,
    "TruncateMod": _int_remainder,
    "Mod": _int_remainder,
    "Pow": lambda x, y: x**y,
    "Maximum": max,
    "Minimum": min,
}
_STEPS = ("FloorMod", "TruncateMod", "Mod")
"""Their quotient jumps: the numerical derivative near a jump means nothing, so the points are chosen by hand."""

_BINARY = [
    *(
        OpCase(
            f"{op}/{dtype} broadcast",
            op,
            [numbers(dtype, 3, 1, 5), numbers(dtype, 4, 1, low=0.6, high=3.0, seed=1)],
            expected=in_float64(function),
            differentiate=() if op in _STEPS else None,
        )
        for op, function in _FLOAT_BINARY.items()
        for dtype in _FLOATS
        if not (dtype in ("float16", "bfloat16") and op in (*_STEPS, "FloorDiv", "TruncateDiv"))
    ),
    *(
        OpCase(
            f"{op}/{dtype} broadcast",
            op,
            [numbers(dtype, 3, 1, 5), numbers(dtype, 4, 1, low=0.6, high=3.0, seed=1)],
            expected=in_float64(_FLOAT_BINARY[op]),
        )
        for op in _COMPLEX_BINARY
        for dtype in _COMPLEX
    ),
    *(
        OpCase(
            f"{op}/{dtype} broadcast",
            op,
            [numbers(dtype, 3, 1, 5, low=-9, high=9), numbers(dtype, 4, 1, low=1, high=6, seed=1)],
            expected=in_integers(function),
        )
        for op, function in _INT_BINARY.items()
        for dtype in _INTEGERS
    ),
    *(
        OpCase(f"{op}/{what}", op, [x, y], expected=in_float64(_FLOAT_BINARY[op]), differentiate=())
        for op in _FLOAT_BINARY
        for what, x, y in (
            ("empty", np.zeros([0, 3], np.float32), np.ones([3], np.float32)),
            ("scalars", np.float32(7.5), np.float32(2.0)),
            ("odd sizes", numbers("float32", 17, low=5.1, high=5.9), numbers("float32", 17, low=2.1, high=2.4, seed=3)),
            ("rank 0 and 3", np.float32(2.25), numbers("float32", 2, 1, 3, low=1.1, high=1.9)),
        )
    ),
    *(
        OpCase(
            f"{op}/shapes that do not broadcast",
            op,
            [np.ones([2, 3], np.float32), np.ones([4], np.float32)],
            raises="broadcast",
        )
        for op in _FLOAT_BINARY
    ),
]

_SPECIAL = [
    OpCase(
        "Pow/square",
        "Pow",
        [_f32(-3, 0, 1e20, _NAN, 2), np.float32(2)],
        expected=_f32(9, 0, _INF, _NAN, 4),
        differentiate=(),
    ),
    OpCase(
        "Pow/square of float64",
        "Pow",
        [numbers("float64", 3, 5), np.float64(2)],
        expected=in_float64(lambda x, y: x * x),
        differentiate=(0,),
    ),
    *(
        OpCase(
            f"{op}/{dtype} odd size",
            op,
            [numbers(dtype, 17), numbers(dtype, 17, seed=1)],
            expected=in_float64(_FLOAT_BINARY[op]),
        )
        for op in _COMPLEX_BINARY
        for dtype in _COMPLEX
    ),
    OpCase(
        "AddV2/overflow wraps",
        "AddV2",
        [np.array([127, -128], np.int8), np.array([1, -1], np.int8)],
        expected=np.array([-128, 127], np.int8),
    ),
    OpCase(
        "Mul/overflow wraps",
        "Mul",
        [np.array([2**30], np.int32), np.array([6], np.int32)],
        expected=np.array([-(2**31)], np.int32),
    ),
    OpCase("AddV2/signed zeros", "AddV2", [_f32(-0.0, -0.0), _f32(-0.0, 0.0)], expected=_f32(-0.0, 0.0), exact=True),
    OpCase(
        "Add/strings",
        "Add",
        [np.array([b"a", b"\x00"], object), np.array(b"\xffz", object)],
        expected=np.array([b"a\xffz", b"\x00\xffz"], object),
    ),
    OpCase(
        "Add/scalar strings", "Add", [np.array(b"a", object), np.array(b"b", object)], expected=np.array(b"ab", object)
    ),
    OpCase(
        "RealDiv/by zero",
        "RealDiv",
        [_f32(1, -1, 0, 1), _f32(0, 0, 0, -0.0)],
        expected=_f32(_INF, -_INF, _NAN, -_INF),
        differentiate=(),
    ),
    OpCase(
        "MulNoNan/zero times infinity",
        "MulNoNan",
        [_f32(_INF, _NAN, 2, _NAN), _f32(0, 0, _NAN, 1)],
        expected=_f32(0, 0, _NAN, _NAN),
        differentiate=(),
    ),
    OpCase(
        "DivNoNan/by zero",
        "DivNoNan",
        [_f32(1, 0, _INF, 3), _f32(0, 0, 0, 2)],
        expected=_f32(0, 0, 0, 1.5),
        differentiate=(),
    ),
    OpCase("FloorDiv/one tenth", "FloorDiv", [_f32(1, 1, -1), _f32(0.1, 0, 0)], expected=_f32(10, _INF, -_INF)),
    OpCase(
        "FloorMod/signs",
        "FloorMod",
        [_f32(5, -5, 5, -5, 6), _f32(3, 3, -3, -3, -3)],
        expected=_f32(2, 1, -1, -2, 0),
        differentiate=(),
    ),
    OpCase(
        "FloorMod/infinite divisor",
        "FloorMod",
        [_f32(5, -5, 5), _f32(_INF, _INF, -_INF)],
        expected=_f32(5, _INF, -_INF),
        differentiate=(),
        oracle=False,
    ),
    OpCase("FloorMod/away from jumps", "FloorMod", [_f32(5.3, -5.3), _f32(3.1, 3.1)], expected=_f32(2.2, 0.9)),
    OpCase("TruncateMod/away from jumps", "TruncateMod", [_f32(5.3, -5.3), _f32(3.1, 3.1)], expected=_f32(2.2, -2.2)),
    OpCase("Mod/away from jumps", "Mod", [_f32(5.3, -5.3), _f32(3.1, 3.1)], expected=_f32(2.2, -2.2)),
    OpCase(
        "Maximum/C01 NaN in either place",
        "Maximum",
        [_f32(5, _NAN, _NAN, 1), _f32(_NAN, 5, _NAN, 2)],
        expected=_f32(_NAN, _NAN, _NAN, 2),
        differentiate=(),
    ),
    OpCase(
        "Minimum/C01 NaN in either place",
        "Minimum",
        [_f32(5, _NAN, _NAN, 1), _f32(_NAN, 5, _NAN, 2)],
        expected=_f32(_NAN, _NAN, _NAN, 1),
        differentiate=(),
    ),
    OpCase(
        "Sub/C03 x minus x is not 0",
        "Sub",
        [_f32(1, _INF, _NAN, 0, -2)] * 2,
        expected=_f32(0, _NAN, _NAN, 0, 0),
        differentiate=(),
    ),
    OpCase(
        "Mul/C03 x times 0 is not 0",
        "Mul",
        [_f32(1, _INF, _NAN, 0, -2), np.float32(0)],
        expected=_f32(0, _NAN, _NAN, 0, 0),
        differentiate=(),
    ),
    OpCase("Mul/C03 signed zeros", "Mul", [_f32(1, 0, -2), np.float32(0)], expected=_f32(0, 0, -0.0), exact=True),
    OpCase(
        "Mul/C03 integers times 0",
        "Mul",
        [np.array([1, -5, 2**31 - 1], np.int32), np.int32(0)],
        expected=np.array([0, 0, 0], np.int32),
    ),
    OpCase(
        "RealDiv/C03 x over x is not 1",
        "RealDiv",
        [_f32(1, _INF, _NAN, 0, -2)] * 2,
        expected=_f32(1, _NAN, _NAN, _NAN, 1),
        differentiate=(),
    ),
    OpCase(
        "RealDiv/C03 0 over x is not 0",
        "RealDiv",
        [np.float32(0), _f32(1, _INF, _NAN, 0, -2)],
        expected=_f32(0, 0, _NAN, _NAN, -0.0),
        differentiate=(),
    ),
    OpCase(
        "Mul/C13 denormals stay",
        "Mul",
        [_f32(1e-40, np.nextafter(np.float32(0), np.float32(1))), _f32(1e5, _INF)],
        expected=_f32(np.float32(1e-40) * np.float32(1e5), _INF),
        differentiate=(),
        deviation="TensorFlow flushes denormals to zero",
    ),
    OpCase("Pow/floats", "Pow", [_f32(2, 9, 0.5, 2), _f32(3, 0.5, -2, 0)], expected=_f32(8, 3, 4, 1)),
    OpCase(
        "Pow/float64",
        "Pow",
        [numbers("float64", 3, 1, low=0.5), numbers("float64", 4, seed=2)],
        expected=in_float64(np.power),
        differentiate=(),
    ),
    OpCase(
        "Pow/gradient at positive bases",
        "Pow",
        [np.array([[0.5], [1.5], [3.0]]), np.array([2.0, -1.5, 0.3])],
        expected=in_float64(np.power),
    ),
    OpCase(
        "Pow/negative bases", "Pow", [_f32(-2, -2, -8), _f32(2, 3, 1 / 3)], expected=_f32(4, -8, _NAN), differentiate=()
    ),
    OpCase(
        "Pow/zero and infinity",
        "Pow",
        [_f32(0, 0, _INF, _NAN, 1), _f32(0, -1, 0, 0, _NAN)],
        expected=_f32(1, _INF, 1, 1, 1),
        differentiate=(),
    ),
    OpCase(
        "Pow/half",
        "Pow",
        [np.array([2, 3], np.float16), np.array([3, 2], np.float16)],
        expected=np.array([8, 9], np.float16),
    ),
    OpCase(
        "Pow/bfloat16",
        "Pow",
        [np.array([2, 3], ml_dtypes.bfloat16), np.array([3, 2], ml_dtypes.bfloat16)],
        expected=np.array([8, 9], ml_dtypes.bfloat16),
    ),
    OpCase(
        "Pow/complex",
        "Pow",
        [np.array([1j, 2], np.complex64), np.array([2, 1j], np.complex64)],
        expected=np.array([-1, 2**1j], np.complex64),
    ),
    OpCase(
        "Pow/overflow wraps",
        "Pow",
        [np.array([2, -2, 3], np.int8), np.array([8, 7, 5], np.int8)],
        expected=np.array([0, -128, -13], np.int8),
    ),
    OpCase(
        "Pow/negative integer exponent",
        "Pow",
        [np.array([2, 1], np.int32), np.array([1, -1], np.int32)],
        raises="negative integer power",
    ),
    *(
        OpCase(f"{op}/O07 {what}", op, [x, y], raises="division by zero")
        for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Div", "Mod", "RealDiv")
        for what, x, y in (
            ("int64 matrix", np.full([2, 2], 2, np.int64), np.zeros([2, 2], np.int64)),
            ("int32 one of two", np.array([2, 4], np.int32), np.array([1, 0], np.int32)),
            ("uint8 scalar", np.array([2, 4, 6], np.uint8), np.uint8(0)),
        )
    ),
    *(
        OpCase(
            f"{op}/O05 {dtype} length {length}",
            op,
            [np.array([*range(length - 1), np.iinfo(dtype).min], dtype), np.full(length, -1, dtype)],
            expected=np.zeros(length, dtype),
        )
        for op in ("FloorMod", "TruncateMod", "Mod")
        for dtype in _SIGNED
        for length in (1, 8, 17)
    ),
    *(
        OpCase(
            f"{op}/O05 {dtype} scalar divisor",
            op,
            [np.full(3, np.iinfo(dtype).min, dtype), np.array(-1, dtype)],
            expected=np.full(3, np.iinfo(dtype).min, dtype),
            oracle=False,
        )
        for op in ("FloorDiv", "TruncateDiv", "Div")
        for dtype in _SIGNED
    ),
    OpCase("Maximum/G05 ties", "Maximum", [_f32(1, 2), _f32(1, 2)], expected=_f32(1, 2), differentiate=()),
    OpCase(
        "AddN/three",
        "AddN",
        [[numbers("float32", 2, 3, seed=seed) for seed in range(3)]],
        expected=lambda xs: (xs[0] + xs[1]) + xs[2],
    ),
    OpCase("AddN/one", "AddN", [[_f32(1, 2)]], expected=_f32(1, 2)),
    OpCase(
        "AddN/integers wrap",
        "AddN",
        [[np.array([200], np.uint8), np.array([100], np.uint8)]],
        expected=np.array([44], np.uint8),
    ),
    OpCase(
        "AddN/bfloat16", "AddN", [[np.ones([5], ml_dtypes.bfloat16)] * 4], expected=np.full([5], 4, ml_dtypes.bfloat16)
    ),
    OpCase(
        "AddN/empty scalars", "AddN", [[np.zeros([0], np.float64), np.zeros([0], np.float64)]], expected=np.zeros([0])
    ),
    OpCase("AddN/same tensor twice", "AddN", [[_f32(1.5), _f32(1.5), _f32(3)]], expected=_f32(6)),
    OpCase(
        "AccumulateNV2/three",
        "AccumulateNV2",
        [[_f32(1, 2), _f32(3, 4), _f32(5, 6)]],
        {"shape": [2]},
        _f32(9, 12),
    ),
    OpCase("AccumulateNV2/one", "AccumulateNV2", [[np.array([1.5])]], {"shape": [1]}, np.array([1.5])),
    OpCase(
        "AccumulateNV2/another shape",
        "AccumulateNV2",
        [[_f32(1, 2), _f32(3, 4)]],
        {"shape": [3]},
        raises="another shape than is stated",
        deviation="TensorFlow takes no notice of the shape that is stated",
    ),
    OpCase("AddN/shapes differ", "AddN", [[_f32(1, 2), _f32(1)]], raises="one shape"),
    OpCase(
        "ClipByValue/inside and out",
        "ClipByValue",
        [_f32(-2, 0.3, 5), np.float32(0), np.float32(1)],
        expected=_f32(0, 0.3, 1),
    ),
    OpCase(
        "ClipByValue/C01 NaN stays",
        "ClipByValue",
        [_f32(_NAN, _INF, -_INF), np.float32(0), np.float32(1)],
        expected=_f32(_NAN, 1, 0),
        differentiate=(),
    ),
    OpCase(
        "ClipByValue/bounds of t's shape",
        "ClipByValue",
        [_f32(-2, 0.3, 5), _f32(-1, 0, 1), _f32(0, 1, 2)],
        expected=_f32(-1, 0.3, 2),
    ),
    OpCase(
        "ClipByValue/bounds the wrong way round",
        "ClipByValue",
        [_f32(0, 2, 9), np.float32(3), np.float32(1)],
        expected=_f32(3, 3, 3),
        differentiate=(),
    ),
    OpCase(
        "ClipByValue/uint8",
        "ClipByValue",
        [np.array([0, 7, 255], np.uint8), np.uint8(2), np.uint8(9)],
        expected=np.array([2, 7, 9], np.uint8),
    ),
    OpCase(
        "ClipByValue/empty",
        "ClipByValue",
        [np.zeros([0, 2], np.float32), np.float32(0), np.float32(1)],
        expected=np.zeros([0, 2], np.float32),
    ),
    OpCase(
        "ClipByValue/bounds too large",
        "ClipByValue",
        [_f32(1), _f32(1, 2), _f32(1, 2)],
        raises="bounds do not fit|broadcast",
    ),
]

_UNARY: dict[str, Callable[..., Any]] = {
    "Neg": lambda x: -x,
    "Square": lambda x: x * x,
    "Sign": lambda x: np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x))),
    "Abs": lambda x: np.where(np.signbit(x), -x, x),
    "Floor": lambda x: np.vectorize(math.floor, otypes=[float])(x) if x.size else x,
    "Ceil": lambda x: np.vectorize(math.ceil, otypes=[float])(x) if x.size else x,
    "Rint": lambda x: np.vectorize(round, otypes=[float])(x) if x.size else x,
    "Round": lambda x: np.vectorize(round, otypes=[float])(x) if x.size else x,
    "IsNan": lambda x: x != x,
    "IsInf": lambda x: np.abs(x) == np.inf,
    "IsFinite": lambda x: np.abs(x) < np.inf,
}
_UNARY_CASES = [
    *(
        OpCase(f"{op}/{dtype}", op, [numbers(dtype, 3, 5)], expected=in_float64(function))
        for op, function in _UNARY.items()
        for dtype in _FLOATS
    ),
    *(
        OpCase(f"{op}/{dtype}", op, [numbers(dtype, 3, 5)], expected=in_float64(_UNARY[op]))
        for op in ("Neg", "Square", "Sign")
        for dtype in _COMPLEX
    ),
    *(
        OpCase(f"{op}/{what}", op, [x], expected=in_float64(function), differentiate=())
        for op, function in _UNARY.items()
        for what, x in (
            ("empty", np.zeros([0, 3], np.float32)),
            ("scalar", np.float64(-1.5)),
            ("odd size", numbers("float32", 33)),
        )
    ),
    *(
        OpCase(
            f"{op}/{dtype}",
            op,
            [np.array([np.iinfo(dtype).min, -3, 0, 3, np.iinfo(dtype).max], dtype)],
            expected=in_integers(function),
        )
        for op, function in (
            ("Neg", lambda x: -x),
            ("Abs", abs),
            ("Sign", lambda x: (x > 0) - (x < 0)),
            ("Square", lambda x: x * x),
        )
        for dtype in _SIGNED
    ),
    *(
        OpCase(
            f"Square/{dtype}",
            "Square",
            [np.array([0, 3, np.iinfo(dtype).max], dtype)],
            expected=in_integers(lambda x: x * x),
        )
        for dtype in _INTEGERS[4:]
    ),
    OpCase(
        "Round/integers",
        "Round",
        [np.array([3, -7], np.int32)],
        expected=np.array([3, -7], np.int32),
        exact=True,
        deviation="TensorFlow gives 0 for integers",
    ),
    OpCase("Round/ties go to even", "Round", [_f32(0.5, 1.5, 2.5, -0.5, -1.5)], expected=_f32(0, 2, 2, 0, -2)),
    OpCase(
        "Rint/ties go to even", "Rint", [_f32(0.5, 1.5, 2.5, -0.5, _INF, _NAN)], expected=_f32(0, 2, 2, 0, _INF, _NAN)
    ),
    OpCase("Sign/NaN and zeros", "Sign", [_f32(_NAN, -0.0, 0.0, _INF, -_INF)], expected=_f32(_NAN, 0, 0, 1, -1)),
    OpCase(
        "Sign/complex zero",
        "Sign",
        [np.array([3 + 4j, 0], np.complex64)],
        expected=np.array([0.6 + 0.8j, 0], np.complex64),
        differentiate=(),
    ),
    OpCase("Abs/NaN and infinity", "Abs", [_f32(_NAN, -_INF, -0.0)], expected=_f32(_NAN, _INF, 0), differentiate=()),
    *(
        OpCase(f"{op}/special values", op, [_f32(_NAN, _INF, -_INF, 0, 1e-45, 3e38)], expected=expected)
        for op, expected in (
            ("IsNan", np.array([True, False, False, False, False, False])),
            ("IsInf", np.array([False, True, True, False, False, False])),
            ("IsFinite", np.array([False, False, False, True, True, True])),
        )
    ),
]

CASES = [*_BINARY, *_SPECIAL, *_UNARY_CASES]
