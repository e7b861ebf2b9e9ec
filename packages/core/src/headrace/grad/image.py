"""Gradient rules of the image family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.grad.backprop import gradients
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.types import float32, int32, int64

for _name in ("AdjustHue", "AdjustSaturation"):
    no_gradient(_name, "TensorFlow has none either; RGBToHSV and HSVToRGB have gradients")


def _op(op_type: str, *inputs: TensorLike, **attrs: object) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs, name=None, **attrs)
    return result


def _sampling(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("align_corners", "half_pixel_centers")}


def _size(images: Tensor) -> Tensor:
    return _op("StridedSlice", _op("Shape", images), [1], [3], [1])


@register_gradient("ResizeNearestNeighbor")
def _nearest(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each pixel gets the gradients of the pixels it went to."""
    return [_op("ResizeNearestNeighborGrad", g, _size(op.inputs[0]), **_sampling(op)), None]


@register_gradient("ResizeNearestNeighborGrad")
def _nearest_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """It is linear, the transpose of resizing."""
    return [_op("ResizeNearestNeighbor", g, _size(op.inputs[0]), **_sampling(op)), None]


def _register_resize(name: str) -> None:
    @register_gradient(name)
    def forward(op: Operation, g: Tensor) -> list[Tensor | None]:
        """The transpose of resizing, which is linear."""
        images = op.inputs[0]
        if not images.dtype.is_floating:
            return [None, None]
        return [_op(f"{name}Grad", g, images, **_sampling(op)), None]

    @register_gradient(f"{name}Grad")
    def backward(op: Operation, g: Tensor) -> list[Tensor | None]:
        """The transpose of the transpose: resizing; of the image only shape and dtype are used."""
        return [_op(name, g, _size(op.inputs[0]), **_sampling(op)), None]


_register_resize("ResizeBilinear")
_register_resize("ResizeBicubic")


def _composed(function: Callable[..., Tensor], inputs: list[Tensor], g: Tensor) -> list[Tensor | None]:
    """The gradients of a composition of primitives that computes the same as the operation."""
    return gradients([function(*inputs)], inputs, [g], stop_gradients=inputs)


def _columns(x: Tensor) -> list[Tensor]:
    return list(apply_op("Unpack", x, num=3, axis=-1))


@register_gradient("RGBToHSV")
def _rgb_to_hsv(op: Operation, g: Tensor) -> list[Tensor | None]:
    """By the definition; at ties of two colours that of the first."""

    def hsv(images: Tensor) -> Tensor:
        r, green, b = _columns(images)
        value = _op("Maximum", _op("Maximum", r, green), b)
        spread = _op("Sub", value, _op("Minimum", _op("Minimum", r, green), b))
        zero = _op("ZerosLike", spread)
        unit = _op("DivNoNan", _op("OnesLike", spread), spread * 6)
        hue = _op(
            "SelectV2", _op("Equal", r, value), unit * (green - b),
            _op("SelectV2", _op("Equal", green, value), unit * (b - r) + 1 / 3, unit * (r - green) + 2 / 3),
        )  # fmt: skip
        hue = _op("SelectV2", _op("Less", hue, zero), hue + 1, hue)
        return _op("Pack", [hue, _op("DivNoNan", spread, value), value], axis=-1)

    return _composed(hsv, [op.inputs[0]], g)


@register_gradient("HSVToRGB")
def _hsv_to_rgb(op: Operation, g: Tensor) -> list[Tensor | None]:
    """By the definition."""

    def rgb(images: Tensor) -> Tensor:
        hue, saturation, value = _columns(images)
        sixths = hue * 6
        parts = (_op("Abs", sixths - 3) - 1, 2 - _op("Abs", sixths - 2), 2 - _op("Abs", sixths - 4))
        zero, one = _op("ZerosLike", hue), _op("OnesLike", hue)
        clipped = [_op("Minimum", _op("Maximum", part, zero), one) for part in parts]
        return _op("Pack", [((1 - saturation) + saturation * part) * value for part in clipped], axis=-1)

    return _composed(rgb, [op.inputs[0]], g)


@register_gradient("AdjustContrastv2")
def _adjust_contrast(op: Operation, g: Tensor) -> list[Tensor | None]:
    """By the definition."""

    def adjusted(images: Tensor, factor: Tensor) -> Tensor:
        mean = _op("Mean", images, [-3, -2], keep_dims=True)
        return (images - mean) * _op("Cast", factor, DstT=images.dtype) + mean

    return _composed(adjusted, list(op.inputs), g)


