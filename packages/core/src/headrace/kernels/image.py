"""NumPy kernels of the image family.

Resizing is separable: each axis has its own table of which pixels an output reads and with which weights, so the
gradient is the same table the other way round. Places are computed in float32, as TensorFlow does: a pixel on the edge
between two neighbours then goes to the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import OutOfRangeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.image import check_sampled, patch_sizes, sampled_size
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, Shape

Table = tuple[Array, Array]
"""For each output `[out, taps]`: the pixels it reads, and their weights."""

_TABLE_SIZE = 1024
"""Cubic weights are taken at multiples of 1/1024 of a pixel."""


def _places(op: OpContext, size: int, out: int) -> Array:
    """Where on the input each output pixel lies, in pixels."""
    corners = op.attr("align_corners") and out > 1
    scale = np.float32(size - 1) / np.float32(out - 1) if corners else np.float32(size) / np.float32(out)
    numbers = np.arange(out, dtype=np.float32)
    if op.attr("half_pixel_centers"):
        return np.asarray((numbers + np.float32(0.5)) * scale - np.float32(0.5))
    return np.asarray(numbers * scale)


def _nearest(op: OpContext, size: int, out: int) -> Table:
    if op.attr("half_pixel_centers"):
        scale = np.float32(size) / np.float32(out)
        places = np.floor((np.arange(out, dtype=np.float32) + np.float32(0.5)) * scale)
    else:
        places = _places(op, size, out)
        places = np.floor(places + np.float32(0.5)) if op.attr("align_corners") else np.floor(places)
    chosen = np.clip(places.astype(np.int64), 0, size - 1)
    return chosen[:, None], np.ones((out, 1), np.float32)


def _bilinear(op: OpContext, size: int, out: int) -> Table:
    places = _places(op, size, out)
    low = np.floor(places)
    part = (places - low).astype(np.float32)
    pixels = np.stack([np.maximum(low, 0), np.minimum(np.ceil(places), size - 1)], axis=1).astype(np.int64)
    return pixels, np.stack([1 - part, part], axis=1)


def _bicubic(op: OpContext, size: int, out: int) -> Table:
    """Beyond the edge, the edge pixel counts again; with half-pixel centres it does not and the rest counts more."""
    keys = op.attr("half_pixel_centers")
    a = -0.5 if keys else -0.75
    places = _places(op, size, out)
    low = np.floor(places)
    part = np.rint((places - low) * _TABLE_SIZE).astype(np.float64) / _TABLE_SIZE

    def near(x: Array) -> Array:
        return np.asarray(((a + 2) * x - (a + 3)) * x * x + 1)

    def far(x: Array) -> Array:
        return np.asarray(((a * x - 5 * a) * x + 8 * a) * x - 4 * a)

    weights = np.stack([far(part + 1), near(part), near(1 - part), far(2 - part)], axis=1).astype(np.float32)
    pixels = low.astype(np.int64)[:, None] + np.arange(-1, 3)
    inside = np.clip(pixels, 0, size - 1)
    if keys:
        weights = np.where(inside == pixels, weights, np.float32(0))
        weights = weights / weights.sum(axis=1, keepdims=True)
    return inside, weights


def _sample(images: Array, table: Table, axis: int) -> Array:
    """The weighted sum of pixels for each output of one axis."""
    pixels, weights = table
    shape = [-1 if position == axis else 1 for position in range(4)]
    total: Any = None
    for tap in range(pixels.shape[1]):
        term = np.take(images, pixels[:, tap], axis) * weights[:, tap].reshape(shape)
        total = term if total is None else total + term
    return np.asarray(total)


def _spread(grads: Array, table: Table, axis: int, size: int) -> Array:
    """The transpose of `_sample`: each pixel gets the weighted gradients of the outputs that read it."""
    pixels, weights = table
    moved = np.moveaxis(grads, axis, 0)
    total = np.zeros((size, *moved.shape[1:]), grads.dtype)
    for tap in range(pixels.shape[1]):
        np.add.at(total, pixels[:, tap], moved * weights[:, tap].reshape(-1, 1, 1, 1))
    return np.moveaxis(total, 0, axis)


def _register_resize(op_type: str, table: Callable[[OpContext, int, int], Table]) -> None:
    def kernel(op: OpContext, images: Array, size: Array) -> Array:
        rows, columns = sampled_size(size)
        check_sampled(Shape(np.shape(images)), rows, columns)
        values = images.astype(np.float32)
        for axis, out in ((1, rows), (2, columns)):
            values = _sample(values, table(op, images.shape[axis], out), axis)
        return values

    def gradient(op: OpContext, grads: Array, image: Array) -> Array:
        values = grads.astype(np.float64) if image.dtype == np.float64 else grads
        for axis in (2, 1):
            values = _spread(values, table(op, image.shape[axis], grads.shape[axis]), axis, image.shape[axis])
        return np.ascontiguousarray(values.astype(image.dtype))

    register_kernel(op_type)(kernel)
    register_kernel(f"{op_type}Grad")(gradient)


_register_resize("ResizeBilinear", _bilinear)
_register_resize("ResizeBicubic", _bicubic)


@register_kernel("ResizeNearestNeighbor")
def _resize_nearest(op: OpContext, images: Array, size: Array) -> Array:
    rows, columns = sampled_size(size)
    check_sampled(Shape(np.shape(images)), rows, columns)
    chosen = np.take(images, _nearest(op, images.shape[1], rows)[0][:, 0], 1)
    return np.asarray(np.take(chosen, _nearest(op, images.shape[2], columns)[0][:, 0], 2))


@register_kernel("ResizeNearestNeighborGrad")
def _resize_nearest_grad(op: OpContext, grads: Array, size: Array) -> Array:
    sizes = sampled_size(size)
    check_sampled(Shape(np.shape(grads)), *sizes)
    values = grads if grads.dtype.kind in "iu" or grads.dtype.itemsize > 2 else grads.astype(np.float32)
    for axis in (2, 1):
        pixels = _nearest(op, sizes[axis - 1], grads.shape[axis])[0]
        values = _spread(values, (pixels, np.ones(pixels.shape, values.dtype)), axis, sizes[axis - 1])
    return np.ascontiguousarray(values.astype(grads.dtype))


@register_kernel("CropAndResize")
def _crop_and_resize(op: OpContext, image: Array, boxes: Array, numbers: Array, size: Array) -> Array:
    rows, columns = sampled_size(size)
    check_sampled(Shape(np.shape(image)), rows, columns)
    count = len(numbers)
    checked_sizes([count, rows, columns, image.shape[3]])
    if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) >= len(image)):
        raise OutOfRangeError(
            "there is no such image",
            expected=f"0 <= box_ind < {len(image)}",
            got=f"{numbers}",
            hint="count the images of the batch from 0",
        )
    crops = np.empty((count, rows, columns, image.shape[3]), np.float32)
    for position, (box, number) in enumerate(zip(boxes, numbers, strict=True)):
        down = _crop_places(box[0], box[2], image.shape[1], rows)
        across = _crop_places(box[1], box[3], image.shape[2], columns)
        crops[position] = _crop(op, image[number], down, across)
    return crops


def _crop_places(first: Any, last: Any, size: int, out: int) -> Array:
    extent = np.float32(size - 1)
    if out > 1:
        scale = (last - first) * extent / np.float32(out - 1)
        return np.asarray(first * extent + np.arange(out, dtype=np.float32) * scale)
    return np.array([np.float32(0.5) * (first + last) * extent], np.float32)


def _crop(op: OpContext, image: Array, down: Array, across: Array) -> Array:
    inside = ((down >= 0) & (down <= len(image) - 1))[:, None] & ((across >= 0) & (across <= image.shape[1] - 1))
    axes = []
    for places, size in ((down, len(image)), (across, image.shape[1])):
        safe = np.where((places >= 0) & (places <= size - 1), places, np.float32(0))
        axes.append((safe, np.floor(safe).astype(np.int64), np.ceil(safe).astype(np.int64)))
    (y, top, bottom), (x, left, right) = axes
    if op.attr("method") == "nearest":
        values = image[np.floor(y + np.float32(0.5)).astype(int)][:, np.floor(x + np.float32(0.5)).astype(int)]
    else:
        wide = image.astype(np.float32)
        dx, dy = (x - left).astype(np.float32)[None, :, None], (y - top).astype(np.float32)[:, None, None]
        upper, lower = (
            wide[rows][:, left] + (wide[rows][:, right] - wide[rows][:, left]) * dx for rows in (top, bottom)
        )
        values = upper + (lower - upper) * dy
    return np.where(inside[:, :, None], values.astype(np.float32), np.float32(op.attr("extrapolation_value")))


def _parts(images: Array) -> Array:
    """The three parts, in float32 at least."""
    wide = images.astype(np.float32) if images.dtype.itemsize == 2 else images
    return np.moveaxis(wide, -1, 0)


@register_kernel("RGBToHSV")
def _rgb_to_hsv(op: OpContext, images: Array) -> Array:
    return np.stack(_to_hsv(images), axis=-1).astype(images.dtype)


def _to_hsv(images: Array) -> tuple[Array, Array, Array]:
    r, g, b = _parts(images)
    value = np.maximum(np.maximum(r, g), b)
    spread = value - np.minimum(np.minimum(r, g), b)
    unit = 1 / (6 * spread)
    third = spread.dtype.type(2 / 6)
    hue = np.where(r == value, unit * (g - b), np.where(g == value, unit * (b - r) + third, unit * (r - g) + 2 * third))
    hue = np.where(spread > 0, hue, 0)
    hue = np.where(hue < 0, hue + 1, hue)
    return hue, np.where(value > 0, spread / value, 0), value


@register_kernel("HSVToRGB")
def _hsv_to_rgb(op: OpContext, images: Array) -> Array:
    return _to_rgb(*_parts(images)).astype(images.dtype)


def _to_rgb(hue: Array, saturation: Array, value: Array) -> Array:
    colours = [((1 - saturation) + saturation * part) * value for part in _pure(hue * 6)]
    return np.stack(colours, axis=-1)


def _pure(sixths: Array) -> list[Array]:
    """Red, green and blue of pure colours, whose hues are given in sixths of the circle."""
    parts = (np.abs(sixths - 3) - 1, 2 - np.abs(sixths - 2), 2 - np.abs(sixths - 4))
    return [np.clip(part, 0, 1) for part in parts]


@register_kernel("AdjustHue")
def _adjust_hue(op: OpContext, images: Array, delta: Array) -> Array:
    # not by way of the saturation, so that numbers beyond [0, 1] stay what they are
    hue = _to_hsv(images)[0]
    wide = _parts(images)
    low, high = wide.min(axis=0), wide.max(axis=0)
    turned = np.mod(hue * 6 + delta * np.float32(6), np.float32(6))
    return np.stack([low + (high - low) * part for part in _pure(turned)], axis=-1).astype(images.dtype)


@register_kernel("AdjustSaturation")
def _adjust_saturation(op: OpContext, images: Array, scale: Array) -> Array:
    hue, saturation, value = _to_hsv(images)
    return _to_rgb(hue, np.clip(saturation * scale, 0, 1), value).astype(images.dtype)


@register_kernel("AdjustContrastv2")
def _adjust_contrast(op: OpContext, images: Array, factor: Array) -> Array:
    if not images.size:
        return images.copy()
    wide = images.astype(np.float32)
    mean = wide.mean(axis=(-3, -2), keepdims=True, dtype=np.float64).astype(np.float32)
    return np.asarray((wide - mean) * factor + mean).astype(images.dtype)


@register_kernel("ExtractImagePatches")
def _extract_patches(op: OpContext, images: Array) -> Array:
    taps, axes = patch_sizes(op, images.shape)
    batch, _, _, channels = images.shape
    counts = [count or 0 for count, *_ in axes]
    checked_sizes([batch, *counts, taps[0] * taps[1] * channels])
    result = np.zeros((batch, *counts, taps[0], taps[1], channels), images.dtype)
    if images.dtype == object:
        result[...] = b""
    if result.size and images.size:
        places = [
            np.arange(count)[:, None] * stride + np.arange(tap) * rate - before
            for count, tap, (_, stride, rate, before) in zip(counts, taps, axes, strict=True)
        ]
        (rows, columns), (height, width) = places, images.shape[1:3]
        valid = ((rows >= 0) & (rows < height))[:, None, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
        y, x = np.clip(rows, 0, height - 1)[:, None, :, None], np.clip(columns, 0, width - 1)[:, None, :]
        taken = images[:, y, x]
        result[:, valid] = taken[:, valid]
    return result.reshape(batch, *counts, taps[0] * taps[1] * channels)
