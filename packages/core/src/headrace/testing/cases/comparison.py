"""Cases of the comparison family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import in_integers, numbers

_NAN, _INF = np.nan, np.inf
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_ORDERED = (*_INTEGERS, "float16", "bfloat16", "float32", "float64")


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _strings(*values: bytes) -> np.ndarray[Any, Any]:
    return np.array(values, object)


def _by_pairs(function: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    """Compare pairs of elements as Python numbers."""

    def expected(x: Any, y: Any) -> Any:
        left, right = np.broadcast_arrays(x, y)
        pairs = zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True)
        return np.array([function(a, b) for a, b in pairs], np.bool_).reshape(left.shape)

    return expected


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "Less": lambda a, b: a < b,
    "LessEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterEqual": lambda a, b: a >= b,
    "Equal": lambda a, b: a == b,
    "NotEqual": lambda a, b: a != b,
}
_BITS: dict[str, Callable[..., int]] = {
    "BitwiseAnd": lambda x, y: x & y,
    "BitwiseOr": lambda x, y: x | y,
    "BitwiseXor": lambda x, y: x ^ y,
}
_LOGIC: dict[str, Callable[[Any, Any], bool]] = {
    "LogicalAnd": lambda a, b: a and b,
    "LogicalOr": lambda a, b: a or b,
}


def _shifted(*, left: bool) -> Callable[..., Any]:
    """Shifts by places that are limited to 0 and the number of bits - 1."""

    def expected(x: Any, y: Any) -> Any:
        last = 8 * x.dtype.itemsize - 1

        def shift(value: int, places: int) -> int:
            limited = min(max(places, 0), last)
            result: int = value << limited if left else value >> limited
            return result

        return in_integers(shift)(x, y)

    return expected


CASES = [
    *(
        OpCase(
            f"{op}/{dtype}",
            op,
            [numbers(dtype, 3, 1, 5, low=-2, high=2), numbers(dtype, 4, 1, low=-2, high=2, seed=1)],
            expected=_by_pairs(function),
        )
        for op, function in _COMPARE.items()
        for dtype in _ORDERED
    ),
    *(
        OpCase(f"{op}/{what}", op, [x, y], expected=_by_pairs(function))
        for op, function in _COMPARE.items()
        for what, x, y in (
            ("empty", np.zeros([0, 2], np.int32), np.zeros([2], np.int32)),
            ("scalars", np.float32(1), np.float32(2)),
            ("odd size", numbers("int32", 19, low=-1, high=1), numbers("int32", 19, low=-1, high=1, seed=5)),
            ("NaN, infinities and zeros", _f32(_NAN, _NAN, _INF, -_INF, 0.0), _f32(_NAN, 1, _INF, _INF, -0.0)),
        )
    ),
    OpCase(
        "Equal/C13 denormals are not 0",
        "Equal",
        [_f32(1e-40, -1e-45), np.float32(0)],
        expected=np.array([False, False]),
        deviation="TensorFlow flushes denormals to zero",
    ),
    *(
        OpCase(f"{op}/{what}", op, [x, y], expected=_by_pairs(_COMPARE[op]))
        for op in ("Equal", "NotEqual")
        for what, x, y in (
            ("bool", np.array([True, False, True]), np.array([True, True, False])),
            ("complex64", np.array([1 + 1j, 2], np.complex64), np.array([1 - 1j, 2], np.complex64)),
            ("strings", _strings(b"a", b"a\x00", b""), _strings(b"a", b"a", b"")),
            ("scalar strings", np.array(b"x", object), np.array(b"x", object)),
            ("empty strings", np.zeros([0], object), np.zeros([0], object)),
        )
    ),
    *(
        OpCase(
            f"{op}/shapes that do not broadcast are a scalar",
            op,
            [np.array([1, 2], np.int32), np.array([1, 2, 3], np.int32)],
            attrs={"incompatible_shape_error": False},
            expected=np.array(op == "NotEqual"),
        )
        for op in ("Equal", "NotEqual")
    ),
    *(
        OpCase(
            f"{op}/shapes that broadcast without the error",
            op,
            [np.array([[1], [2]], np.int32), np.array([1, 2, 3], np.int32)],
            attrs={"incompatible_shape_error": False},
            expected=_by_pairs(_COMPARE[op]),
        )
        for op in ("Equal", "NotEqual")
    ),
    *(
        OpCase(
            f"{op}/shapes that do not broadcast",
            op,
            [np.ones([2], np.int32), np.ones([3], np.int32)],
            raises="broadcast",
        )
        for op in _COMPARE
    ),
    *(
        OpCase(
            f"{op}/truth table",
            op,
            [np.array([[True], [False]]), np.array([True, False])],
            expected=_by_pairs(function),
        )
        for op, function in _LOGIC.items()
    ),
    *(
        OpCase(f"{op}/empty", op, [np.zeros([0, 1], np.bool_), np.array(True)], expected=np.zeros([0, 1], np.bool_))
        for op in _LOGIC
    ),
    OpCase("LogicalNot/both", "LogicalNot", [np.array([True, False])], expected=np.array([False, True])),
    OpCase("LogicalNot/scalar", "LogicalNot", [np.array(True)], expected=np.array(False)),
    *(
        OpCase(
            f"{op}/{dtype}",
            op,
            [numbers(dtype, 3, 1, low=-100, high=100), numbers(dtype, 5, low=-100, high=100, seed=1)],
            expected=in_integers(function),
        )
        for op, function in _BITS.items()
        for dtype in _INTEGERS
    ),
    *(
        OpCase(f"{op}/{what}", op, [x, y], expected=in_integers(function))
        for op, function in _BITS.items()
        for what, x, y in (
            ("empty", np.zeros([0], np.int32), np.zeros([0], np.int32)),
            ("scalars", np.array(12, np.uint8), np.array(10, np.uint8)),
        )
    ),
    *(
        OpCase(f"Invert/{dtype}", "Invert", [numbers(dtype, 7, low=-100, high=100)], expected=in_integers(lambda x: ~x))
        for dtype in _INTEGERS
    ),
    *(
        OpCase(
            f"{op}/{dtype} also out of range",
            op,
            [
                np.array([1, 1, 3, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype),
                np.array([0, 1, 2, 127, 5, 3 if dtype[0] == "u" else -3], dtype),
            ],
            expected=_shifted(left=op == "LeftShift"),
        )
        for op in ("LeftShift", "RightShift")
        for dtype in _INTEGERS
    ),
    *(
        OpCase(
            f"{op}/broadcast",
            op,
            [numbers("int32", 3, 1, low=1, high=99), np.array([1, 2], np.int32)],
            expected=in_integers(function),
        )
        for op, function in (("LeftShift", lambda x, y: x << y), ("RightShift", lambda x, y: x >> y))
    ),
    *(
        OpCase(
            f"ApproximateEqual/{dtype}",
            "ApproximateEqual",
            [np.array([1, 2, 5, 9], dtype), np.array([1, 3, 2, 9], dtype)],
            {"tolerance": 2.0},
            expected=np.array([True, True, False, True]),
        )
        for dtype in ("float16", "float32", "float64", *_INTEGERS)
    ),
    OpCase(
        "ApproximateEqual/default tolerance",
        "ApproximateEqual",
        [np.array([1, 1, _NAN, _INF]), np.array([1 + 9e-6, 1 + 1.1e-5, _NAN, _INF])],
        expected=np.array([True, False, False, False]),
    ),
    OpCase(
        "ApproximateEqual/shapes differ",
        "ApproximateEqual",
        [np.zeros(2, np.float32), np.zeros(3, np.float32)],
        raises="two shapes contradict",
    ),
]
