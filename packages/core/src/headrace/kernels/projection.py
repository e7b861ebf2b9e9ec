"""NumPy kernels of the projection family.

Places are computed in float32 and in TensorFlow's order, so that a pixel on the edge between two goes to the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.image import check_sampled, sampled_size
from headrace.ops.projection import check_transforms
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, Shape

__all__: list[str] = []


def _reflected(places: Array, size: int) -> Array:
    """dcba|abcd|dcba."""
    period = np.float32(2 * size)
    before = period * np.trunc(-places / period) + places
    before = np.where(before < -size, before + period, -before - 1)
    after = places - period * np.trunc(places / period)
    after = np.where(after >= size, period - after - 1, after)
    return np.where(places < 0, before, np.where(places > size - 1, after, places))


def _wrapped(places: Array, size: int) -> Array:
    """abcd|abcd|abcd; between the last pixel and the first there is nothing, as in TensorFlow."""
    span = np.float32(max(size - 1, 1))
    before = places + size * (np.trunc(-places / span) + 1)
    after = places - size * np.trunc(places / span)
    return np.where(places < 0, before, np.where(places > size - 1, after, places))


def _kept(places: Array, size: int) -> Array:
    return places


_MODES: dict[str, Callable[[Array, int], Array]] = {"REFLECT": _reflected, "WRAP": _wrapped, "NEAREST": _kept}


def _mapped(mode: str, places: Array, size: int) -> Array:
    """The places from which pixels are taken, in float32."""
    if mode == "CONSTANT":
        return places
    single = np.zeros_like(places) if size == 1 else _MODES[mode](places, size)
    return np.clip(single, np.float32(0), np.float32(size - 1)).astype(np.float32)


def _places(
    transform: Array, mode: str, result: tuple[int, int], source: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """For each pixel of the result the row and column it comes from, and whether it comes from anywhere."""
    y, x = np.indices(result).astype(np.float32)
    a = transform
    k = a[6] * x + a[7] * y + np.float32(1)
    columns = (a[0] * x + a[1] * y + a[2]) / k
    rows = (a[3] * x + a[4] * y + a[5]) / k
    return _mapped(mode, rows, source[0]), _mapped(mode, columns, source[1]), k != 0


def _whole(places: Array) -> Array:
    """Places as integers; those that no image reaches are -1."""
    return np.where(np.abs(places) < 2**31, places, np.float32(-1)).astype(np.int64)


def _corners(interpolation: str, rows: Array, columns: Array) -> list[tuple[Any, Any]]:
    """For each axis the integer places that count, and their weights."""
    if interpolation == "NEAREST":
        # halves are rounded away from 0
        return [(_whole(np.trunc(axis + np.copysign(np.float32(0.5), axis)))[None], None) for axis in (rows, columns)]
    found = []
    for axis in (rows, columns):
        low = np.floor(axis)
        high = low + np.float32(1)
        found.append((np.stack([_whole(low), _whole(high)]), np.stack([high - axis, axis - low])))
    return found


def _read(image: Array, y: Array, x: Array, fill: Any) -> Array:
    inside = (y >= 0) & (y < image.shape[0]) & (x >= 0) & (x < image.shape[1])
    return np.where(inside[..., None], image[np.where(inside, y, 0), np.where(inside, x, 0)], fill)


def _seen(op: OpContext, image: Array, transform: Array, size: tuple[int, int], fill: Any) -> Array:
    """One image seen through one transform."""
    rows, columns, somewhere = _places(transform, op.attr("fill_mode"), size, image.shape[:2])
    (ys, down), (xs, across) = _corners(op.attr("interpolation"), rows, columns)
    if down is None:
        values = _read(image, ys[0], xs[0], fill)
    else:
        lines = []
        for y in ys:
            left, right = (_read(image, y, x, fill).astype(np.float32) for x in xs)
            lines.append(across[0][..., None] * left + across[1][..., None] * right)
        values = down[0][..., None] * lines[0] + down[1][..., None] * lines[1]
    return np.where(somewhere[..., None], values.astype(image.dtype), fill)


def _each(images: Array, transforms: Array) -> Iterator[tuple[int, Array]]:
    check_transforms(Shape(images.shape), Shape(transforms.shape))
    for number in range(len(images)):
        yield number, transforms[number if len(transforms) > 1 else 0]


@register_kernel("ImageProjectiveTransformV3")
def _third(op: OpContext, images: Array, transforms: Array, output_shape: Array, fill_value: Array) -> Array:
    size = sampled_size(output_shape)
    check_sampled(Shape(images.shape), *size)
    fill = np.asarray(fill_value)
    fill = (fill.astype(np.int64) if images.dtype.kind in "iu" else fill).astype(images.dtype)
    result = np.empty(checked_sizes([images.shape[0], *size, images.shape[3]]), images.dtype)
    for number, transform in _each(images, transforms):
        result[number] = _seen(op, images[number], transform, size, fill)
    return result


@register_kernel("ImageProjectiveTransformV2")
def _second(op: OpContext, images: Array, transforms: Array, output_shape: Array) -> Array:
    return _third(op, images, transforms, output_shape, np.zeros((), np.float32))


@register_kernel("ImageProjectiveTransformGrad")
def _gradient(op: OpContext, grads: Array, transforms: Array, image_shape: Array) -> Array:
    source = sampled_size(image_shape)
    result = np.zeros(checked_sizes([len(grads), *source, grads.shape[3]]), np.result_type(grads.dtype, np.float32))
    for number, transform in _each(grads, transforms):
        rows, columns, somewhere = _places(transform, op.attr("fill_mode"), grads.shape[1:3], source)
        (ys, down), (xs, across) = _corners(op.attr("interpolation"), rows, columns)
        for i, y in enumerate(ys):
            for j, x in enumerate(xs):
                inside = somewhere & (y >= 0) & (y < source[0]) & (x >= 0) & (x < source[1])
                weight = np.float32(1) if down is None else (down[i] * across[j])[inside][:, None]
                np.add.at(result[number], (y[inside], x[inside]), weight * grads[number][inside])
    return result.astype(grads.dtype)
