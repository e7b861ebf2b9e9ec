"""Cases of the ragged family. Expectations are built row by row from nested Python lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase


def _i64(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


_SPLITS = _i64(0, 3, 3, 4)
_OUTER, _INNER = _i64(0, 2, 2, 3), _i64(0, 2, 3, 4)
_BROKEN = (
    ("late", _i64(1, 3, 3, 4), r"do not begin at 0"),
    ("none", _i64(), r"do not begin at 0"),
    ("unordered", _i64(0, 3, 2, 4), r"out of order"),
)


def _range(
    what: str, starts: Any, limits: Any, deltas: Any, rows: list[Any], dtype: Any = np.int32, **attrs: Any
) -> OpCase:
    splits = np.cumsum([0, *map(len, rows)]).astype(attrs.get("Tsplits", np.int64))
    values = np.array([value for row in rows for value in row], dtype)
    inputs = [np.array(item, dtype) for item in (starts, limits, deltas)]
    return OpCase(f"RaggedRange/{what}", "RaggedRange", inputs, attrs, (splits, values), exact=True, differentiate=())


def _sums(start: float, delta: float, count: int, dtype: Any) -> list[Any]:
    """Each number from the one before it, rounded every time."""
    values = [dtype(start)]
    for _ in range(count - 1):
        values.append(dtype(values[-1] + dtype(delta)))
    return values


def _refused_range(what: str, starts: Any, limits: Any, deltas: Any, message: str) -> OpCase:
    inputs = [np.array(item, np.int32) for item in (starts, limits, deltas)]
    return OpCase(f"RaggedRange/{what}", "RaggedRange", inputs, raises=message)


_RANGES = [
    _range("rows", [0, 5, 8], [3, 5, 12], 1, [[0, 1, 2], [], [8, 9, 10, 11]]),
    _range("steps", 0, [3, 5, -2], [1, 2, -1], [[0, 1, 2], [0, 2, 4], [0, -1]]),
    _range("one row", 1, 4, 1, [[1, 2, 3]]),
    _range("wrong way", [3, 0], [0, 3], [1, -1], [[], []]),
    _range("no rows", [], 5, 1, []),
    _range("int32 splits", [0, 1], [2, 3], 1, [[0, 1], [1, 2]], Tsplits=np.int32),
    _range("int64", [2**40], [2**40 + 2], 1, [[2**40, 2**40 + 1]], np.int64),
    _range("float32 adds up", 0, 1, 0.1, [_sums(0, 0.1, 10, np.float32)], np.float32),
    _range("float64 adds up", 0, 1, 0.1, [_sums(0, 0.1, 10, np.float64)], np.float64),
    _range("bfloat16", 0, 1, 0.25, [_sums(0, 0.25, 4, ml_dtypes.bfloat16)], ml_dtypes.bfloat16),
    _refused_range("lengths differ", [0, 1], [3, 4, 5], 1, r"different lengths"),
    _refused_range("one is no scalar", [0, 1], [3], 1, r"different lengths"),
    _refused_range("no step", [0, 1], [3, 4], 0, r"a row has no step"),
    _refused_range("matrix", [[0, 1]], [3, 4], 1, r"'starts' of RaggedRange has a wrong rank"),
]


def _dense(
    what: str,
    shape: Any,
    values: Any,
    default: Any,
    partitions: Sequence[Any],
    expected: Any,
    types: Sequence[str] | None = None,
    **extra: Any,
) -> OpCase:
    if types is None:
        types = ["ROW_SPLITS"] * len(partitions)
    given = [np.array(shape, np.int64), values, np.array(default, values.dtype), list(partitions)]
    word = {"raises": expected} if isinstance(expected, str) else {"expected": np.array(expected, values.dtype)}
    name = f"RaggedTensorToTensor/{what}"
    return OpCase(name, "RaggedTensorToTensor", given, {"row_partition_types": types}, **word, **extra)


_NUMBERS = np.array([1.0, 2.0, 3.0, 4.0])
_PAIRS = np.array([[1.0, 2.0], [3.0, 4.0]])
_ROWS = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
_LONGEST = [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
_DEEP = [[[1, 2], [3, 0]], [[0, 0], [0, 0]], [[4, 0], [0, 0]]]

_TO_TENSOR = [
    _dense("longest row", [-1, -1], _NUMBERS, 0, [_SPLITS], _LONGEST),
    _dense("any shape", -1, _NUMBERS, 0, [_SPLITS], _LONGEST),
    _dense("cut", [2, 2], _NUMBERS, 0, [_SPLITS], [[1, 2], [0, 0]]),
    _dense("filled", [5, 4], _NUMBERS, 9, [_SPLITS], [[1, 2, 3, 9], [9] * 4, [4, 9, 9, 9], [9] * 4, [9] * 4]),
    _dense("row numbers", [-1, -1], _NUMBERS, 0, [np.int64(3), _i64(0, 0, 0, 2)], _LONGEST, _ROWS),
    _dense("two levels", [-1, -1, -1], _NUMBERS, 0, [_OUTER, _INNER], _DEEP),
    _dense(
        "two levels of row numbers",
        [-1, -1, -1],
        _NUMBERS,
        0,
        [np.int64(3), _i64(0, 0, 2), _i64(0, 0, 1, 2)],
        _DEEP,
        [*_ROWS, "VALUE_ROWIDS"],
    ),
    _dense("cut inside", [-1, 1, 3], _NUMBERS, 7, [_OUTER, _INNER], [[[1, 2, 7]], [[7, 7, 7]], [[4, 7, 7]]]),
    _dense("rows of pairs", [-1, -1, -1], _PAIRS, 0, [_i64(0, 2, 2)], [[[1, 2], [3, 4]], [[0, 0], [0, 0]]]),
    _dense("default of an element", [-1, -1, 2], _PAIRS, [8, 9], [_i64(0, 1, 1, 2)], [[[1, 2]], [[8, 9]], [[3, 4]]]),
    _dense("int32 parts", [-1, -1], _NUMBERS, 0, [_SPLITS.astype(np.int32)], _LONGEST),
    _dense("strings", [-1, -1], np.array([b"a", b"b"], object), b"-", [_i64(0, 2, 2)], [[b"a", b"b"], [b"-", b"-"]]),
    _dense("no rows", [-1, -1], np.zeros(0), 0, [_i64(0)], np.zeros((0, 0))),
    _dense("shape of too few axes", [-1], _NUMBERS, 0, [_SPLITS], r"does not fit the ragged tensor"),
    _dense("shape of pairs", [-1, -1, 3], _PAIRS, 0, [_i64(0, 1, 2)], r"does not fit the ragged tensor"),
    _dense("default of too many axes", [-1, -1], _NUMBERS, [0], [_SPLITS], r"the default value does not fit"),
    _dense("unknown form", [-1, -1], _NUMBERS, 0, [_SPLITS], r"how its rows are divided", ["XX"]),
    _dense(
        "a value too many",
        [-1, -1],
        _NUMBERS,
        0,
        [_i64(0, 3, 3, 5)],
        r"do not hold its 4 values",
        deviation="TensorFlow reads on where the splits end beyond the values, or leaves values out",
    ),
    _dense("row numbers out of order", [-1, -1], _NUMBERS, 0, [np.int64(2), _i64(0, 0, 0, 2)], r"out of order", _ROWS),
    *(_dense(f"splits {what}", [-1, -1], _NUMBERS, 0, [splits], message) for what, splits, message in _BROKEN[:2]),
    _dense(
        "splits unordered",
        [-1, -1],
        _NUMBERS,
        0,
        [_BROKEN[2][1]],
        _BROKEN[2][2],
        deviation="TensorFlow takes a row that ends before it begins for an empty one; values get into wrong rows",
    ),
]


def _sparse(what: str, nested: Sequence[Any], values: Any, *expected: Any) -> OpCase:
    name = f"RaggedTensorToSparse/{what}"
    if isinstance(expected[0], str):
        return OpCase(name, "RaggedTensorToSparse", [list(nested), values], raises=expected[0])
    indices, shape = expected
    flat = np.reshape(values, -1)
    return OpCase(name, "RaggedTensorToSparse", [list(nested), values], expected=(indices, flat, _i64(*shape)))


_TO_SPARSE = [
    _sparse("rows", [_SPLITS], _NUMBERS, _i64([0, 0], [0, 1], [0, 2], [2, 0]), [3, 3]),
    _sparse("two levels", [_OUTER, _INNER], _NUMBERS, _i64([0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 0, 0]), [3, 2, 2]),
    _sparse("pairs", [_i64(0, 1, 1, 2)], _PAIRS, _i64([0, 0, 0], [0, 0, 1], [2, 0, 0], [2, 0, 1]), [3, 1, 2]),
    _sparse("strings", [_i64(0, 1)], np.array([b"a"], object), _i64([0, 0]), [1, 1]),
    _sparse("no rows", [_i64(0)], np.zeros(0, np.int32), np.zeros((0, 2), np.int64), [0, 0]),
    _sparse("empty rows", [_i64(0, 0, 0)], np.zeros((0, 3), np.int32), np.zeros((0, 3), np.int64), [2, 0, 3]),
    _sparse("int32 splits", [_i32(0, 1)], np.array([True]), _i64([0, 0]), [1, 1]),
    _sparse("too many values", [_i64(0, 3, 3, 5)], _NUMBERS, r"do not hold its 4 values"),
    _sparse("levels do not fit", [_OUTER, _i64(0, 1, 4)], _NUMBERS, r"do not hold its 2 values"),
    *(_sparse(f"splits {what}", [splits], _NUMBERS, message) for what, splits, message in _BROKEN),
]


def _gather(what: str, nested: Sequence[Any], values: Any, indices: Any, *expected: Any, depth: int = 1) -> OpCase:
    inputs = [list(nested), values, np.array(indices, np.int32)]
    name, attrs = f"RaggedGather/{what}", {"OUTPUT_RAGGED_RANK": depth}
    if isinstance(expected[0], str):
        return OpCase(name, "RaggedGather", inputs, attrs, raises=expected[0])
    *splits, rows = expected
    return OpCase(
        name, "RaggedGather", inputs, attrs, (*(_i64(*item) for item in splits), np.array(rows, values.dtype))
    )


def _one_row(nested: Sequence[Any]) -> Callable[..., Any]:
    def build(apply: Any, values: Any) -> Any:
        return apply("RaggedGather", list(nested), values, np.int32(2), OUTPUT_RAGGED_RANK=len(nested) - 1)

    return build


_GATHER = [
    _gather("rows", [_SPLITS], _NUMBERS, [2, 0, 0], [0, 1, 4, 7], [4, 1, 2, 3, 1, 2, 3]),
    _gather("a matrix", [_SPLITS], _NUMBERS, [[2, 0], [1, 1]], [0, 2, 4], [0, 1, 4, 4, 4], [4, 1, 2, 3], depth=2),
    _gather("two levels", [_OUTER, _INNER], _NUMBERS, [2, 0], [0, 1, 3], [0, 1, 3, 4], [4, 1, 2, 3], depth=2),
    _gather("pairs", [_i64(0, 1, 1, 2)], _PAIRS, [2, 1], [0, 1, 1], [[3, 4]]),
    _gather("strings", [_i64(0, 2, 3)], np.array([b"a", b"b", b"c"], object), [1, 0], [0, 1, 3], [b"c", b"a", b"b"]),
    _gather("nothing", [_SPLITS], _NUMBERS, [], [0], []),
    _gather("too far", [_SPLITS], _NUMBERS, [3], r"index is out of range[^$]*0 <= index < 3"),
    _gather("negative", [_SPLITS], _NUMBERS, [-1], r"index is out of range"),
    _gather("another depth", [_SPLITS], _NUMBERS, [[0]], r"rows of another depth"),
    _gather("too many values", [_i64(0, 3, 3, 5)], _NUMBERS, [2, 0], r"do not hold its 4 values"),
    _gather("splits unordered", [_BROKEN[2][1]], _NUMBERS, [2, 0], r"out of order"),
    OpCase("RaggedGather/one row", "RaggedGather", [_NUMBERS], {}, np.array([4.0]), build=_one_row([_SPLITS])),
    OpCase(
        "RaggedGather/one row of two levels",
        "RaggedGather",
        [_NUMBERS],
        {},
        (_i64(0, 1), np.array([4.0])),
        build=_one_row([_OUTER, _INNER]),
    ),
]

CASES = [*_RANGES, *_TO_TENSOR, *_TO_SPARSE, *_GATHER]
