"""Cases of the cumulative family."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NAN, _INF = np.nan, np.inf
_MODES = (("FF", False, False), ("FR", False, True), ("XF", True, False), ("XR", True, True))
_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def _logaddexp(a: float, b: float) -> float:
    if a != a or b != b:
        return math.nan
    low, high = min(a, b), max(a, b)
    return high if math.isinf(high) or math.isinf(low) else high + math.log1p(math.exp(low - high))


_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "Cumsum": lambda a, b: a + b,
    "Cumprod": lambda a, b: a * b,
    "CumulativeLogsumexp": _logaddexp,
}


_STARTS = {"Cumsum": 0, "Cumprod": 1, "CumulativeLogsumexp": -_INF}


def _scanned(op: str, exclusive: bool, reverse: bool) -> Callable[..., Any]:
    """Element after element, in Python numbers; integers wrap."""

    def expected(x: Any, axis: Any) -> Any:
        rows = np.moveaxis(x, int(axis), -1)
        flat = rows.astype(object).reshape(-1, rows.shape[-1]) if x.size else np.zeros([0, 0])
        results = np.empty(flat.shape, object)
        for index, row in enumerate(flat.tolist()):
            items = row[::-1] if reverse else row
            sums = list(accumulate(items, _STEPS[op]))
            sums = [_STARTS[op], *sums[:-1]] if exclusive else sums
            results[index] = sums[::-1] if reverse else sums
        if x.dtype.kind in "iu":
            lowest = int(np.iinfo(x.dtype).min)
            results = np.array(
                [(int(v) - lowest) % (1 << 8 * x.itemsize) + lowest for v in results.reshape(-1)], object
            )
        values = results.reshape(rows.shape).astype(x.dtype)
        return np.moveaxis(values, -1, int(axis))

    return expected


def _case(op: str, what: str, x: Any, axis: Any, mode: tuple[str, bool, bool], **given: Any) -> OpCase:
    name, exclusive, reverse = mode
    return OpCase(
        f"{op}/{what} {name}",
        op,
        [x, np.array(axis, np.int32)],
        attrs={"exclusive": exclusive, "reverse": reverse},
        expected=_scanned(op, exclusive, reverse),
        **given,
    )


_LINE = np.array([1.0, _NAN, 2.0], np.float32)

CASES = [
    *(
        _case(op, f"O53 {what}", x, axis, mode)
        for op in ("Cumsum", "Cumprod")
        for mode in _MODES
        for what, x, axis in (
            ("vector", np.array([1, 2, 3], np.float32), 0),
            ("column", np.array([[7], [9]], np.int32), 1),
            ("empty rows", np.zeros([0, 3], np.float32), 0),
            ("empty axis", np.zeros([3, 0], np.float32), 1),
            ("cube", numbers("float64", 2, 5, 3, low=0.5, high=2), 1),
            ("last axis", numbers("float32", 2, 17, low=0.5, high=1.5), -1),
        )
    ),
    *(
        _case(op, dtype, numbers(dtype, 5, low=-3, high=3), 0, mode, differentiate=())
        for op in ("Cumsum", "Cumprod")
        for dtype in _DTYPES
        for mode in (_MODES[0], _MODES[3])
    ),
    _case("Cumsum", "complex64", numbers("complex64", 2, 3), 1, _MODES[1]),
    _case("Cumprod", "complex128", numbers("complex128", 2, 3), 0, _MODES[2]),
    *(
        _case("Cumprod", f"zeros {what}", np.array(x), 0, mode)
        for mode in _MODES
        for what, x in (("one", [2.0, 0.0, 3.0, 0.5]), ("two", [0.0, 2.0, 0.0, 3.0, 1.5]))
    ),
    OpCase(
        "Cumsum/T09 bfloat16",
        "Cumsum",
        [np.ones([300], ml_dtypes.bfloat16), np.array(0, np.int32)],
        expected=np.arange(1, 301).astype(np.float32).astype(ml_dtypes.bfloat16),
        differentiate=(),
        deviation="TensorFlow adds up in bfloat16",
    ),
    OpCase(
        "Cumprod/float16",
        "Cumprod",
        [np.array([2, 3, 4], np.float16), np.array(0, np.int32)],
        expected=np.array([2, 6, 24], np.float16),
    ),
    *(
        # An exclusive one holds minus infinity, whose sum with others the numerical gradient cannot take.
        _case("CumulativeLogsumexp", what, x, axis, mode, differentiate=() if mode[1] else None)
        for mode in _MODES
        for what, x, axis in (
            ("vector", np.array([1.0, -2.0, 3.0]), 0),
            ("matrix", numbers("float32", 3, 5, low=-30, high=30), 1),
            ("no overflow", np.array([1000.0, 1000.0], np.float32), 0),
        )
    ),
    *(
        OpCase(
            f"CumulativeLogsumexp/O29 NaN {what}",
            "CumulativeLogsumexp",
            [_LINE, np.array(0, np.int32)],
            attrs={"reverse": reverse},
            expected=np.array(expected, np.float32),
            differentiate=(),
            deviation="TensorFlow drops the NaN",
        )
        for what, reverse, expected in (("forward", False, [1, _NAN, _NAN]), ("reverse", True, [_NAN, _NAN, 2]))
    ),
    OpCase(
        "CumulativeLogsumexp/minus infinity",
        "CumulativeLogsumexp",
        [np.array([-_INF, -_INF, 1.0]), np.array(0, np.int32)],
        expected=np.array([-_INF, -_INF, 1.0]),
        differentiate=(),
    ),
    *(
        OpCase(
            f"CumulativeLogsumexp/{dtype}",
            "CumulativeLogsumexp",
            [np.zeros([4], dtype), np.array(0, np.int32)],
            expected=np.log(np.arange(1, 5)),
        )
        for dtype in (np.float16, ml_dtypes.bfloat16)
    ),
    *(
        OpCase(f"{op}/{what}", op, [x, np.array(axis, np.int64)], raises=text)
        for op in _STEPS
        for what, x, axis, text in (
            ("O09 axis INT64_MIN", np.ones([2, 3], np.float32), -(2**63), "axis"),
            ("axis too large", np.ones([2, 3], np.float32), 2, "axis"),
            ("scalar", np.float32(1), 0, "axis"),
            ("axis vector", np.ones([2], np.float32), [0], "not a scalar"),
        )
    ),
]
