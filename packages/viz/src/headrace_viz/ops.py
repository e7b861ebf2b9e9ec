"""Operations whose value is a serialised `Summary`, to be written by `EventWriter.summary`.

Loaded by Headrace when it meets one of their types (entry point `headrace.ops`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

import headrace as hr
from headrace.errors import AlreadyExistsError, InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext
from headrace_viz.histograms import histogram_proto
from headrace_viz.png import encode_png
from headrace_viz.proto.event_pb2 import Summary, SummaryMetadata
from headrace_viz.tensors import tensor_proto

Strings = NDArray[np.object_]
"""An array of bytes objects."""

_ZERO_THRESHOLD = 1e-6  # TensorFlow's: pictures whose values are all below it become flat
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
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32).ravel().tolist()
    summary = Summary()
    for tag, number in zip(tags.ravel().tolist(), numbers, strict=True):
        summary.value.add(tag=_text(op, tag), simple_value=number)
    return _scalar_string(summary.SerializeToString())


@hr.register_op(
    "HistogramSummary",
    inputs={"tag": "string", "values": "T"},
    outputs={"summary": "string"},
    attrs={"T": dataclasses.replace(hr.attr.ordered, default=hr.float32)},
)
def _histogram_summary_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """A serialised Summary with a histogram of all values, in buckets whose width grows by a tenth; all are finite."""
    _check_scalar(op, 0, "tag")
    return [hr.Shape([])]


@hr.register_kernel("HistogramSummary")
def _histogram_summary(op: OpContext, tag: Strings, values: NDArray[np.generic]) -> Strings:
    text = _text(op, tag.item())
    try:
        histogram = histogram_proto(values)
    except InvalidArgumentError as error:
        raise error.at(f"summary '{op.name}', tag '{text}'") from None
    return _scalar_string(Summary(value=[Summary.Value(tag=text, histo=histogram)]).SerializeToString())


@hr.register_op(
    "ImageSummary",
    inputs={"tag": "string", "tensor": "T"},
    outputs={"summary": "string"},
    attrs={
        "max_images": hr.attr.int(3, minimum=1),
        "T": hr.attr.type("uint8", "float16", "float32", "float64", default="float32"),
        "bad_color": hr.attr.tensor(np.array([255, 0, 0, 255], np.uint8)),
    },
)
def _image_summary_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """A serialised Summary with up to `max_images` pictures of a batch `[batch, height, width, 1, 3 or 4]`.

    Bytes are stored as they are. Other numbers are scaled, picture by picture: if all are at least 0, so that the
    largest becomes 255; else so that 0 becomes 128 and the one farthest from it 1 or 255. A pixel with a value that is
    not finite gets `bad_color`. Tags are `tag/image/0`, ..., or `tag/image` where `max_images` is 1.
    """
    _check_scalar(op, 0, "tag")
    shape = op.inputs[1].shape
    if shape.dims is not None and len(shape.dims) != 4:
        raise ShapeError(
            "an image summary needs a batch of pictures",
            expected="[batch, height, width, channels]",
            got=str(shape),
            hint="add an axis with hr.expand_dims",
        )
    return [hr.Shape([])]


@hr.register_kernel("ImageSummary")
def _image_summary(op: OpContext, tag: Strings, tensor: NDArray[Any]) -> Strings:
    text = _text(op, tag.item())
    if tensor.shape[3] not in (1, 3, 4) or 0 in tensor.shape[1:3]:
        raise ShapeError(
            f"summary '{op.name}' has no pictures",
            expected="[batch, height, width, 1, 3 or 4], not empty",
            got=f"shape {list(tensor.shape)}",
            hint="channels come last",
        )
    limit = op.attr("max_images")
    bad_color = np.asarray(op.attr("bad_color"), np.uint8).ravel()
    if bad_color.size < tensor.shape[3]:
        raise InvalidArgumentError(
            f"summary '{op.name}' has no colour for pixels that are not finite",
            expected=f"bad_color of at least {tensor.shape[3]} channels",
            got=f"{bad_color.size}",
            hint="leave bad_color out for red",
        )
    summary = Summary()
    for number, picture in enumerate(tensor[:limit]):
        pixels = picture if picture.dtype == np.uint8 else _scaled(picture, bad_color)
        height, width, channels = pixels.shape
        name = f"{text}/image" if limit == 1 else f"{text}/image/{number}"
        image = Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=encode_png(np.asarray(pixels))
        )
        summary.value.add(tag=name, image=image)
    return _scalar_string(summary.SerializeToString())


def _scaled(picture: NDArray[Any], bad_color: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return numbers as bytes, computed in their own dtype as TensorFlow does, so that its bytes come out.

    Source: tensorflow/core/kernels/summary_image_op.cc, NormalizeFloatImage.
    """
    number = picture.dtype.type
    good = np.isfinite(picture).all(axis=-1)
    finite = picture[np.isfinite(picture)]
    low, high = (finite.min(), finite.max()) if finite.size else (number(0), number(0))
    span, target, offset = (max(-low, high), 127, 128) if low < 0 else (high, 255, 0)
    pixels: NDArray[np.uint8]
    with np.errstate(over="ignore", invalid="ignore"):  # float16 has no factor for the smallest spans
        scale = number(0) if span < _ZERO_THRESHOLD else number(target) / span
        pixels = (np.where(good[..., np.newaxis], picture, number(0)) * scale + number(offset)).astype(np.uint8)
    pixels[~good] = bad_color[: picture.shape[-1]]
    return pixels


@hr.register_op(
    "TensorSummaryV2",
    inputs={"tag": "string", "tensor": "T", "serialized_summary_metadata": "string"},
    outputs={"summary": "string"},
    attrs={"T": hr.attr.type()},
)
def _tensor_summary_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """A serialised Summary with a tensor as it is, and the metadata that tell which plugin shows it."""
    _check_scalar(op, 0, "tag")
    _check_scalar(op, 2, "serialized_summary_metadata")
    return [hr.Shape([])]


@hr.register_kernel("TensorSummaryV2")
def _tensor_summary(op: OpContext, tag: Strings, tensor: NDArray[Any], metadata: Strings) -> Strings:
    try:
        parsed = SummaryMetadata.FromString(metadata.item())
    except DecodeError as error:
        raise InvalidArgumentError(
            f"summary '{op.name}' has metadata that cannot be read",
            expected="a serialised SummaryMetadata",
            got=f"{metadata.item()!r:.60}",
            hint="b'' where no plugin shows the tensor",
        ) from error
    value = Summary.Value(tag=_text(op, tag.item()), tensor=tensor_proto(tensor), metadata=parsed)
    return _scalar_string(Summary(value=[value]).SerializeToString())


def _check_scalar(op: hr.InferenceContext, index: int, name: str) -> None:
    shape = op.inputs[index].shape
    if shape.dims is not None and shape.dims:
        raise ShapeError(
            f"{name} of a summary is not a single text",
            expected="shape []",
            got=str(shape),
            hint="one summary for each",
        )


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


def _scalar_string(data: bytes) -> Strings:
    string = np.empty([], object)
    string[()] = data
    return string


for _op in ("ScalarSummary", "HistogramSummary", "ImageSummary", "TensorSummaryV2", "MergeSummary"):
    hr.no_gradient(_op, _NOT_DIFFERENTIABLE)
