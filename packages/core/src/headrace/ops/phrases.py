"""Strings made of several strings of one tensor: joined along axes or by segment, and as sequences of a few words."""

from __future__ import annotations

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.reduction import normalize_axis
from headrace.ops.shapes import check_scalar
from headrace.types import Array, Shape, int32, int64

__all__ = ["joined_axes"]

_INDEX = attr.type(int32, int64)


@register_op(
    "ReduceJoin",
    inputs={"inputs": "string", "reduction_indices": "int32"},
    outputs={"output": "string"},
    attrs={"keep_dims": attr.bool(False), "separator": attr.string("")},
)
def _reduce_join_shape(op: InferenceContext) -> list[Shape]:
    """The strings along some axes joined: along the first of these axes, then the results along the next."""
    given, known = op.inputs[0].shape, op.constant(1)
    if given.dims is None:
        return [Shape()]
    if known is None:
        return [Shape([None] * len(given)) if op.attr("keep_dims") else Shape()]
    axes = joined_axes(known, len(given))
    kept = op.attr("keep_dims")
    return [Shape([1 if axis in axes else size for axis, size in enumerate(given.dims) if kept or axis not in axes])]


def joined_axes(indices: Array, rank: int) -> list[int]:
    """The axes that are joined, counted from the first, in the order in which they were given."""
    axes = [normalize_axis(int(axis), rank) for axis in np.reshape(indices, -1)]
    if len(set(axes)) < len(axes):
        raise InvalidArgumentError(
            "an axis is to be joined twice",
            expected="each axis at most once",
            got=str(np.reshape(indices, -1).tolist()),
            hint="axis -1 is the last one under another name",
        )
    return axes


@register_op(
    "UnsortedSegmentJoin",
    inputs={"inputs": "string", "segment_ids": "Tindices", "num_segments": "Tnumsegments"},
    outputs={"output": "string"},
    attrs={"separator": attr.string(""), "Tindices": _INDEX, "Tnumsegments": attr.type(int32, int64, default=int32)},
)
def _segment_join_shape(op: InferenceContext) -> list[Shape]:
    """The strings with each id joined, in their order; an empty one where there is none."""
    given, ids, number = op.inputs[0].shape, op.inputs[1].shape, op.constant(2)
    check_scalar(op.inputs[2].shape, "num_segments")
    if given.dims is None or ids.dims is None:
        return [Shape()]
    if not len(ids) or len(ids) > len(given) or not Shape(given.dims[: len(ids)]).is_compatible_with(ids):
        raise ShapeError(
            "the ids must cover the leading axes of the strings",
            expected=str(given),
            got=str(ids),
            hint="bring the axes that have ids to the front with hr.moveaxis; a scalar has no segments",
        )
    rows = None if number is None or int(number) < 0 else int(number)
    return [Shape([rows, *given.dims[len(ids) :]])]


@register_op(
    "StringNGrams",
    inputs={"data": "string", "data_splits": "Tsplits"},
    outputs={"ngrams": "string", "ngrams_splits": "Tsplits"},
    attrs={
        "separator": attr.string(),
        "ngram_widths": attr.list_of(attr.int()),
        "left_pad": attr.string(),
        "right_pad": attr.string(),
        "pad_width": attr.int(),
        "preserve_short_sequences": attr.bool(),
        "Tsplits": attr.type(int32, int64, default=int64),
    },
)
def _ngrams_shape(op: InferenceContext) -> list[Shape]:
    """The sequences of some numbers of words in each row of a ragged vector of words, joined, as a ragged vector."""
    op.inputs[0].shape.with_rank(1)
    if min(op.attr("ngram_widths"), default=1) < 1:
        raise InvalidArgumentError(
            "a sequence has no words",
            expected="ngram_widths of at least 1",
            got=str(list(op.attr("ngram_widths"))),
            hint="ngram_widths=[1, 2] gives the words and each two that follow each other",
        )
    return [Shape([None]), op.inputs[1].shape.with_rank(1)]
