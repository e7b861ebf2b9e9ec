"""Cases of the reduction family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NAN, _INF = np.nan, np.inf
_BFLOAT16 = ml_dtypes.bfloat16
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_INTEGERS = (*_SIGNED, *_UNSIGNED)
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_LOWEST = -(2**63)


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _fold(items: list[Any], op: str) -> Any:
    """The reduction of a list of Python numbers by its definition."""
    if op in ("Max", "Min"):
        return math.nan if any(x != x for x in items) else (max if op == "Max" else min)(items)
    if op == "Prod":
        return math.prod(items)
    total = math.fsum(items) if isinstance(items[0], float) else sum(items)
    if op == "Sum":
        return total
    return (
        total / len(items)
        if isinstance(items[0], float | complex)
        else abs(total) // len(items) * (1 if total >= 0 else -1)
    )


def _by_definition(op: str, keep: bool = False) -> Callable[..., Any]:
    """Reduce by Python numbers; integers wrap."""

    def expected(x: Any, axis: Any) -> Any:
        array = np.asarray(x)
        axes = tuple(int(item) % array.ndim for item in np.reshape(axis, -1))
        kept = [index for index in range(array.ndim) if index not in axes]
        rows = array.transpose([*kept, *axes]).reshape([*(array.shape[index] for index in kept), -1])
        is_float = array.dtype.kind not in "iuc"
        flat = (rows.astype(np.float64) if is_float else rows).reshape(-1, rows.shape[-1]).tolist()
        values = np.array([_wrapped(_fold(row, op), array.dtype) for row in flat], array.dtype)
        shape = [1 if index in axes else size for index, size in enumerate(array.shape)]
        return values.reshape(shape if keep else [array.shape[index] for index in kept])

    return expected


def _wrapped(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "iu":
        return value
    lowest = int(np.iinfo(dtype).min)
    return (value - lowest) % (1 << 8 * dtype.itemsize) + lowest


_NUMERIC = ("Sum", "Mean", "Prod")
_EXTREME = ("Max", "Min")
_AXES: list[tuple[str, Any]] = [
    ("one axis", [1]),
    ("scalar axis", 0),
    ("negative axis", -1),
    ("several axes", [2, 0]),
    ("all axes", [0, 1, 2]),
]

_BY_AXES = [
    OpCase(
        f"{op}/{dtype} {what}",
        op,
        [numbers(dtype, 2, 3, 5, low=-3, high=3), np.array(axis, np.int32)],
        expected=_by_definition(op),
    )
    for op in (*_NUMERIC, *_EXTREME)
    for dtype, selected in (
        ("float32", _AXES),
        ("float64", _AXES),
        ("float16", _AXES[:1]),
        ("bfloat16", _AXES[:1]),
        *((dtype, _AXES[:1]) for dtype in _INTEGERS),
        *((dtype, _AXES[3:4]) for dtype in ("complex64", "complex128") if op in _NUMERIC),
    )
    for what, axis in selected
]

_ALL = ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm")
_SHARED = [
    *(
        OpCase(
            f"{op}/keep_dims int64 axes",
            op,
            [numbers("float32", 2, 3, 5), np.array([0, 2], np.int64)],
            attrs={"keep_dims": True},
            expected=_by_definition(op, keep=True),
        )
        for op in (*_NUMERIC, *_EXTREME)
    ),
    *(
        OpCase(f"{op}/no axes", op, [numbers("float32", 2, 3), np.array([], np.int32)], expected=lambda x, axis: x)
        for op in (*_NUMERIC, *_EXTREME)
    ),
    *(
        OpCase(f"{op}/scalar", op, [np.float32(-2.5), np.array([], np.int32)], expected=lambda x, axis: x)
        for op in (*_NUMERIC, *_EXTREME)
    ),
    *(
        OpCase(f"{op}/O09 axis {axis}", op, [np.ones([2, 3], np.float32), np.array(axis, np.int64)], raises="axis")
        for op in _ALL
        for axis in (_LOWEST, 2, -3)
    ),
    *(
        OpCase(
            f"{op}/axis named twice",
            op,
            [np.ones([2, 3], np.float32), np.array([1, -1], np.int32)],
            raises="named twice",
        )
        for op in _ALL
    ),
    *(
        OpCase(f"{op}/axes of rank 2", op, [np.ones([2], np.float32), np.array([[0]], np.int32)], raises="not a vector")
        for op in _ALL
    ),
    *(
        OpCase(f"{op}/O09 axis {axis}", op, [np.ones([2, 3], np.bool_), np.array(axis, np.int64)], raises="axis")
        for op in ("Any", "All")
        for axis in (_LOWEST, 2)
    ),
    *(
        OpCase(
            f"{op}/{what} elements",
            op,
            [np.zeros([0, 2], np.float32), np.array(0, np.int32)],
            expected=_f32(value, value),
        )
        for op, what, value in (
            ("Sum", "no", 0),
            ("Mean", "no", _NAN),
            ("Prod", "no", 1),
            ("Max", "no", -_INF),
            ("Min", "no", _INF),
            ("EuclideanNorm", "no", 0),
        )
    ),
    *(
        OpCase(
            f"{op}/no {dtype} elements",
            op,
            [np.zeros([0], dtype), np.array(0, np.int32)],
            expected=np.array(value, dtype),
        )
        for dtype in _INTEGERS
        for op, value in (
            ("Sum", 0),
            ("Prod", 1),
            ("Max", np.iinfo(dtype).min),
            ("Min", np.iinfo(dtype).max),
        )
    ),
    *(
        OpCase(
            f"{op}/empty result",
            op,
            [np.zeros([2, 0], np.float32), np.array(0, np.int32)],
            expected=np.zeros([0], np.float32),
        )
        for op in _ALL
    ),
    *(
        OpCase(
            f"{op}/NaN wins",
            op,
            [_f32(1, _NAN, 3, 2), np.array(0, np.int32)],
            expected=np.float32(_NAN),
            differentiate=(),
        )
        for op in _ALL
    ),
]

_ODD = _f32(5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80, 55, 44)
_SPECIAL = [
    OpCase(
        "Sum/T09 bfloat16 ones",
        "Sum",
        [np.ones([70000], _BFLOAT16), np.array(0, np.int32)],
        expected=np.array(70144, _BFLOAT16),
    ),
    OpCase(
        "Mean/T09 bfloat16 ones",
        "Mean",
        [np.ones([70000], _BFLOAT16), np.array(0, np.int32)],
        expected=np.array(1, _BFLOAT16),
    ),
    *(
        OpCase(
            f"Mean/T09 float16 {count}",
            "Mean",
            [np.full([count], 2, np.float16), np.array(0, np.int32)],
            expected=np.float16(2),
            deviation="TensorFlow's sum overflows float16",
        )
        for count in (70528, 40000)
    ),
    OpCase(
        "Mean/T09 float16 matrix",
        "Mean",
        [np.full([40000, 2], 2, np.float16), np.array(0, np.int32)],
        expected=np.array([2, 2], np.float16),
        deviation="TensorFlow's sum overflows float16",
    ),
    OpCase(
        "Sum/float16 overflows to infinity",
        "Sum",
        [np.full([40000], 2, np.float16), np.array(0, np.int32)],
        expected=np.float16(_INF),
    ),
    OpCase(
        "Sum/C17 matrix",
        "Sum",
        [np.full([250, 250], 1.23456, np.float32), np.array([0, 1], np.int32)],
        expected=np.float32(62500 * np.float64(np.float32(1.23456))),
    ),
    OpCase(
        "Sum/C17 vector",
        "Sum",
        [np.full([10**6], 0.1, np.float32), np.array(0, np.int32)],
        expected=np.float32(10**6 * np.float64(np.float32(0.1))),
        deviation="TensorFlow loses digits: its sums have few blocks",
    ),
    OpCase(
        "Sum/C17 long columns",
        "Sum",
        [np.full([200000, 3], 0.1, np.float32), np.array(0, np.int32)],
        expected=np.full([3], 200000 * np.float64(np.float32(0.1)), np.float32),
        deviation="TensorFlow loses digits: its sums have few blocks",
    ),
    OpCase(
        "Sum/C17 long wide columns",
        "Sum",
        [np.full([50000, 20], 0.1, np.float32), np.array(0, np.int32)],
        expected=np.full([20], 50000 * np.float64(np.float32(0.1)), np.float32),
        deviation="TensorFlow loses digits: its sums have few blocks",
    ),
    OpCase(
        "Sum/C17 first and last axis",
        "Sum",
        [np.full([3000, 2, 30], 0.1, np.float32), np.array([0, 2], np.int32)],
        expected=np.full([2], 90000 * np.float64(np.float32(0.1)), np.float32),
        deviation="TensorFlow loses digits: its sums have few blocks",
    ),
    OpCase(
        "Mean/C17 channels",
        "Mean",
        [np.full([20, 50, 50, 3], 0.1, np.float32), np.array([0, 1, 2], np.int32)],
        expected=np.full([3], 0.1, np.float32),
        deviation="TensorFlow loses digits: its sums have few blocks",
    ),
    OpCase(
        "Sum/integers wrap",
        "Sum",
        [np.array([100, 100], np.int8), np.array(0, np.int32)],
        expected=np.array(-56, np.int8),
    ),
    OpCase(
        "Prod/integers wrap",
        "Prod",
        [np.array([16, 16], np.uint8), np.array(0, np.int32)],
        expected=np.array(0, np.uint8),
    ),
    OpCase(
        "Mean/integers do not overflow",
        "Mean",
        [np.array([200, 200], np.uint8), np.array(0, np.int32)],
        expected=np.array(200, np.uint8),
    ),
    OpCase(
        "Mean/integers round towards zero",
        "Mean",
        [np.array([[-1, 1], [-2, 2]], np.int32), np.array(0, np.int32)],
        expected=np.array([-1, 1], np.int32),
    ),
    OpCase(
        "Mean/uint64 beyond int64",
        "Mean",
        [np.array([2**63 + 4, 2], np.uint64), np.array(0, np.int32)],
        expected=np.array(2**62 + 3, np.uint64),
    ),
    OpCase(
        "Mean/no integers",
        "Mean",
        [np.zeros([0], np.int32), np.array(0, np.int32)],
        expected=np.array(0, np.int32),
        oracle=False,
    ),
    OpCase(
        "Sum/infinities",
        "Sum",
        [_f32(_INF, -_INF, 1), np.array(0, np.int32)],
        expected=np.float32(_NAN),
        differentiate=(),
    ),
    OpCase("Prod/G03 one zero", "Prod", [np.array([0.0, 2.0]), np.array(0, np.int32)], expected=np.array(0.0)),
    OpCase("Prod/G03 two zeros", "Prod", [np.array([0.0, 0.0, 3.0]), np.array(0, np.int32)], expected=np.array(0.0)),
    OpCase(
        "Prod/G03 zeros along two of three axes",
        "Prod",
        [np.array([[[0.0, 2.0], [3.0, 0.5]], [[1.5, 0.0], [0.0, 4.0]]]), np.array([2, 0], np.int32)],
        expected=lambda x, axis: x[0, :, 0] * x[0, :, 1] * x[1, :, 0] * x[1, :, 1],
    ),
    OpCase(
        "Prod/three zeros in five",
        "Prod",
        [np.array([0.0, 2.0, 0.0, 0.0, 3.0]), np.array(0, np.int32)],
        expected=np.array(0.0),
    ),
    OpCase(
        "Max/G05 ties", "Max", [_f32(0.6, 0.6, 0.3), np.array(0, np.int32)], expected=np.float32(0.6), differentiate=()
    ),
    *(
        OpCase(
            f"{op}/C09 uint8 length {length}",
            op,
            [_ODD[:length].astype(np.uint8), np.array(0, np.int32)],
            expected=np.array(value, dtype),
        )
        for length in range(15, 21)
        for op, value, dtype in (("Min", 1, np.uint8), ("ArgMin", 1, np.int64))
    ),
    *(
        OpCase(
            f"{op}/C09 int8 length {length}",
            op,
            [-_ODD[:length].astype(np.int8), np.array(0, np.int32)],
            expected=np.array(value, dtype),
        )
        for length in range(15, 21)
        for op, value, dtype in (("Max", -1, np.int8), ("ArgMax", 1, np.int64))
    ),
    *(
        OpCase(
            f"{op}/C01 NaN at {position} of {length}",
            op,
            [np.where(np.arange(length) == position, _NAN, 1).astype(np.float32), np.array(0, np.int32)],
            expected=np.float32(_NAN),
            differentiate=(),
        )
        for op in _EXTREME
        for length in (1, 4, 8, 17, 33)
        for position in sorted({0, length - 1})
    ),
    *(
        OpCase(
            f"{op}/half and bfloat16 NaN {np.dtype(dtype).name}",
            op,
            [np.array([1, _NAN], dtype), np.array(0, np.int32)],
            expected=np.array(_NAN, dtype),
            differentiate=(),
        )
        for op in _EXTREME
        for dtype in (np.float16, _BFLOAT16)
    ),
]

_LOGICAL = [
    *(
        OpCase(
            f"{op}/{what}",
            op,
            [x, np.array(axis, np.int32)],
            attrs={"keep_dims": keep},
            expected=lambda x, axis, function=function, keep=keep: _by_bools(function, x, axis, keep),
        )
        for op, function in (("Any", any), ("All", all))
        for what, x, axis, keep in (
            ("one axis", np.array([[True, False, True], [False, False, True]]), 0, False),
            ("kept axis", np.array([[True, False, True], [False, False, True]]), 1, True),
            ("all axes", np.array([[True, True], [True, True]]), [0, 1], False),
            ("no elements", np.zeros([2, 0], np.bool_), 1, False),
            ("odd size", np.arange(17) > 15, 0, False),
        )
    ),
]


def _by_bools(function: Callable[..., bool], x: Any, axis: Any, keep: bool) -> Any:
    axes = tuple(int(item) for item in np.reshape(axis, -1))
    if len(axes) == x.ndim:
        result = np.array(function(x.reshape(-1).tolist()))
    else:
        result = np.array([function(row.tolist()) for row in np.moveaxis(x, axes[0], -1)])
    return np.expand_dims(result, axes) if keep else result


def _first(x: Any, axis: Any, *, largest: bool) -> Any:
    """The first position of the extreme; NaN never wins unless there is nothing else."""
    rows = np.moveaxis(np.asarray(x), int(axis), -1)
    never = -_INF if largest else _INF

    def position(row: list[Any]) -> int:
        values = [never if item != item else item for item in row]
        return values.index(max(values) if largest else min(values))

    flat = [position(row) for row in rows.reshape(-1, rows.shape[-1]).tolist()]
    return np.array(flat, np.int64).reshape(rows.shape[:-1])


_POSITION = [
    *(
        OpCase(
            f"{op}/{what}",
            op,
            [x, np.array(axis, np.int32)],
            expected=lambda x, axis, op=op: _first(x, axis, largest=op == "ArgMax"),
        )
        for op in ("ArgMax", "ArgMin")
        for what, x, axis in (
            *((f"{dtype} axis 1", numbers(dtype, 2, 5, 3, low=-3, high=3), 1) for dtype in (*_INTEGERS, *_FLOATS)),
            ("bool", np.array([[False, True, True], [True, False, False]]), 1),
            ("negative axis", numbers("float32", 4, 7), -1),
            ("ties", np.array([3, 1, 3, 1], np.int32), 0),
            ("no rows", np.zeros([0, 3], np.float32), 1),
            ("O31 denormal", _f32(-1, -0.0, 1.4e-45), 0),
            ("O31 NaN in the middle", _f32(1, _NAN, 3), 0),
            ("O31 NaN first", _f32(_NAN, 1, 3), 0),
            ("O31 NaN and infinity", _f32(_NAN, -_INF, _INF), 0),
            *((f"O31 {size} NaN", np.full([size], _NAN, np.float32), 0) for size in (2, 3, 5, 17, 33)),
        )
        if not (op == "ArgMax" and what == "O31 denormal")
    ),
    OpCase(
        "ArgMax/O31 denormal",
        "ArgMax",
        [_f32(-1, -0.0, 1.4e-45), np.array(0, np.int32)],
        expected=np.array(2),
        deviation="TensorFlow flushes denormals to zero",
    ),
    OpCase(
        "ArgMax/int32 result",
        "ArgMax",
        [_f32(1, 3, 2), np.array(0, np.int64)],
        attrs={"output_type": "int32"},
        expected=np.array(1, np.int32),
    ),
    OpCase(
        "ArgMin/int32 result",
        "ArgMin",
        [_f32(1, 3, 2), np.array(0, np.int64)],
        attrs={"output_type": "int32"},
        expected=np.array(0, np.int32),
    ),
    *(
        OpCase(
            f"{op}/{what}",
            op,
            [x, np.array(axis, np.int64)],
            raises=text,
            deviation="TensorFlow cuts the axis to 32 bits" if "O09" in what else None,
        )
        for op in ("ArgMax", "ArgMin")
        for what, x, axis, text in (
            ("empty axis", np.zeros([2, 0], np.float32), 1, "empty axis"),
            ("O09 axis INT64_MIN", np.ones([2], np.float32), _LOWEST, "axis"),
            ("scalar", np.float32(3), 0, "axis"),
            ("axis vector", np.ones([2], np.float32), [0], "not a scalar"),
        )
    ),
]

_NORM = [
    *(
        OpCase(
            f"EuclideanNorm/{dtype}",
            "EuclideanNorm",
            [numbers(dtype, 3, 4, low=0.5, high=3), np.array(1, np.int32)],
            expected=lambda x, axis: np.sqrt((np.abs(x.astype(np.complex128)) ** 2).sum(1)).astype(x.dtype),
        )
        for dtype in (*_FLOATS, "complex64", "complex128")
    ),
    OpCase(
        "EuclideanNorm/kept axes",
        "EuclideanNorm",
        [np.array([[3.0, 4.0]]), np.array([0, 1], np.int32)],
        attrs={"keep_dims": True},
        expected=np.array([[5.0]]),
    ),
    OpCase(
        "EuclideanNorm/integers",
        "EuclideanNorm",
        [np.array([1, 1, 1], np.int32), np.array(0, np.int32)],
        expected=np.array(1, np.int32),
    ),
    OpCase(
        "EuclideanNorm/G01 zero",
        "EuclideanNorm",
        [_f32(0, 0), np.array(0, np.int32)],
        expected=np.float32(0),
        differentiate=(),
    ),
    OpCase(
        "EuclideanNorm/G01 squares that vanish",
        "EuclideanNorm",
        [_f32(1e-30, 0), np.array(0, np.int32)],
        expected=np.float32(1e-30),
        exact=True,
        differentiate=(),
        deviation="TensorFlow's squares underflow",
    ),
    OpCase(
        "EuclideanNorm/squares that overflow",
        "EuclideanNorm",
        [np.array([3e30, 4e30], np.float32), np.array(0, np.int32)],
        expected=np.float32(5e30),
        differentiate=(),
        deviation="TensorFlow's squares overflow",
    ),
    OpCase(
        "EuclideanNorm/float64 squares that overflow",
        "EuclideanNorm",
        [np.array([3e200, 4e200]), np.array(0, np.int32)],
        expected=np.array(5e200),
        differentiate=(),
        deviation="TensorFlow's squares overflow",
    ),
    OpCase(
        "EuclideanNorm/infinity",
        "EuclideanNorm",
        [np.array([3.0, -_INF]), np.array(0, np.int32)],
        expected=np.array(_INF),
        differentiate=(),
    ),
]

CASES = [*_BY_AXES, *_SHARED, *_SPECIAL, *_LOGICAL, *_POSITION, *_NORM]
