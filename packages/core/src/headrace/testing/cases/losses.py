"""Cases of softmax and the losses. What must come out is computed in float64 from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16


def _f32(values: Any) -> Array:
    return np.array(values, np.float32)


def _f64(values: Any) -> Array:
    return np.array(values, np.float64)


def _i32(values: Any) -> Array:
    return np.array(values, np.int32)


_BFLOAT16 = bfloat16.array_type
_NAN, _INF = np.nan, np.inf

_LOGITS = np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 0.25, -1.0, 2.0], [5.0, 5.0, 5.0, -5.0]], np.float32)
_LABELS = np.array([[0.25, 0.25, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0], [0.125, 0.125, 0.25, 0.5]], np.float32)
_CLASSES = np.array([3, 0, 2])
_FAR = np.full((10, 1), -1.7e14, np.float32)
_NOT_A_ROW = "TensorFlow gives 0 for the other classes of a row whose sum is NaN; 0 / NaN is NaN"


def _softmax(x: Array) -> Array:
    with np.errstate(all="ignore"):
        wide = np.asarray(x, np.float64)
        weights = np.exp(wide - wide.max(axis=-1, keepdims=True, initial=-np.inf))
        result: Array = weights / weights.sum(axis=-1, keepdims=True)
        return result


def _log_softmax(x: Array) -> Array:
    with np.errstate(all="ignore"):
        wide = np.asarray(x, np.float64)
        shifted = wide - wide.max(axis=-1, keepdims=True, initial=-np.inf)
        result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return result


def _cross_entropy(x: Array, labels: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        probabilities, wide = _softmax(x), np.asarray(labels, np.float64)
        return -(wide * _log_softmax(x)).sum(axis=-1), probabilities - wide


def _sparse_cross_entropy(x: Array, labels: Array) -> tuple[Array, Array]:
    backprop = np.array(_softmax(x))
    loss = np.zeros(len(x))
    for row, label in enumerate(labels):
        loss[row] = -_log_softmax(x)[row, label]
        backprop[row, label] -= 1
    return loss, backprop


def _l2_loss(t: Array) -> Array:
    return np.asarray(sum(float(value) ** 2 for value in t.reshape(-1)) / 2)


def _of_rows(op: str, reference: Any) -> list[OpCase]:
    def case(label: str, logits: Any, expected: Any = reference, **options: Any) -> OpCase:
        return OpCase(f"{op}/{label}", op, [logits], expected=expected, **options)

    return [
        case("matrix", _LOGITS),
        case("vector", _LOGITS[0]),
        case("three axes", _LOGITS.reshape(3, 2, 2)),
        case("17 classes", np.linspace(-3, 3, 34, dtype=np.float32).reshape(2, 17)),
        case("no rows", np.zeros((0, 3), np.float32)),
        case("no classes", np.zeros((2, 0), np.float32)),
        case("float16", _LOGITS.astype(np.float16)),
        case("bfloat16", _LOGITS.astype(_BFLOAT16)),
        case("float64", _LOGITS.astype(np.float64)),
        case("large logits", _f32([[1000, 0, 999], [-1000, -999, -1000]])),
        # Infinite logits and NaN have no derivative.
        case(
            "NaN",
            _f32([[_NAN, 0], [0, 1]]),
            differentiate=(),
            deviation=_NOT_A_ROW if op == "Softmax" else None,
        ),
        case("scalar", np.float32(1), expected=None, raises="the logits are a scalar"),
    ]


def _sparse(label: str, logits: Any, labels: Any, expected: Any = _sparse_cross_entropy, **options: Any) -> OpCase:
    op = "SparseSoftmaxCrossEntropyWithLogits"
    return OpCase(f"{op}/{label}", op, [logits, labels], expected=expected, **options)


def _dense(label: str, logits: Any, labels: Any, expected: Any = _cross_entropy, **options: Any) -> OpCase:
    op = "SoftmaxCrossEntropyWithLogits"
    return OpCase(f"{op}/{label}", op, [logits, labels], expected=expected, **options)


def _in_top_k(label: str, predictions: Any, targets: Any, k: int, expected: Any) -> OpCase:
    return OpCase(
        f"InTopKV2/{label}", "InTopKV2", [np.float32(predictions), np.int32(targets), np.int32(k)], expected=expected
    )


CASES = [
    *_of_rows("Softmax", _softmax),
    *_of_rows("LogSoftmax", _log_softmax),
    OpCase(
        "Softmax/O27 -inf",
        "Softmax",
        [_f32([-_INF, 0, 1])],
        expected=_f32([0, 0.26894143, 0.7310586]),
        differentiate=(),
    ),
    OpCase("Softmax/O27 only -inf", "Softmax", [_f32([-_INF, -_INF])], expected=_f32([_NAN, _NAN]), differentiate=()),
    OpCase("LogSoftmax/O27 -inf", "LogSoftmax", [_f32([-_INF, 0])], expected=_f32([-_INF, 0]), differentiate=()),
    # At this magnitude a step of 1e-6 is lost.
    OpCase(
        "Softmax/C15 one class, far from 0", "Softmax", [_FAR], expected=np.ones((10, 1), np.float32), differentiate=()
    ),
    OpCase("LogSoftmax/C15 one class, far from 0", "LogSoftmax", [_FAR], expected=np.zeros((10, 1)), differentiate=()),
    OpCase(
        "Softmax/C15 infinity",
        "Softmax",
        [_f32([_INF, 0])],
        expected=_f32([_NAN, _NAN]),
        differentiate=(),
        deviation=_NOT_A_ROW,
    ),
    _sparse("rows", _LOGITS, _CLASSES),
    _sparse("int32 labels", _LOGITS, _CLASSES.astype(np.int32)),
    _sparse("one class", _f32([[3], [-2]]), np.array([0, 0])),
    _sparse("no rows", np.zeros((0, 3), np.float32), np.zeros(0, np.int64)),
    _sparse("large logits", _f32([[1000, 0], [0, -1000]]), np.array([1, 0])),
    _sparse("float16", _LOGITS.astype(np.float16), _CLASSES),
    _sparse("bfloat16", _LOGITS.astype(_BFLOAT16), _CLASSES),
    _sparse("float64", _LOGITS.astype(np.float64), _CLASSES),
    _sparse("G09 two classes", _f64([[0, 0]]), np.array([0]), (_f64([np.log(2)]), _f64([[-0.5, 0.5]]))),
    _sparse(
        "infinite logits and NaN",
        _f32([[_NAN, 0, 1], [-_INF, 0, 1], [_INF, 0, 0]]),
        np.array([1, 0, 0]),
        (_f32([_NAN, _INF, _NAN]), _f32([[_NAN] * 3, [-1, 0.26894143, 0.7310586], [_NAN] * 3])),
        differentiate=(),
    ),
    _sparse("label too large", _LOGITS, np.array([3, 4, 0]), raises="a label is not a class"),
    _sparse("negative label", _LOGITS, np.array([3, -1, 0]), raises="a label is not a class"),
    _sparse("no classes", np.zeros((2, 0), np.float32), np.array([0, 0]), raises="there is no class"),
    _sparse("too few labels", _LOGITS, np.array([1, 2]), raises="the labels do not fit the logits"),
    _sparse("vector of logits", _LOGITS[0], np.array([1]), raises="rank is wrong"),
    _dense("rows", _LOGITS, _LABELS),
    _dense("labels for all rows", _LOGITS, _LABELS[2:]),
    _dense("logits for all rows", _LOGITS[:1], _LABELS),
    _dense("no rows", np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)),
    _dense("no classes", np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32)),
    _dense("float16", _LOGITS.astype(np.float16), _LABELS.astype(np.float16)),
    _dense("bfloat16", _LOGITS.astype(_BFLOAT16), _LABELS.astype(_BFLOAT16)),
    _dense("float64", _LOGITS.astype(np.float64), _LABELS.astype(np.float64)),
    _dense("G09 two classes", _f64([[0, 0]]), _f64([[1, 0]]), (_f64([np.log(2)]), _f64([[-0.5, 0.5]]))),
    _dense(
        "infinite logit",
        _f32([[-_INF, 0, 1]]),
        _f32([[1, 0, 0]]),
        (_f32([_INF]), _f32([[-1, 0.26894143, 0.7310586]])),
        differentiate=(),
    ),
    _dense("shapes differ", _LOGITS, _LABELS[:2], raises="broadcast together|do not fit the logits"),
    _dense("vectors", _LOGITS[0], _LABELS[0], raises="rank is wrong"),
    OpCase("L2Loss/matrix", "L2Loss", [_LOGITS], expected=_l2_loss),
    OpCase("L2Loss/scalar", "L2Loss", [np.float64(3)], expected=_l2_loss),
    OpCase("L2Loss/empty", "L2Loss", [np.zeros((0, 2), np.float32)], expected=_l2_loss),
    OpCase("L2Loss/float16", "L2Loss", [_LOGITS.astype(np.float16)], expected=_l2_loss),
    OpCase("L2Loss/T09 bfloat16, many", "L2Loss", [np.ones(3000, _BFLOAT16)], expected=_BFLOAT16.type(1500)),
    _in_top_k("first two", [[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]], [0, 1], 2, np.array([False, True])),
    _in_top_k("O21 ties are all in", [[1, 3, 3, 2, 3]] * 3, [4, 1, 3], 1, np.array([True, True, False])),
    _in_top_k("not finite", [[_NAN, 1, 2], [_INF, 0, 1]], [1, 2], 2, np.array([False, False])),
    _in_top_k("not a class", [[1, 2], [1, 2]], [2, -1], 2, np.array([False, False])),
    _in_top_k("no rows", np.zeros((0, 3)), np.zeros(0), 2, np.zeros(0, bool)),
    OpCase(
        "InTopKV2/too few targets",
        "InTopKV2",
        [_LOGITS, _i32([1]), np.int32(1)],
        raises="the targets do not fit the predictions",
    ),
]
