"""NumPy kernels of the phrases family: arrays of objects, one Python call per string."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.ragged import check_splits
from headrace.kernels.registry import register_kernel
from headrace.ops.phrases import joined_axes
from headrace.ops.shapes import checked_sizes, scalar_of
from headrace.types import Array

__all__: list[str] = []


def _bytes(op: OpContext, name: str) -> bytes:
    text = op.attr(name)
    return text if isinstance(text, bytes) else str(text).encode()


def _joined(glue: bytes, rows: Sequence[Sequence[bytes]], shape: Sequence[int]) -> Array:
    result = np.empty(len(rows), object)
    for index, row in enumerate(rows):
        result[index] = glue.join(row)
    return result.reshape(shape)


@register_kernel("ReduceJoin")
def _reduce_join(op: OpContext, texts: Array, indices: Array) -> Array:
    axes = joined_axes(indices, texts.ndim)
    kept = [axis for axis in range(texts.ndim) if axis not in axes]
    count = int(np.prod([texts.shape[axis] for axis in axes], dtype=np.int64))
    sizes = [texts.shape[axis] for axis in kept]
    rows = np.transpose(texts, [*kept, *reversed(axes)]).reshape(int(np.prod(sizes, dtype=np.int64)), count).tolist()
    shape = [1 if axis in axes else size for axis, size in enumerate(texts.shape)] if op.attr("keep_dims") else sizes
    return _joined(_bytes(op, "separator"), rows, shape)


@register_kernel("UnsortedSegmentJoin")
def _segment_join(op: OpContext, texts: Array, ids: Array, num_segments: Array) -> Array:
    (count,) = checked_sizes([scalar_of(num_segments, "num_segments")])
    wrong = ids[(ids < 0) | (ids >= count)]
    if wrong.size:
        raise InvalidArgumentError(
            "a segment id is out of range",
            expected=f"0 <= id < {count}",
            got=str(int(wrong[0])),
            hint="raise num_segments, or leave strings out with hr.boolean_mask",
        )
    inner = texts.shape[ids.ndim :]
    columns = int(np.prod(inner, dtype=np.int64))
    rows: list[list[bytes]] = [[] for _ in range(count * columns)]
    for number, row in zip(ids.reshape(-1).tolist(), texts.reshape(ids.size, columns).tolist(), strict=True):
        for column, text in enumerate(row):
            rows[number * columns + column].append(text)
    return _joined(_bytes(op, "separator"), rows, (count, *inner))


@register_kernel("StringNGrams")
def _ngrams(op: OpContext, words: Array, splits: Array) -> tuple[Array, Array]:
    if splits.size or words.size:
        check_splits(splits, len(words))
    left, right, glue = (_bytes(op, name) for name in ("left_pad", "right_pad", "separator"))
    most, given = op.attr("pad_width"), words.tolist()
    result: list[bytes] = []
    ends = [0] if splits.size else []
    for start, end in pairwise(splits.tolist()):
        row, before = given[start:end], len(result)
        for width in op.attr("ngram_widths"):
            pad = width - 1 if most < 0 else min(most, width - 1)
            padded = [left] * pad + row + [right] * pad
            result += [glue.join(padded[at : at + width]) for at in range(len(padded) - width + 1)]
        if op.attr("preserve_short_sequences") and row and len(result) == before:
            result.append(glue.join([left] * most + row + [right] * most))
        ends.append(len(result))
    texts = np.empty(len(result), object)
    texts[:] = result
    return texts, np.array(ends, splits.dtype)
