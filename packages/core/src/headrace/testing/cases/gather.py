"""Cases of operations that read and write elements by their indices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_MATRIX = np.array([[1.5, -2.0, 0.5], [4.0, 5.0, -6.5]], np.float32)
_CUBE = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
_STRINGS = np.array([b"", b"\x00\xff", b"a\x00"], object)
_INT64_MIN = -(2**63)
_OUT = r"an index is out of range"


def _i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def _gather(what: str, x: Any, indices: Any, axis: Any, expected: Any, batch_dims: int = 0, **more: Any) -> OpCase:
    return OpCase(f"GatherV2/{what}", "GatherV2", [x, indices, axis], {"batch_dims": batch_dims}, expected, **more)


def _gather_wrong(what: str, x: Any, indices: Any, axis: Any, raises: str, batch_dims: int = 0) -> OpCase:
    return OpCase(f"GatherV2/{what}", "GatherV2", [x, indices, axis], {"batch_dims": batch_dims}, raises=raises)


def _batched(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.stack([item[index] for item, index in zip(x, indices, strict=True)])


_BATCH_PICKS = _i32([2, 0], [1, 1])

CASES = [
    OpCase("Gather/rows", "Gather", [_MATRIX, _i32(1, 0, 1)], expected=_MATRIX[[1, 0, 1]]),
    OpCase("Gather/matrix of indices", "Gather", [_CUBE, np.array([[1], [0]])], expected=_CUBE[[[1], [0]]]),
    OpCase("Gather/one row", "Gather", [_MATRIX, np.int64(1)], expected=_MATRIX[1]),
    OpCase("Gather/out of range", "Gather", [_MATRIX, _i32(0, len(_MATRIX))], raises=r"index is out of range"),
    OpCase("Gather/scalar", "Gather", [np.float64(1), _i32(0)], raises=r"a scalar has no rows"),
    _gather("rows", _MATRIX, _i32(1, 0, 1), 0, _MATRIX[[1, 0, 1]]),
    _gather("columns", _MATRIX, _i32(2, 2, 0), 1, _MATRIX[:, [2, 2, 0]]),
    _gather("matrix of indices", _CUBE, _i32([0, 2], [1, 1]), -2, _CUBE[:, [[0, 2], [1, 1]]]),
    _gather("one row", _MATRIX, np.int64(1), 0, _MATRIX[1]),
    _gather("to a scalar", np.array([3.0, 4.0]), np.int16(1), np.int64(0), np.float64(4)),
    _gather("batch", _CUBE, _BATCH_PICKS, 1, _batched(_CUBE, _BATCH_PICKS), 1),
    _gather("batch, inner axis", _CUBE, _BATCH_PICKS, 2, np.stack([_CUBE[0][:, [2, 0]], _CUBE[1][:, [1, 1]]]), 1),
    _gather("batch from the end", _CUBE, _BATCH_PICKS, 1, _batched(_CUBE, _BATCH_PICKS), -1),
    _gather("two batch axes", _CUBE, _i32([0, 1, 2], [3, 2, 1]), 2, np.array([[0.0, 5, 10], [15, 18, 21]]), 2),
    _gather("strings", _STRINGS, _i32(2, 1), 0, _STRINGS[[2, 1]]),
    _gather("bfloat16", np.array([1, 2, 3], ml_dtypes.bfloat16), _i32(2, 2), 0, np.array([3, 3], ml_dtypes.bfloat16)),
    _gather("no indices", _MATRIX, _i32(), 1, np.zeros((2, 0), np.float32)),
    _gather("O11 no indices of nothing", np.zeros((0, 3), np.float32), _i32(), 0, np.zeros((0, 3), np.float32)),
    _gather_wrong("O11 index of nothing", np.zeros((0, 3), np.float32), _i32(0), 0, _OUT),
    _gather_wrong(
        "O09 axis INT64_MIN", np.array([[0.69]], np.float32), _i32(16), np.int64(_INT64_MIN), r"axis is out of range"
    ),
    _gather_wrong("negative index", _MATRIX, _i32(0, -1), 0, _OUT),
    _gather_wrong("index too large", _MATRIX, np.array([2]), 0, _OUT),
    _gather_wrong("scalar", np.float32(1), _i32(0), 0, r"out of range"),
    _gather_wrong("axis is a vector", _MATRIX, _i32(0), _i32(0, 1), r"axis must be a scalar"),
    _gather_wrong("batch axes differ", _CUBE, _i32([0], [0], [0]), 1, r"batch axes of params and indices differ", 1),
    _gather_wrong("axis within the batch", _CUBE, _BATCH_PICKS, 0, r"is a batch axis", 1),
    _gather_wrong("too many batch axes", _MATRIX, _i32([0], [0]), 1, r"batch_dims is out of range", 3),
    OpCase("GatherNd/elements", "GatherNd", [_MATRIX, _i32([0, 2], [1, 0])], expected=np.array([0.5, 4], np.float32)),
    OpCase("GatherNd/rows", "GatherNd", [_CUBE, np.array([[[1]], [[0]]])], expected=_CUBE[[[1], [0]]]),
    OpCase("GatherNd/one element", "GatherNd", [_MATRIX, np.array([1, 1], np.int16)], expected=np.float32(5)),
    OpCase(
        "GatherNd/the whole, twice", "GatherNd", [_MATRIX, np.zeros((2, 0), np.int32)], expected=np.stack([_MATRIX] * 2)
    ),
    OpCase("GatherNd/strings", "GatherNd", [_STRINGS, _i32([1], [0])], expected=_STRINGS[[1, 0]]),
    OpCase(
        "GatherNd/O11 no indices of nothing",
        "GatherNd",
        [np.zeros(0, np.float32), np.zeros((0, 1), np.int32)],
        expected=np.zeros(0, np.float32),
    ),
    OpCase("GatherNd/index of nothing", "GatherNd", [np.zeros(0, np.float32), _i32([0])], raises=_OUT),
    OpCase("GatherNd/negative index", "GatherNd", [_MATRIX, _i32([0, -1])], raises=_OUT),
    OpCase("GatherNd/index too large", "GatherNd", [_MATRIX, _i32([2, 0])], raises=_OUT),
    OpCase("GatherNd/too many coordinates", "GatherNd", [_MATRIX, _i32([0, 0, 0])], raises=r"more axes than there are"),
    OpCase("GatherNd/scalar indices", "GatherNd", [_MATRIX, np.int32(0)], raises=r"must have a last axis"),
    OpCase(
        "GatherNd/bad indices ignored",
        "GatherNd",
        [_MATRIX, _i32([0, 1], [5, 0], [1, -1])],
        {"bad_indices_policy": "IGNORE"},
        np.array([-2, 0, 0], np.float32),
    ),
    OpCase(
        "ScatterNd/repeated indices add up",
        "ScatterNd",
        [_i32([1], [3], [1]), np.array([10.0, 20, 5]), _i32(5)],
        expected=np.array([0.0, 15, 0, 20, 0]),
    ),
    OpCase(
        "ScatterNd/rows",
        "ScatterNd",
        [np.array([[1]]), _MATRIX[:1], np.array([2, 3])],
        expected=np.array([[0, 0, 0], [1.5, -2, 0.5]], np.float32),
    ),
    OpCase(
        "ScatterNd/one element",
        "ScatterNd",
        [_i32(1, 0), np.float64(3), _i32(2, 2)],
        expected=np.array([[0.0, 0], [3, 0]]),
        oracle=False,
    ),
    OpCase(
        "ScatterNd/nothing",
        "ScatterNd",
        [np.zeros((0, 1), np.int32), np.zeros((0, 2)), _i32(3, 2)],
        expected=np.zeros((3, 2)),
    ),
    OpCase(
        "ScatterNd/bool",
        "ScatterNd",
        [_i32([0], [0]), np.array([True, False]), _i32(2)],
        expected=np.array([True, False]),
    ),
    OpCase(
        "ScatterNd/bfloat16",
        "ScatterNd",
        [_i32([1], [1]), np.array([1, 2], ml_dtypes.bfloat16), _i32(2)],
        expected=np.array([0, 3], ml_dtypes.bfloat16),
    ),
    *(
        OpCase(
            f"ScatterNd/O13 bad row, {np.dtype(dtype).name}",
            "ScatterNd",
            [_i32([-1], [1], [2]), np.array([10, 11, 12], dtype), _i32(5)],
            raises=_OUT,
        )
        for dtype in (np.int32, np.float32)
    ),
    OpCase("ScatterNd/row too large", "ScatterNd", [_i32([5]), np.ones(1), _i32(5)], raises=_OUT),
    OpCase(
        "ScatterNd/updates do not fit", "ScatterNd", [_i32([0], [1]), np.ones(3), _i32(5)], raises=r"updates do not fit"
    ),
    OpCase("ScatterNd/negative size", "ScatterNd", [_i32([0]), np.ones(1), _i32(-5)], raises=r"a size is negative"),
    OpCase(
        "ScatterNd/bad indices ignored",
        "ScatterNd",
        [_i32([0], [9]), np.array([1.0, 2.0]), _i32(2)],
        {"bad_indices_policy": "IGNORE"},
        np.array([1.0, 0.0]),
    ),
    OpCase(
        "TensorScatterUpdate/elements",
        "TensorScatterUpdate",
        [_MATRIX, _i32([0, 0], [1, 2]), np.array([7, 8], np.float32)],
        expected=np.array([[7, -2, 0.5], [4, 5, 8]], np.float32),
    ),
    OpCase(
        "TensorScatterUpdate/rows",
        "TensorScatterUpdate",
        [_MATRIX, np.array([[1]]), -_MATRIX[:1]],
        expected=np.stack([_MATRIX[0], -_MATRIX[0]]),
    ),
    OpCase(
        "TensorScatterUpdate/G07 the last of repeated indices counts",
        "TensorScatterUpdate",
        [np.zeros(3), _i32([1], [1]), np.array([5.0, 6.0])],
        expected=np.array([0.0, 6.0, 0.0]),
        deviation="TensorFlow's gradient gives every update the gradient of the element that only the last one set",
    ),
    OpCase(
        "TensorScatterUpdate/strings",
        "TensorScatterUpdate",
        [_STRINGS, _i32([0]), np.array([b"new"], object)],
        expected=np.array([b"new", b"\x00\xff", b"a\x00"], object),
    ),
    OpCase(
        "TensorScatterUpdate/nothing",
        "TensorScatterUpdate",
        [_MATRIX, np.zeros((0, 2), np.int32), np.zeros(0, np.float32)],
        expected=_MATRIX,
        differentiate=(0,),
    ),
    OpCase("TensorScatterUpdate/bad row", "TensorScatterUpdate", [_MATRIX, _i32([2, 0]), _MATRIX[0, :1]], raises=_OUT),
    OpCase(
        "TensorScatterUpdate/updates do not fit",
        "TensorScatterUpdate",
        [_MATRIX, _i32([1]), _MATRIX[0, :1]],
        raises=r"updates do not fit",
    ),
    OpCase(
        "TensorScatterAdd/repeated",
        "TensorScatterAdd",
        [_MATRIX, _i32([0, 0], [0, 0]), np.array([7, 8], np.float32)],
        expected=np.array([[16.5, -2, 0.5], [4, 5, -6.5]], np.float32),
    ),
    OpCase(
        "TensorScatterAdd/rows",
        "TensorScatterAdd",
        [_MATRIX, np.array([[1]]), -_MATRIX[:1]],
        expected=np.stack([_MATRIX[0], _MATRIX[1] - _MATRIX[0]]),
    ),
    OpCase("TensorScatterAdd/bad row", "TensorScatterAdd", [_MATRIX, _i32([0, 3]), _MATRIX[0, :1]], raises=_OUT),
    OpCase(
        "TensorScatterSub/repeated",
        "TensorScatterSub",
        [_MATRIX, _i32([0, 0], [0, 0]), np.array([7, 8], np.float32)],
        expected=_MATRIX - np.array([[15, 0, 0], [0, 0, 0]], np.float32),
    ),
    OpCase("TensorScatterSub/bad row", "TensorScatterSub", [_MATRIX, _i32([0, 3]), _MATRIX[0, :1]], raises=_OUT),
    OpCase(
        "TensorScatterMax/rows",
        "TensorScatterMax",
        [np.array([1.0, 5.0, 3.0]), _i32([0], [0], [1]), np.array([2.0, 4.0, 4.5])],
        expected=np.array([4.0, 5.0, 3.0]),
    ),
    OpCase(
        "TensorScatterMax/integers",
        "TensorScatterMax",
        [_i32([1, 5], [3, 2]), np.array([[1]]), _i32([2, 9])],
        expected=_i32([1, 5], [3, 9]),
    ),
    OpCase(
        "TensorScatterMin/rows",
        "TensorScatterMin",
        [np.array([1.0, 5.0, 3.0]), _i32([1], [1], [0]), np.array([4.5, 2.0, 4.0])],
        expected=np.array([1.0, 2.0, 3.0]),
    ),
    OpCase("TensorScatterMin/bad row", "TensorScatterMin", [_MATRIX, _i32([2, 0]), _MATRIX[0, :1]], raises=_OUT),
    OpCase("InvertPermutation/three", "InvertPermutation", [_i32(2, 0, 1)], expected=_i32(1, 2, 0)),
    OpCase("InvertPermutation/none", "InvertPermutation", [np.zeros(0, np.int64)], expected=np.zeros(0, np.int64)),
    OpCase("InvertPermutation/repeated", "InvertPermutation", [_i32(0, 0)], raises=r"not a permutation"),
    OpCase("InvertPermutation/out of range", "InvertPermutation", [_i32(0, -1)], raises=r"not a permutation"),
    OpCase("InvertPermutation/matrix", "InvertPermutation", [_i32([0, 1])], raises=r"rank is wrong"),
]
