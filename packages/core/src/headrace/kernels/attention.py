"""NumPy kernels of attention: some queries at a time, so that their scores stay in the cache and off the heap."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.accumulation import stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.attention import attention_scale, check_attention
from headrace.types import Array, Shape

__all__: list[str] = []

SCORE_BYTES = 8 << 20
"""The most memory for scores at a time, unless one query of all batches needs more."""


def _blocks(queries: int, bytes_each: int) -> Iterator[slice]:
    length = max(1, SCORE_BYTES // max(1, bytes_each))
    for start in range(0, queries, length):
        yield slice(start, min(start + length, queries))


def _weights(op: OpContext, query: Array, key: Array, mask: Array, block: slice, queries: int) -> Array:
    """softmax(scale * query key') of the queries in a block: `[batch..., block, keys]`."""
    keys = key.shape[-2]
    scores = np.matmul(query[..., block, :], np.swapaxes(key, -1, -2))
    scores *= scores.dtype.type(attention_scale(op, query.shape[-1]))
    allowed = mask[..., block, :]
    if op.attr("causal"):
        rows = np.arange(block.start, block.stop)[:, None] + (keys - queries)
        allowed = allowed & (np.arange(keys) <= rows)
    np.copyto(scores, -np.inf, where=~allowed)
    if keys:
        with np.errstate(invalid="ignore"):  # a query that may look at no key gives NaN
            scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
    return np.asarray(scores)


def _whole_mask(query: Array, key: Array, mask: Array) -> Array:
    """The mask as a view of the shape of all scores."""
    return np.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))


@register_kernel("Attention", takes_out=True)
def _attention(op: OpContext, query: Array, key: Array, value: Array, mask: Array, out: Array | None = None) -> Array:
    shape = check_attention(*(Shape(item.shape) for item in (query, key, value, mask))).as_tuple()
    q, k, v = widened(query), widened(key), widened(value)
    allowed = _whole_mask(query, key, mask)
    result = np.empty(shape, q.dtype)
    queries = q.shape[-2]
    for block in _blocks(queries, _bytes_per_query(q, k)):
        result[..., block, :] = np.matmul(_weights(op, q, k, allowed, block, queries), v)
    return stored(result, query.dtype, out)


def _bytes_per_query(q: Array, k: Array) -> int:
    return math.prod(q.shape[:-2]) * int(k.shape[-2]) * int(q.itemsize)


@register_kernel("AttentionGrad")
def _attention_grad(
    op: OpContext, query: Array, key: Array, value: Array, mask: Array, gradient: Array
) -> tuple[Array, Array, Array]:
    """With weights p and dp = g value': ds = p (dp - sum(p dp)), and the scores are scale * query key'."""
    check_attention(*(Shape(item.shape) for item in (query, key, value, mask))).merge(Shape(gradient.shape))
    q, k, v, g = widened(query), widened(key), widened(value), widened(gradient)
    allowed = _whole_mask(query, key, mask)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    scale = q.dtype.type(attention_scale(op, q.shape[-1]))
    queries = q.shape[-2]
    for block in _blocks(queries, 2 * _bytes_per_query(q, k)):
        weights, part = _weights(op, q, k, allowed, block, queries), g[..., block, :]
        slopes = np.matmul(part, np.swapaxes(v, -1, -2))
        slopes -= (weights * slopes).sum(axis=-1, keepdims=True)
        slopes *= weights
        slopes *= scale
        dq[..., block, :] = np.matmul(slopes, k)
        dk += np.matmul(np.swapaxes(slopes, -1, -2), q[..., block, :])
        dv += np.matmul(np.swapaxes(weights, -1, -2), part)
    return tuple(stored(item, query.dtype, None) for item in (dq, dk, dv))  # type: ignore[return-value]  # three
