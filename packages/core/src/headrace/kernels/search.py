"""NumPy kernels that find elements."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.search import check_in_top_k, nth_place, top_k_count
from headrace.types import Array, Shape


@register_kernel("Unique")
def _unique(op: OpContext, x: Array) -> tuple[Array, Array]:
    values, places, _ = _distinct(x)
    return values, places.astype(op.attr("out_idx").array_type)


@register_kernel("UniqueWithCounts")
def _unique_with_counts(op: OpContext, x: Array) -> tuple[Array, Array, Array]:
    dtype = op.attr("out_idx").array_type
    values, places, counts = _distinct(x)
    return values, places.astype(dtype), counts.astype(dtype)


def _distinct(x: Array) -> tuple[Array, Array, Array]:
    """The different elements by first appearance, the number of each element's, and how often each appears."""
    _, first, places, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    order = np.argsort(first)
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return x[first[order]], rank[places.reshape(-1)], counts[order]


@register_kernel("TopKV2")
def _top_k(op: OpContext, x: Array, k: Array) -> tuple[Array, Array]:
    """Sort the reversed rows and reverse the result.

    This puts the first of equal elements first without negating: the lowest integer has no opposite.
    """
    x = np.asarray(x)
    size = x.shape[-1]
    count = top_k_count(k, size)
    order = size - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    indices = order[..., :count]
    return np.take_along_axis(x, indices, -1), indices.astype(op.attr("index_type").array_type)


@register_kernel("NthElement")
def _nth_element(op: OpContext, x: Array, n: Array) -> Array:
    x = np.asarray(x)
    size = x.shape[-1]
    place = nth_place(n, size)
    return np.array(np.sort(x, axis=-1)[..., size - 1 - place if op.attr("reverse") else place])


@register_kernel("InTopK")
def _in_top_k(op: OpContext, predictions: Array, targets: Array) -> Array:
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    check_in_top_k(Shape(predictions.shape), Shape(targets.shape))
    rows, classes = predictions.shape
    valid = (targets >= 0) & (targets < classes)
    if not classes:
        return np.zeros(rows, bool)
    chosen = predictions[np.arange(rows), np.where(valid, targets, 0)]
    better = (predictions > chosen[:, None]).sum(1)
    answers: Array = valid & np.isfinite(predictions).all(1) & (better < op.attr("k"))
    return answers


@register_kernel("ListDiff")
def _list_diff(op: OpContext, x: Array, y: Array) -> tuple[Array, Array]:
    (places,) = np.nonzero(~np.isin(x, y))
    return x[places], places.astype(op.attr("out_idx").array_type)
