"""NumPy kernels of softmax and the losses. Rows are shifted by their maximum, so that no exponential overflows."""

from __future__ import annotations

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.accumulation import stored, widened
from headrace.kernels.registry import register_kernel
from headrace.types import Array

__all__: list[str] = []

Pair = tuple[Array, Array]


def _shifted(x: Array, out: Array | None = None) -> Array:
    """x - max(x) along the last axis: -inf stays -inf, a row of -inf becomes NaN.

    It is written to `out` if that has the dtype, so that nothing of the size of x is allocated; `out` may be x.
    """
    target = out if out is not None and out.dtype == x.dtype else None
    return np.asarray(np.subtract(x, x.max(axis=-1, keepdims=True, initial=-np.inf), out=target))


@register_kernel("Softmax", takes_out=True, in_place=True)
def _softmax(op: OpContext, logits: Array, out: Array | None = None) -> Array:
    shifted = _shifted(widened(logits), out)
    exponentials = np.exp(shifted, out=shifted)
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return stored(exponentials, logits.dtype, out)


@register_kernel("LogSoftmax", takes_out=True, in_place=True)
def _log_softmax(op: OpContext, logits: Array, out: Array | None = None) -> Array:
    shifted = _shifted(widened(logits))
    return stored(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)), logits.dtype, out)


@register_kernel("SparseSoftmaxCrossEntropyWithLogits", takes_out=True)
def _sparse_cross_entropy(op: OpContext, logits: Array, labels: Array, out: Pair | None = None) -> Pair:
    rows, classes = logits.shape
    if not classes:
        raise InvalidArgumentError(
            "there is no class",
            expected="at least one class",
            got=f"logits {list(logits.shape)}",
            hint="give the last layer of the model an output for each class",
        )
    if rows and (int(labels.min()) < 0 or int(labels.max()) >= classes):
        wrong = labels[(labels < 0) | (labels >= classes)]
        raise InvalidArgumentError(
            "a label is not a class",
            expected=f"0 <= label < {classes}",
            got=f"{int(wrong[0])}",
            hint="count classes from 0, or give the model as many outputs as there are classes",
        )
    shifted = _shifted(widened(logits), None if out is None else out[1])
    chosen = (np.arange(rows), labels)
    of_labels = shifted[chosen]
    exponentials = np.exp(shifted, out=shifted)
    sums = exponentials.sum(axis=-1)
    loss = np.log(sums) - of_labels
    exponentials /= sums[:, None]
    exponentials[chosen] -= 1
    return _pair(loss, exponentials, logits.dtype, out)


@register_kernel("SoftmaxCrossEntropyWithLogits", takes_out=True)
def _cross_entropy(op: OpContext, logits: Array, labels: Array, out: Pair | None = None) -> Pair:
    x, z = np.broadcast_arrays(widened(logits), widened(labels))
    shifted = _shifted(np.ascontiguousarray(x))
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=-1, keepdims=True)
    loss = (z * (np.log(sums) - shifted)).sum(axis=-1)
    return _pair(loss, exponentials / sums - z, logits.dtype, out)


def _pair(loss: Array, backprop: Array, dtype: np.dtype[np.generic], out: Pair | None) -> Pair:
    first, second = (None, None) if out is None else out
    return stored(loss, dtype, first), stored(backprop, dtype, second)


@register_kernel("L2Loss")
def _l2_loss(op: OpContext, t: Array) -> Array:
    flat = widened(t).reshape(-1)
    return np.asarray(np.dot(flat, flat) / 2).astype(t.dtype)


@register_kernel("InTopKV2")
def _in_top_k(op: OpContext, predictions: Array, targets: Array, k: Array) -> Array:
    classes = predictions.shape[1]
    known = (targets >= 0) & (targets < classes)
    if not classes:
        return np.asarray(known)
    own = np.take_along_axis(predictions, np.where(known, targets, 0)[:, None], axis=1)
    finite = np.isfinite(predictions).all(axis=1)
    return np.asarray(known & finite & ((predictions > own).sum(axis=1) < k))