@register_gradient("CropAndResize")
def _crop_and_resize(op: Operation, g: Tensor) -> list[Tensor | None]:
    """By the definition, of images and boxes; those of the nearest pixel do not depend on the boxes."""
    image, boxes, numbers, size = op.inputs

    def crops(image: Tensor, boxes: Tensor) -> Tensor:
        rows, columns = apply_op("Unpack", size, num=2)
        height, width = apply_op("Unpack", _size(image), num=2)
        sides = apply_op("Unpack", boxes, num=4, axis=1)
        down, across = _places(sides[0], sides[2], height, rows), _places(sides[1], sides[3], width, columns)
        inside = _op(
            "LogicalAnd", _op("ExpandDims", _inside(down, height), 2), _op("ExpandDims", _inside(across, width), 1)
        )
        if op.attrs["method"] == "nearest":
            corners = [(down, across, 0.5, 0.5)]
        else:
            corners = [(down, across, a, b) for a in (0.0, 1.0) for b in (0.0, 1.0)]
        values = _op("Cast", image, DstT=float32)
        total = [_corner(values, numbers, y, x, a, b, height, width) for y, x, a, b in corners]
        return _op("SelectV2", _op("ExpandDims", inside, 3), _op("AddN", total), np.float32(0))

    wanted = [image, boxes] if image.dtype.is_floating else [boxes]
    found = gradients([crops(image, boxes)], wanted, [g], stop_gradients=[image, boxes])
    return [*([] if image.dtype.is_floating else [None]), *found, None, None]


def _inside(places: Tensor, size: Tensor) -> Tensor:
    last = _op("Cast", _op("Sub", size, 1), DstT=float32)
    return _op("LogicalAnd", _op("GreaterEqual", places, np.float32(0)), _op("LessEqual", places, last))


def _places(first: Tensor, last: Tensor, size: Tensor, out: Tensor) -> Tensor:
    """`[n, out]`: where each pixel of a crop lies on the image."""
    extent = _op("Cast", _op("Sub", size, 1), DstT=float32)
    steps = _op("Cast", _op("Maximum", _op("Sub", out, 1), 1), DstT=float32)
    numbers = _op("Cast", _op("Range", np.int32(0), out, np.int32(1)), DstT=float32)
    single = _op("Cast", _op("Equal", out, np.int32(1)), DstT=float32)
    fractions = numbers / steps + 0.5 * single
    return (_op("ExpandDims", first, 1) + _op("ExpandDims", last - first, 1) * fractions) * extent


def _corner(
    image: Tensor, numbers: Tensor, y: Tensor, x: Tensor, down: float, right: float, height: Tensor, width: Tensor
) -> Tensor:
    """One of the four pixels around each place times its weight; or the nearest one, for which both offsets are 1/2."""
    indices, weight = [], None
    for places, offset, size in ((y, down, height), (x, right, width)):
        floor = _op("Floor", places + 0.5 if offset == 0.5 else places)
        pixel = _op("Cast", floor + offset if offset != 0.5 else floor, DstT=int32)
        indices.append(_op("Maximum", _op("Minimum", pixel, _op("Sub", size, 1)), 0))
        if offset != 0.5:
            part = places - floor if offset else 1 - (places - floor)
            shaped = _op("ExpandDims", part, 2 if places is y else 1)
            weight = shaped if weight is None else weight * shaped
    zero = _op("ZerosLike", indices[0])
    columns = _op("ZerosLike", indices[1])
    grid = [
        _op("AddV2", _op("ExpandDims", _op("ExpandDims", numbers, 1), 1),
            _op("AddV2", _op("ExpandDims", zero, 2), _op("ExpandDims", columns, 1))),
        _op("AddV2", _op("ExpandDims", indices[0], 2), _op("ExpandDims", columns, 1)),
        _op("AddV2", _op("ExpandDims", zero, 2), _op("ExpandDims", indices[1], 1)),
    ]  # fmt: skip
    pixels = _op("GatherNd", image, _op("Pack", grid, axis=-1))
    return pixels if weight is None else pixels * _op("ExpandDims", weight, 3)


@register_gradient("ExtractImagePatches")
def _extract_patches(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each pixel gets the gradients of the patches it is in: the operation on the pixels' numbers tells which."""
    (images,) = op.inputs
    batch, height, width, channels = apply_op("Unpack", _op("Shape", images, out_type=int64), num=4)
    count = height * width
    numbers = _op("Range", np.int64(1), count + 1, np.int64(1))
    grid = _op("Reshape", numbers, _op("Pack", [np.int64(1), height, width, np.int64(1)]))
    attrs = {name: op.attrs[name] for name in ("ksizes", "strides", "rates", "padding")}
    pixels = _op("Reshape", _op("ExtractImagePatches", grid, **attrs), [-1])
    rows = _op("Reshape", g, _op("Pack", [batch, _op("Size", pixels, out_type=int64), channels]))
    sums = _op("UnsortedSegmentSum", _op("Transpose", rows, [1, 0, 2]), pixels - 1, count)
    return [_op("Reshape", _op("Transpose", sums, [1, 0, 2]), _op("Shape", images))]
