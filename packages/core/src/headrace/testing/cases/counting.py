"""Cases of operations that count."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


_ROWS = np.array([0, 3, 3, 5])


def _ragged(what: str, splits: Any, weights: Any, expected: Any, values: Any = (1, 1, 9, 0, 2), **extra: Any) -> OpCase:
    inputs = [np.asarray(splits), _i32(*values), np.int32(3), weights]
    attrs = {"binary_output": extra.pop("binary_output", False)}
    word = {"raises": expected} if isinstance(expected, str) else {"expected": expected}
    return OpCase(f"RaggedBincount/{what}", "RaggedBincount", inputs, attrs, **word, **extra)


_RAGGED = [
    _ragged("counts", _ROWS, _i32(), _i32([0, 2, 0], [0, 0, 0], [1, 0, 1])),
    _ragged("weights", _ROWS, np.array([1.0, 2, 3, 4, 5]), np.array([[0.0, 3, 0], [0, 0, 0], [4, 0, 5]])),
    _ragged("binary", _ROWS, np.zeros(0), np.array([[0.0, 1, 0], [0, 0, 0], [1, 0, 1]]), binary_output=True),
    _ragged("no rows", [0], _i32(), np.zeros((0, 3), np.int32), ()),
    _ragged("negative", [0, 2], _i32(), r"a number to be counted is negative", (1, -1)),
    _ragged("too few values", [0, 6], _i32(), r"do not hold its 5 values"),
    _ragged("late", [1, 5], _i32(), r"do not begin at 0"),
    _ragged("weights do not fit", [0, 5], np.ones(2), r"weights do not fit", deviation="TensorFlow reads beyond them"),
    _ragged(
        "unordered",
        [0, 3, 2, 5],
        _i32(),
        r"out of order",
        deviation="TensorFlow takes a row that ends before it begins for an empty one",
    ),
]

_PLACES = np.array([[0, 0], [0, 2], [0, 3], [2, 0], [2, 1]])


def _sparse(
    what: str, weights: Any, expected: Any, *, places: Any = _PLACES, shape: Any = (3, 4), **extra: Any
) -> OpCase:
    attrs = {"binary_output": extra.pop("binary_output", False)}
    inputs = [np.asarray(places, np.int64), _i32(1, 1, 9, 0, 2), np.array(shape), np.int32(3), weights]
    word = {"raises": expected} if isinstance(expected, str) else {"expected": expected}
    return OpCase(f"SparseBincount/{what}", "SparseBincount", inputs, attrs, **word, **extra)


_SPARSE = [
    _sparse("rows", _i32(), _i32([0, 2, 0], [0, 0, 0], [1, 0, 1])),
    _sparse("weights", np.array([1.0, 2, 3, 4, 5]), np.array([[0.0, 3, 0], [0, 0, 0], [4, 0, 5]])),
    _sparse("binary", np.zeros(0), np.array([[0.0, 1, 0], [0, 0, 0], [1, 0, 1]]), binary_output=True),
    _sparse("vector", _i32(), _i32(1, 2, 1), places=np.arange(5)[:, None], shape=[9]),
    _sparse("too few places", _i32(), r"a place for each value", places=_PLACES[:4]),
    _sparse("beyond", _i32(), r"an index is out of range", shape=(2, 4)),
    _sparse("rank 3", _i32(), r"rank of the numbers is wrong", places=np.zeros((5, 3)), shape=(1, 1, 1)),
    _sparse("weights do not fit", np.ones(2), r"weights do not fit", deviation="TensorFlow reads beyond them"),
]

CASES = [
    *_SPARSE,
    *_RAGGED,
    OpCase(
        "HistogramFixedWidth/five parts",
        "HistogramFixedWidth",
        [np.array([-1.0, 0.0, 1.5, 2.0, 5.0, 15]), np.array([0.0, 5.0]), 5],
        expected=_i32(2, 1, 1, 0, 2),
    ),
    OpCase(
        "HistogramFixedWidth/integers",
        "HistogramFixedWidth",
        [_i32([0, 1], [9, 10]), _i32(0, 10), 2],
        {"dtype": "int64"},
        np.array([2, 2]),
    ),
    OpCase(
        "HistogramFixedWidth/infinite values",
        "HistogramFixedWidth",
        [np.array([-np.inf, np.inf]), np.array([0.0, 1.0]), 3],
        expected=_i32(1, 0, 1),
    ),
    OpCase(
        "HistogramFixedWidth/empty",
        "HistogramFixedWidth",
        [np.zeros((0, 2)), np.array([0.0, 1.0]), 2],
        expected=_i32(0, 0),
    ),
    OpCase(
        "HistogramFixedWidth/O01 NaN",
        "HistogramFixedWidth",
        [np.array([np.nan, 1], np.float32), np.array([1, 2], np.float32), 100],
        raises=r"NaN",
    ),
    OpCase(
        "HistogramFixedWidth/O03 width overflows float32",
        "HistogramFixedWidth",
        [np.array([3e38, 100], np.float32), np.array([-1e38, 3e38], np.float32), 1],
        expected=_i32(2),
    ),
    OpCase(
        "HistogramFixedWidth/width overflows float64",
        "HistogramFixedWidth",
        [np.array([-1.7e308, 1.0, 1.7e308]), np.array([-1.7e308, 1.7e308]), 2],
        expected=_i32(1, 2),
    ),
    OpCase(
        "HistogramFixedWidth/no parts",
        "HistogramFixedWidth",
        [np.ones(1), np.array([0.0, 1.0]), 0],
        raises=r"nbins >= 1",
    ),
    OpCase(
        "HistogramFixedWidth/range upside down",
        "HistogramFixedWidth",
        [np.ones(1), np.array([1.0, 0.0]), 2],
        raises=r"value_range is not a range",
    ),
    OpCase(
        "HistogramFixedWidth/three bounds",
        "HistogramFixedWidth",
        [np.ones(1), np.array([1.0, 0.0, 2.0]), 2],
        raises=r"two elements",
    ),
    OpCase("Bincount/counts", "Bincount", [_i32(1, 5, 1), 3, _i32()], expected=_i32(0, 2, 0)),
    OpCase(
        "Bincount/weights",
        "Bincount",
        [_i32([1, 5], [1, 0]), 3, np.array([[1.0, 2], [3, 4]])],
        expected=np.array([4.0, 4.0, 0.0]),
    ),
    OpCase("Bincount/nothing", "Bincount", [_i32(), 2, np.zeros(0, np.float32)], expected=np.zeros(2, np.float32)),
    OpCase("Bincount/no bins", "Bincount", [_i32(1), 0, np.zeros(0, np.int64)], expected=np.zeros(0, np.int64)),
    OpCase(
        "Bincount/negative number", "Bincount", [_i32(1, -5), 3, _i32()], raises=r"a number to be counted is negative"
    ),
    OpCase("Bincount/negative size", "Bincount", [_i32(1), -1, _i32()], raises=r"a size is negative"),
    OpCase("Bincount/size is a vector", "Bincount", [_i32(1), _i32(2, 2), _i32()], raises=r"size must be a scalar"),
    OpCase("Bincount/weights do not fit", "Bincount", [_i32(1, 5, 1), 3, np.ones(2)], raises=r"weights do not fit"),
    OpCase("DenseBincount/counts", "DenseBincount", [_i32(1, 5, 1), np.int32(3), _i32()], expected=_i32(0, 2, 0)),
    OpCase(
        "DenseBincount/rows and weights",
        "DenseBincount",
        [np.array([[1, 5, 1], [0, 2, 2]]), np.int64(3), np.array([[1.0, 2, 3], [4, 5, 6]])],
        expected=np.array([[0.0, 4, 0], [4, 0, 11]]),
    ),
    OpCase(
        "DenseBincount/binary",
        "DenseBincount",
        [_i32([1, 5, 1], [0, 2, 2]), np.int32(3), np.zeros(0, np.float32)],
        {"binary_output": True},
        np.array([[0, 1, 0], [1, 0, 1]], np.float32),
    ),
    OpCase("DenseBincount/negative", "DenseBincount", [_i32(1, -5), np.int32(3), _i32()], raises=r"negative"),
    OpCase(
        "DenseBincount/rank 3", "DenseBincount", [np.zeros((1, 1, 1), np.int32), np.int32(3), _i32()], raises=r"rank"
    ),
    OpCase(
        "DenseBincount/weights", "DenseBincount", [_i32(1, 5), np.int32(3), np.ones(3)], raises=r"weights do not fit"
    ),
    OpCase(
        "Bucketize/integers", "Bucketize", [_i32(-5, 0, 10, 150)], {"boundaries": [0.0, 10.0, 100.0]}, _i32(0, 1, 2, 3)
    ),
    OpCase(
        "Bucketize/not finite",
        "Bucketize",
        [np.array([[np.nan, -np.inf, np.inf]], np.float32)],
        {"boundaries": [0.0, 10.0]},
        _i32([2, 0, 2]),
    ),
    OpCase("Bucketize/no boundaries", "Bucketize", [np.float64(1)], {"boundaries": []}, np.int32(0)),
    OpCase("Bucketize/empty", "Bucketize", [np.zeros((0, 2))], {"boundaries": [1.0]}, np.zeros((0, 2), np.int32)),
    OpCase(
        "Bucketize/not sorted",
        "Bucketize",
        [np.ones(1)],
        {"boundaries": [2.0, 1.0]},
        raises=r"boundaries are not sorted",
    ),
]
