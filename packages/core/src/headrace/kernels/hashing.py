"""Kernels of the hashing family."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.fingerprint import fingerprint64
from headrace.kernels.registry import register_kernel
from headrace.kernels.siphash import siphash
from headrace.types import Array


@register_kernel("StringToHashBucketFast")
def _to_hash_bucket(op: OpContext, text: Array) -> Array:
    buckets = op.attr("num_buckets")
    flat = [fingerprint64(value) % buckets for value in np.reshape(text, -1).tolist()]
    return np.array(flat, np.int64).reshape(np.shape(text))


@register_kernel("StringToHashBucketStrong")
def _to_strong_hash_bucket(op: OpContext, text: Array) -> Array:
    buckets, (first, second) = op.attr("num_buckets"), op.attr("key")
    flat = [siphash(value, first, second) % buckets for value in np.reshape(text, -1).tolist()]
    return np.array(flat, np.int64).reshape(np.shape(text))
