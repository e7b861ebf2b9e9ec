"""Cases of the projection family. Expectations read pixel by pixel, in float64.

Gradients are checked in tests/ops/test_projection.py: transforms are float32, which is too little for differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

_IMAGE = (np.arange(12) ** 2 % 17).reshape(1, 3, 4, 1)


def _mapped(place: float, size: int, mode: str) -> float:
    if mode == "CONSTANT":
        return place
    if mode == "NEAREST" or size == 1:
        return min(max(place, 0.0), size - 1.0)
    if mode == "REFLECT":
        place %= 2 * size
        return min(max(2 * size - place - 1 if place >= size else place, 0.0), size - 1.0)
    while not -1e-6 <= place <= size - 1 + 1e-6:  # one period has `size` pixels, and between its ends lies nothing
        rounds = int(abs(place) / (size - 1)) + (place < 0)
        place += size * rounds if place < 0 else -size * rounds
        place = min(max(place, 0.0), size - 1.0)
    return place


def _pixel(image: Any, y: float, x: float, fill: float) -> Any:
    inside = 0 <= y < image.shape[0] and 0 <= x < image.shape[1]
    return image[int(y), int(x)] if inside else np.full(image.shape[2], fill)


def _away(value: float) -> float:
    return math.copysign(math.floor(abs(value) + 0.5), value)


def _value(image: Any, y: float, x: float, interpolation: str, fill: float) -> Any:
    if interpolation == "NEAREST":
        return _pixel(image, _away(y), _away(x), fill)
    total = np.zeros(image.shape[2])
    for row, down in ((math.floor(y), 1 - y + math.floor(y)), (math.floor(y) + 1, y - math.floor(y))):
        for column, across in ((math.floor(x), 1 - x + math.floor(x)), (math.floor(x) + 1, x - math.floor(x))):
            total = total + down * across * _pixel(image, row, column, fill)
    return total


def _expected(interpolation: str, mode: str) -> Callable[..., Any]:
    def expected(images: Any, transforms: Any, size: Any, fill: Any = 0.0) -> Any:
        rows, columns = (int(item) for item in size)
        result = np.zeros((len(images), rows, columns, images.shape[3]))
        for number, image in enumerate(images):
            a = np.asarray(transforms, np.float64)[number if len(transforms) > 1 else 0]
            for y, x in np.ndindex(rows, columns):
                k = a[6] * x + a[7] * y + 1
                if k == 0:
                    result[number, y, x] = fill
                    continue
                source_y = _mapped((a[3] * x + a[4] * y + a[5]) / k, image.shape[0], mode)
                source_x = _mapped((a[0] * x + a[1] * y + a[2]) / k, image.shape[1], mode)
                result[number, y, x] = _value(image.astype(np.float64), source_y, source_x, interpolation, float(fill))
        return np.trunc(result).astype(images.dtype) if images.dtype.kind in "iu" else result.astype(images.dtype)

    return expected


def _case(
    what: str,
    transforms: Any,
    *,
    images: Any = _IMAGE,
    dtype: Any = np.float64,
    size: Any = (3, 4),
    mode: str = "CONSTANT",
    interpolation: str = "BILINEAR",
    fill: float | None = 9.0,
    raises: str | None = None,
) -> OpCase:
    op = f"ImageProjectiveTransformV{2 if fill is None else 3}"
    inputs = [images.astype(dtype), np.array(transforms, np.float32), np.array(size, np.int32)]
    inputs += [] if fill is None else [np.float32(fill)]
    attrs = {"interpolation": interpolation, "fill_mode": mode}
    if raises is not None:
        return OpCase(f"{op}/{what}", op, inputs, attrs, raises=raises)
    return OpCase(f"{op}/{what}", op, inputs, attrs, _expected(interpolation, mode), differentiate=())


_MOVED = [[1, 0, -2.25, 0, 1, 1.375, 0, 0]]
_TURNED = [[0.875, 0.125, 0.5, -0.25, 1.125, -0.75, 0, 0]]
_ANGLE = [[0.875, 0.125, 0.5, -0.25, 1.125, -0.75, 0.03125, -0.0625]]
"""Places are float32, so that a division is not exact."""
_STILL = [[1, 0, 0, 0, 1, 0, 0, 0]]
_HALF = [[1, 0, 0.5, 0, 1, 0.5, 0, 0]]
_MODES = ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
_TWO = np.concatenate([_IMAGE, _IMAGE[:, ::-1] + 1], axis=0)
_PROJECTED = [
    *(_case(f"moved, {mode}", _MOVED, mode=mode) for mode in _MODES),
    *(_case(f"turned, {mode}", _TURNED, mode=mode, size=(4, 3)) for mode in _MODES),
    *(_case(f"nearest, moved, {mode}", _MOVED, mode=mode, interpolation="NEAREST") for mode in _MODES),
    *(_case(f"nearest, halves, {mode}", _HALF, mode=mode, interpolation="NEAREST") for mode in ("CONSTANT", "NEAREST")),
    *(_case(f"at an angle, {mode}", _ANGLE, mode=mode, dtype=np.float32) for mode in _MODES),
    _case("still", _STILL, fill=None),
    _case("filled with 0", _MOVED, fill=None),
    *(
        _case(np.dtype(dtype).name, _HALF, dtype=dtype, fill=4.0)
        for dtype in (np.uint8, np.int32, np.int64, np.float16)
    ),
    _case("float32", _MOVED, dtype=np.float32),
    _case("two images", [*_MOVED, *_TURNED], images=_TWO),
    _case("one transform for two images", _MOVED, images=_TWO),
    _case("channels", _MOVED, images=np.concatenate([_IMAGE, _IMAGE + 1], axis=3)),
    _case("pixels from nowhere", [[1, 0, 0, 0, 1, 0, -1, 0]], fill=3.0),
    _case("no images", _MOVED, images=_IMAGE[:0]),
    _case("seven numbers", [[1, 0, 0, 0, 1, 0, 0]], raises=r"the transforms do not fit the images"),
    _case("two transforms of one image", _MOVED * 2, raises=r"the transforms do not fit the images"),
    _case("no rows", _MOVED, size=(0, 4), raises=r"an image has rows and columns"),
    _case("one size", _MOVED, size=(3,), raises=r"an image has rows and columns"),
    _case("one image", _MOVED, images=_IMAGE[0], raises=r"the rank is wrong"),
    replace(
        _case("no such mode", _MOVED, mode="constant", raises=r"fill_mode"),
        deviation="TensorFlow takes every other mode for NEAREST",
    ),
]


def _by_transpose(interpolation: str, mode: str) -> Callable[..., Any]:
    """By definition: what each pixel alone gives, times the gradient, added up."""

    def expected(grads: Any, transforms: Any, size: Any) -> Any:
        rows, columns = (int(item) for item in size)
        result = np.zeros((len(grads), rows, columns, grads.shape[3]))
        for y, x in np.ndindex(rows, columns):
            image = np.zeros_like(result)
            image[:, y, x] = 1
            seen = _expected(interpolation, mode)(image, transforms, grads.shape[1:3])
            result[:, y, x] = (seen * grads.astype(np.float64)).sum(axis=(1, 2))
        return result.astype(grads.dtype)

    return expected


_GRADIENTS = [
    OpCase(
        f"ImageProjectiveTransformGrad/{interpolation}, {mode}, {np.dtype(dtype).name}",
        "ImageProjectiveTransformGrad",
        [_IMAGE.astype(dtype), np.array(transforms, np.float32), np.array([4, 2], np.int32)],
        {"interpolation": interpolation, "fill_mode": mode},
        _by_transpose(interpolation, mode),
        differentiate=(),
        oracle=False,
    )
    for interpolation, mode, dtype, transforms in (
        ("BILINEAR", "CONSTANT", np.float64, _TURNED),
        ("BILINEAR", "REFLECT", np.float64, _TURNED),
        ("NEAREST", "WRAP", np.float64, _TURNED),
        ("BILINEAR", "NEAREST", np.float32, _ANGLE),
    )
]

CASES = [*_PROJECTED, *_GRADIENTS]
