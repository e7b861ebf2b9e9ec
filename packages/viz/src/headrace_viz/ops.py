"""Operations whose value is a serialised `Summary`, to be written by `EventWriter.summary`.

Loaded by Headrace when it meets one of their types (entry point `headrace.ops`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

import headrace as hr
from headrace.errors import AlreadyExistsError, InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext
from headrace_viz.proto.event_pb2 import Summary

Strings = NDArray[np.object_]
"""An array of bytes objects."""

_NOT_DIFFERENTIABLE = "a summary is a record for people, not a number"


@hr.register_op(
    "ScalarSummary",
    inputs={"tags": "string", "values": "T"},
    outputs={"summary": "string"},
    attrs={"T": hr.attr.ordered},
)
def _scalar_summary_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """A serialised Summary with one scalar for each tag.

    Tags and values have the same shape; the values are stored as float32, NaN and infinities included.
    """
    tags, values = (spec.shape for spec in op.inputs)
    if not tags.is_compatible_with(values):
        raise ShapeError(
            "tags and values of a summary do not match",
            expected="equal shapes",
            got=f"{tags} tags, {values} values",
            hint="give each value a tag of its own",
        )
    return [hr.Shape([])]


@hr.register_kernel("ScalarSummary")
def _scalar_summary(op: OpContext, tags: Strings, values: NDArray[np.generic]) -> Strings:
    if tags.shape != values.shape:
        raise ShapeError(
            f"tags and values of summary '{op.name}' do not match",
            expected="equal shapes",
            got=f"{list(tags.shape)} tags, {list(values.shape)} values",
            hint="give each value a tag of its own",
        )
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32).ravel().tolist()
    summary = Summary()
    for tag, number in zip(tags.ravel().tolist(), numbers, strict=True):
        summary.value.add(tag=_text(op, tag), simple_value=number)
    return _scalar_string(summary.SerializeToString())


def _text(op: OpContext, tag: bytes) -> str:
    try:
        return tag.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"summary '{op.name}' has a tag that is no text",
            expected="UTF-8",
            got=f"{tag!r:.60}",
            hint="make the tag from a str",
        ) from error


@hr.register_op(
    "MergeSummary",
    inputs={"inputs": "N*string"},
    outputs={"summary": "string"},
    attrs={"N": hr.attr.int(minimum=1)},
)
def _merge_summary_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """A serialised Summary with the values of all those in the inputs, which may have any shapes; no tag may repeat."""
    return [hr.Shape([])]


@hr.register_kernel("MergeSummary")
def _merge_summary(op: OpContext, inputs: Sequence[Strings]) -> Strings:
    merged = Summary()
    tags: set[str] = set()
    for data in (data for array in inputs for data in array.ravel().tolist()):
        for value in _parsed(op, data).value:
            if value.tag in tags:
                raise AlreadyExistsError(
                    f"summary '{op.name}' merges two values of one tag",
                    expected="each tag once",
                    got=f"'{value.tag}' twice",
                    hint="give one of them another tag",
                )
            tags.add(value.tag)
            merged.value.append(value)
    return _scalar_string(merged.SerializeToString())


def _parsed(op: OpContext, data: bytes) -> Summary:
    try:
        return Summary.FromString(data)
    except (DecodeError, TypeError) as error:
        raise InvalidArgumentError(
            f"summary '{op.name}' cannot merge its inputs",
            expected="serialised Summaries",
            got=f"{data!r:.60}",
            hint="merge the results of summary operations only",
        ) from error


def _scalar_string(data: bytes) -> Strings:
    string = np.empty([], object)
    string[()] = data
    return string


hr.no_gradient("ScalarSummary", _NOT_DIFFERENTIABLE)
hr.no_gradient("MergeSummary", _NOT_DIFFERENTIABLE)
