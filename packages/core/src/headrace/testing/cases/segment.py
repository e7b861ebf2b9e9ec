"""Cases of the segment family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NAN = np.nan
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _ids(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _reduced(op: str, values: list[Any]) -> Any:
    if op.endswith(("Max", "Min")):
        return math.nan if any(value != value for value in values) else (max if op.endswith("Max") else min)(values)
    if op.endswith("Prod"):
        return math.prod(values)
    total = sum(values)
    if not op.endswith("Mean"):
        return total
    return int(total / len(values)) if isinstance(total, int) else total / len(values)


def _loop(op: str, empty: Callable[[np.dtype[Any]], Any] = lambda dtype: 0) -> Callable[..., Any]:
    """By definition: for each segment the list of its rows, element by element; integers wrap."""

    def expected(data: Any, ids: Any, count: Any = None) -> Any:
        segments = (int(np.max(ids, initial=-1)) + 1) if count is None else int(count)
        width = math.prod(np.shape(data)[np.ndim(ids) :])
        rows = np.reshape(data, (np.size(ids), width)).astype(object)
        result = np.empty((segments, rows.shape[1]), object)
        for segment in range(segments):
            members = rows[np.reshape(ids, -1) == segment]
            for column in range(rows.shape[1]):
                values = [_number(value) for value in members[:, column]]
                result[segment, column] = _wrapped(_reduced(op, values), data.dtype) if values else empty(data.dtype)
        return result.astype(data.dtype).reshape(segments, *np.shape(data)[np.ndim(ids) :])

    return expected


def _number(value: Any) -> Any:
    return value if isinstance(value, int | complex) else float(value)


def _wrapped(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "iu":
        return value
    lowest = int(np.iinfo(dtype).min)
    return (value - lowest) % (1 << 8 * dtype.itemsize) + lowest


def _lowest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]


def _highest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).max if dtype.kind in "iu" else ml_dtypes.finfo(dtype).max  # type: ignore[no-untyped-call]


def _has_gaps(ids: Any, count: Any) -> bool:
    return not set(range(int(count))) <= set(np.reshape(ids, -1).tolist())


_SORTED = {
    "SegmentSum": _loop("SegmentSum"),
    "SegmentMean": _loop("SegmentMean"),
    "SegmentProd": _loop("SegmentProd", lambda dtype: 1),
    "SegmentMax": _loop("SegmentMax"),
    "SegmentMin": _loop("SegmentMin"),
}
_UNSORTED = {
    "UnsortedSegmentSum": _loop("UnsortedSegmentSum"),
    "UnsortedSegmentProd": _loop("UnsortedSegmentProd", lambda dtype: 1),
    "UnsortedSegmentMax": _loop("UnsortedSegmentMax", _lowest),
    "UnsortedSegmentMin": _loop("UnsortedSegmentMin", _highest),
}
_LOW, _HIGH = np.finfo(np.float32).min, np.finfo(np.float32).max

_SORTED_CASES = [
    *(
        OpCase(f"{op}/{dtype}", op, [numbers(dtype, 6, 3, low=-5, high=5), _ids(0, 0, 1, 3, 3, 3)], expected=function)
        for op, function in _SORTED.items()
        for dtype in (*_INTEGERS, *_FLOATS)
    ),
    *(
        OpCase(f"{op}/complex64", op, [numbers("complex64", 4, 2), _ids(0, 0, 2, 2)], expected=_SORTED[op])
        for op in ("SegmentSum", "SegmentMean", "SegmentProd")
    ),
    *(
        OpCase(f"{op}/{what}", op, [data, ids], expected=function)
        for op, function in _SORTED.items()
        for what, data, ids in (
            ("vector int64 ids", numbers("float32", 17), np.arange(17) // 3),
            ("no rows", np.zeros([0, 3], np.float32), _ids()),
            ("no columns", np.zeros([2, 0], np.float32), _ids(0, 1)),
            ("one segment", numbers("float64", 5, 2, 2), _ids(0, 0, 0, 0, 0)),
        )
    ),
    OpCase("SegmentMean/O17 gap", "SegmentMean", [_f32(1, 3, 5), _ids(0, 0, 3)], expected=_f32(2, 0, 0, 5)),
    OpCase("SegmentMax/gap", "SegmentMax", [_f32(-1, -3, -5), _ids(0, 0, 3)], expected=_f32(-1, 0, 0, -5)),
    OpCase("SegmentMin/gap", "SegmentMin", [_f32(1, 3, 5), _ids(0, 0, 3)], expected=_f32(1, 0, 0, 5)),
    OpCase("SegmentProd/gap", "SegmentProd", [_f32(1, 3, 5), _ids(0, 0, 3)], expected=_f32(3, 1, 1, 5)),
    OpCase(
        "SegmentProd/zero",
        "SegmentProd",
        [np.array([2.0, 0.0, 5.0, 3.0]), _ids(0, 0, 0, 1)],
        expected=np.array([0.0, 3.0]),
    ),
    *(
        OpCase(f"{op}/O17 NaN", op, [_f32(1, _NAN, 3), _ids(0, 0, 1)], expected=_f32(_NAN, 3), differentiate=())
        for op in _SORTED
    ),
    *(
        OpCase(f"{op}/ties", op, [_f32(2, 2, 1), _ids(0, 0, 0)], expected=_f32(value), differentiate=())
        for op, value in (("SegmentMax", 2), ("SegmentMin", 1))
    ),
    OpCase(
        "SegmentSum/T09 float16",
        "SegmentSum",
        [np.ones([5000], np.float16), np.zeros([5000], np.int32)],
        expected=np.array([5000], np.float16),
        deviation="TensorFlow adds up in float16",
    ),
    OpCase(
        "SegmentMean/T09 float16",
        "SegmentMean",
        [np.full([5000], 20, np.float16), np.zeros([5000], np.int32)],
        expected=np.array([20], np.float16),
        deviation="TensorFlow adds up in float16",
    ),
    *(
        OpCase(f"{op}/{what}", op, [np.ones([3], np.float32), ids], raises=text)
        for op in _SORTED
        for what, ids, text in (
            ("ids descend", _ids(1, 0, 2), "not in order"),
            ("negative id", _ids(-1, 0, 2), "negative"),
            ("too few ids", _ids(0, 1), "one segment id per row"),
            ("ids of rank 2", np.zeros([3, 1], np.int32), "vector|one segment id per row"),
        )
    ),
    *(OpCase(f"{op}/scalar data", op, [np.float32(1), _ids(0)], raises="no rows|segment id") for op in _SORTED),
]

_UNSORTED_CASES = [
    *(
        OpCase(
            f"{op}/{dtype}",
            op,
            [numbers(dtype, 6, 3, low=-5, high=5), _ids(2, 0, 2, 1, 0, 2), _ids(3)[0]],
            expected=function,
        )
        for op, function in _UNSORTED.items()
        for dtype in (*_INTEGERS, *_FLOATS)
    ),
    *(
        OpCase(
            f"{op}/complex64", op, [numbers("complex64", 4, 2), _ids(2, 0, 2, 0), _ids(3)[0]], expected=_UNSORTED[op]
        )
        for op in ("UnsortedSegmentSum", "UnsortedSegmentProd")
    ),
    *(
        # A segment without rows holds the lowest or highest number, whose sums the numerical gradient cannot take.
        OpCase(
            f"{op}/{what}",
            op,
            [data, ids, count],
            expected=function,
            differentiate=() if op.endswith(("Max", "Min")) and _has_gaps(ids, count) else None,
        )
        for op, function in _UNSORTED.items()
        for what, data, ids, count in (
            ("negative ids are left out", np.array([1.0, 3.0, 5.0]), _ids(0, -1, 2), np.array(4, np.int64)),
            (
                "matrix of ids",
                numbers("float32", 2, 3, 2),
                np.array([[0, 1, 0], [1, -2, 1]], np.int64),
                np.array(2, np.int32),
            ),
            ("scalar id", numbers("float32", 3), np.array(1, np.int32), np.array(2, np.int32)),
            ("int16 ids", numbers("float32", 3), np.array([1, 0, 1], np.int16), np.array(2, np.int32)),
            ("no rows", np.zeros([0, 2], np.float32), _ids(), np.array(2, np.int32)),
            ("no segments", np.zeros([0, 2], np.float32), _ids(), np.array(0, np.int32)),
            ("odd size", numbers("float32", 33), np.arange(33, dtype=np.int32) % 5, np.array(5, np.int32)),
        )
    ),
    OpCase(
        "UnsortedSegmentMax/O17 NaN and fillers",
        "UnsortedSegmentMax",
        [_f32(10, _NAN, -78), _ids(1, 2, 3), _ids(5)[0]],
        expected=_f32(_LOW, 10, _NAN, -78, _LOW),
        differentiate=(),
    ),
    OpCase(
        "UnsortedSegmentMin/O17 NaN and fillers",
        "UnsortedSegmentMin",
        [_f32(10, _NAN, -78), _ids(1, 2, 3), _ids(5)[0]],
        expected=_f32(_HIGH, 10, _NAN, -78, _HIGH),
        differentiate=(),
    ),
    OpCase(
        "UnsortedSegmentProd/zeros",
        "UnsortedSegmentProd",
        [np.array([2.0, 0.0, 5.0, 3.0]), _ids(1, 1, 1, 0), _ids(2)[0]],
        expected=np.array([3.0, 0.0]),
    ),
    OpCase(
        "UnsortedSegmentSum/T09 bfloat16",
        "UnsortedSegmentSum",
        [np.ones([5000], ml_dtypes.bfloat16), np.zeros([5000], np.int32), _ids(1)[0]],
        expected=np.array([4992], ml_dtypes.bfloat16),
        deviation="TensorFlow adds up in bfloat16",
    ),
    *(
        OpCase(f"{op}/{what}", op, [np.ones([3], np.float32), ids, count], raises=text)
        for op in _UNSORTED
        for what, ids, count, text in (
            ("O15 id too large", _ids(0, 1, 2), np.array(2, np.int32), "segment id is out of range"),
            ("O15 scalar id too large", np.array(1, np.int32), np.array(1, np.int32), "segment id is out of range"),
            ("negative count", _ids(0, 0, 0), np.array(-4, np.int32), "negative"),
            ("ids of another shape", _ids(0, 1), np.array(2, np.int32), "cover the leading axes"),
        )
    ),
]

_TABLE = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
_SPARSE_CASES = [
    *(
        OpCase(
            f"{op}/{np.dtype(dtype).name} {np.dtype(kind).name}",
            op,
            [_TABLE.astype(dtype), np.array([0, 2, 1, 1], kind), np.array([0, 0, 2, 2], kind)],
            expected=lambda data, indices, ids, inner=inner: _SORTED[inner](data[indices], ids),
        )
        for op, inner in (("SparseSegmentSum", "SegmentSum"), ("SparseSegmentMean", "SegmentMean"))
        for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
        for kind in (np.int32, np.int64)
    ),
    *(
        OpCase(
            f"SparseSegmentSqrtN/{np.dtype(dtype).name}",
            "SparseSegmentSqrtN",
            [_TABLE.astype(dtype), _ids(0, 2, 1, 1, 0, 2), _ids(0, 0, 2, 2, 2, 3)],
            expected=np.array([[6, 8], [0, 0], [7 / 3**0.5, 10 / 3**0.5], [5, 6]])
            / np.array([[2**0.5], [1], [1], [1]]),
        )
        for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
    ),
    OpCase(
        "SparseSegmentSum/uint8",
        "SparseSegmentSum",
        [_TABLE.astype(np.uint8), _ids(2, 2), _ids(0, 0)],
        expected=np.array([[10, 12]], np.uint8),
    ),
    *(
        OpCase(f"{op}/no indices", op, [_TABLE, _ids(), _ids()], expected=np.zeros([0, 2], np.float32))
        for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
    ),
    *(
        OpCase(f"{op}/{what}", op, [_TABLE, indices, ids], raises=text)
        for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
        for what, indices, ids, text in (
            ("index too large", _ids(0, 3), _ids(0, 0), "index is out of range"),
            ("huge id", _ids(0, 1), np.array([0, 2**62]), "segment id is too large"),
            ("negative index", _ids(-1, 0), _ids(0, 0), "index is out of range"),
            ("ids descend", _ids(0, 1), _ids(1, 0), "not in order"),
            ("too few ids", _ids(0, 1), _ids(0), "segment id per"),
            ("indices of rank 2", np.zeros([1, 1], np.int32), _ids(0), "vector|one segment id"),
        )
    ),
]

CASES = [*_SORTED_CASES, *_UNSORTED_CASES, *_SPARSE_CASES]
