"""Cases of the bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16


def _f32(values: Any) -> Array:
    return np.array(values, np.float32)


def _i32(values: Any) -> Array:
    return np.array(values, np.int32)


_BFLOAT16 = bfloat16.array_type
_X = (np.arange(24, dtype=np.float32) - 12).reshape(2, 2, 2, 3) / 4
_BIAS = _f32([0.5, -1.0, 2.0])
_DIGITS_LOST = "TensorFlow adds long columns in their own dtype and loses digits"
_FIRST = {"data_format": "NCHW"}


def _add(axis: int) -> Any:
    def reference(value: Array, bias: Array) -> Array:
        result = np.moveaxis(np.array(value), axis, -1).copy()
        for channel, amount in enumerate(bias):
            result[..., channel] += amount
        return np.moveaxis(result, -1, axis)

    return reference


def _sums(axis: int) -> Any:
    def reference(gradient: Array) -> Array:
        wide = np.moveaxis(np.asarray(gradient, np.complex128 if gradient.dtype.kind == "c" else np.float64), axis, -1)
        return np.array([wide[..., channel].sum() for channel in range(wide.shape[-1])])

    return reference


CASES = [
    OpCase("BiasAdd/images", "BiasAdd", [_X, _BIAS], expected=_add(-1)),
    OpCase("BiasAdd/matrix", "BiasAdd", [_X[0, 0], _BIAS], expected=_add(-1)),
    OpCase("BiasAdd/NCHW", "BiasAdd", [_X.transpose(0, 3, 1, 2), _BIAS], _FIRST, expected=_add(1)),
    OpCase("BiasAdd/NCHW, three axes", "BiasAdd", [_X[0].transpose(0, 2, 1), _BIAS], _FIRST, expected=_add(1)),
    OpCase("BiasAdd/empty", "BiasAdd", [_X[:0], _BIAS], expected=_add(-1)),
    OpCase("BiasAdd/int64", "BiasAdd", [np.arange(6).reshape(3, 2), np.array([10, -10])], expected=_add(-1)),
    OpCase("BiasAdd/float16", "BiasAdd", [_X.astype(np.float16), _BIAS.astype(np.float16)], expected=_add(-1)),
    OpCase("BiasAdd/bfloat16", "BiasAdd", [_X.astype(_BFLOAT16), _BIAS.astype(_BFLOAT16)], expected=_add(-1)),
    OpCase("BiasAdd/another number of channels", "BiasAdd", [_X, _BIAS[:2]], raises="the bias does not fit"),
    OpCase("BiasAdd/vector", "BiasAdd", [_BIAS, _BIAS], raises="there is no axis of channels"),
    OpCase("BiasAdd/bias is a scalar", "BiasAdd", [_X, np.float32(1)], raises="rank is wrong"),
    OpCase("BiasAddGrad/images", "BiasAddGrad", [_X], expected=_sums(-1)),
    OpCase("BiasAddGrad/NCHW", "BiasAddGrad", [_X.transpose(0, 3, 1, 2)], _FIRST, expected=_sums(1)),
    OpCase("BiasAddGrad/NCHW, matrix", "BiasAddGrad", [_X[0, 0]], _FIRST, expected=_sums(1), oracle=False),
    OpCase("BiasAddGrad/empty", "BiasAddGrad", [_X[:0]], expected=_sums(-1)),
    OpCase("BiasAddGrad/complex64", "BiasAddGrad", [(_X[0, 0] * (1 + 2j)).astype(np.complex64)], expected=_sums(-1)),
    OpCase("BiasAddGrad/int32", "BiasAddGrad", [_i32([[1, 2], [3, 4]])], expected=_sums(-1)),
    OpCase(
        "BiasAddGrad/T09 float16, many",
        "BiasAddGrad",
        [np.full((5000, 2), 2, np.float16)],
        expected=np.array([10000, 10000], np.float16),
    ),
    OpCase(
        "BiasAddGrad/T09 bfloat16, many",
        "BiasAddGrad",
        [np.ones((70000, 1), _BFLOAT16)],
        expected=np.array([70144], _BFLOAT16),
        deviation=_DIGITS_LOST,
    ),
    OpCase(
        "BiasAddGrad/C17 float32, many",
        "BiasAddGrad",
        [np.full((10**6, 1), 0.1, np.float32)],
        expected=_f32([100000.0014901161]),
        deviation=_DIGITS_LOST,
    ),
    OpCase("BiasAddGrad/vector", "BiasAddGrad", [_BIAS], raises="there is no axis of channels"),
]
