"""Cases of the image family. Expectations sample pixel by pixel in float64."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NAN = np.nan
Places = Callable[[int, int, int], float]


def _i32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _row(*values: float, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype).reshape(1, 1, -1, 1)


def _legacy(i: int, size: int, out: int) -> float:
    return i * size / out


def _corners(i: int, size: int, out: int) -> float:
    return i * (size - 1) / (out - 1) if out > 1 else 0.0


def _halves(i: int, size: int, out: int) -> float:
    return (i + 0.5) * size / out - 0.5


_WAYS: tuple[tuple[str, dict[str, Any], Places], ...] = (
    ("legacy", {}, _legacy),
    ("align_corners", {"align_corners": True}, _corners),
    ("half_pixel_centers", {"half_pixel_centers": True}, _halves),
)


def _nearest(places: Places) -> Callable[[int, int, int], dict[int, float]]:
    def weights(i: int, size: int, out: int) -> dict[int, float]:
        shift = 0.0 if places is _legacy else 0.5
        return {min(max(math.floor(places(i, size, out) + shift + 1e-9), 0), size - 1): 1.0}

    return weights


def _bilinear(places: Places) -> Callable[[int, int, int], dict[int, float]]:
    def weights(i: int, size: int, out: int) -> dict[int, float]:
        place = places(i, size, out)
        low = math.floor(place)
        found = {max(low, 0): 1 - (place - low)}
        high = min(low + 1, size - 1)
        found[high] = found.get(high, 0.0) + place - low
        return found

    return weights


def _bicubic(places: Places) -> Callable[[int, int, int], dict[int, float]]:
    a = -0.5 if places is _halves else -0.75

    def kernel(x: float) -> float:
        x = abs(x)
        if x <= 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0

    def weights(i: int, size: int, out: int) -> dict[int, float]:
        place = places(i, size, out)
        low = math.floor(place)
        part = round((place - low) * 1024) / 1024
        found: dict[int, float] = {}
        for pixel in range(low - 1, low + 3):
            inside = min(max(pixel, 0), size - 1)
            if places is not _halves or inside == pixel:
                found[inside] = found.get(inside, 0.0) + kernel(part - (pixel - low))
        total = sum(found.values()) if places is _halves else 1.0
        return {pixel: weight / total for pixel, weight in found.items()}

    return weights


def _matrix(weights: Callable[[int, int, int], dict[int, float]], size: int, out: int) -> Any:
    result = np.zeros((out, size))
    for i in range(out):
        for pixel, weight in weights(i, size, out).items():
            result[i, pixel] += weight
    return result


def _resized(weights: Any, dtype: Any = np.float32) -> Callable[..., Any]:
    def expected(images: Any, size: Any) -> Any:
        down, across = (_matrix(weights, images.shape[axis + 1], int(size[axis])) for axis in (0, 1))
        values = np.einsum("ih,bhwc,jw->bijc", down, images.astype(np.float64), across)
        return values.astype(images.dtype if dtype is None else dtype)

    return expected


def _spread(weights: Any, sizes: Any = None) -> Callable[..., Any]:
    def expected(grads: Any, image: Any) -> Any:
        shape = image.shape[1:3] if sizes is None else sizes
        down, across = (_matrix(weights, shape[axis], grads.shape[axis + 1]) for axis in (0, 1))
        return np.einsum("ih,bijc,jw->bhwc", down, grads.astype(np.float64), across).astype(
            image.dtype if sizes is None else grads.dtype
        )

    return expected


_METHODS: tuple[tuple[str, Any], ...] = (
    ("ResizeNearestNeighbor", _nearest),
    ("ResizeBilinear", _bilinear),
    ("ResizeBicubic", _bicubic),
)
_REAL = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64")

_RESIZE = [
    # What is float32 whatever comes in is differentiated in tests/ops/test_image.py: as a transpose.
    *(
        OpCase(
            f"{op}/{way} {rows}x{columns}",
            op,
            [numbers("float32", 2, 4, 5, 3), _i32(rows, columns)],
            attrs,
            expected=_resized(weights(places)),
            differentiate=None if op == "ResizeNearestNeighbor" else (),
        )
        for op, weights in _METHODS
        for way, attrs, places in _WAYS
        for rows, columns in ((4, 5), (7, 9), (2, 3), (1, 1), (8, 10))
    ),
    *(
        OpCase(
            f"{op}/{dtype}",
            op,
            [numbers(dtype, 1, 3, 2, 2, low=0, high=100), _i32(5, 4)],
            expected=_resized(weights(_legacy), None if op == "ResizeNearestNeighbor" else np.float32),
            differentiate=None if op == "ResizeNearestNeighbor" else (),
        )
        for op, weights in _METHODS
        for dtype in _REAL
    ),
    *(
        OpCase(f"{op}/{what}", op, [images, size], expected=expected, differentiate=())
        for op, _ in _METHODS
        for what, images, size, expected in (
            ("no images", np.zeros((0, 2, 2, 1), np.float32), _i32(3, 3), np.zeros((0, 3, 3, 1), np.float32)),
            ("no channels", np.zeros((1, 2, 2, 0), np.float32), _i32(3, 3), np.zeros((1, 3, 3, 0), np.float32)),
            ("one pixel", np.full((1, 1, 1, 1), 3, np.float32), _i32(2, 2), np.full((1, 2, 2, 1), 3, np.float32)),
            ("NaN", np.full((1, 1, 1, 1), _NAN, np.float32), _i32(1, 2), np.full((1, 1, 2, 1), _NAN, np.float32)),
        )
        if what != "no channels" or op == "ResizeNearestNeighbor"
    ),
    OpCase(
        "ResizeNearestNeighbor/O51 align_corners",
        "ResizeNearestNeighbor",
        [_row(0, 3, 6, 9), _i32(1, 10)],
        {"align_corners": True},
        expected=_row(0, 0, 3, 3, 3, 6, 6, 6, 9, 9),
    ),
    OpCase(
        "ResizeBilinear/O51 half pixel",
        "ResizeBilinear",
        [_row(1, 2, 3), _i32(1, 6)],
        {"half_pixel_centers": True},
        expected=_row(1, 1.25, 1.75, 2.25, 2.75, 3),
        differentiate=(),
    ),
    *(
        OpCase(f"{op}/{what}", op, [images, size], attrs, raises=text)
        for op, _ in _METHODS
        for what, images, size, attrs, text in (
            ("O51 size [0, 3]", _row(1, 2), _i32(0, 3), {}, "rows and columns"),
            ("negative size", _row(1, 2), _i32(1, -3), {}, "rows and columns"),
            ("size of three", _row(1, 2), _i32(1, 2, 3), {}, "rows and columns"),
            ("scalar size", _row(1, 2), np.int32(1), {}, "rows and columns"),
            ("both ways", _row(1, 2), _i32(1, 2), {"align_corners": True, "half_pixel_centers": True}, "in one way"),
            ("no pixels", np.zeros((1, 0, 2, 1), np.float32), _i32(1, 2), {}, "nothing to sample"),
            ("rank 3", np.zeros((2, 2, 1), np.float32), _i32(1, 2), {}, "rank"),
            ("too large", np.zeros((1, 1, 1, 1), np.float32), _i32(2**31 - 1, 2**31 - 1), {}, "too many elements"),
        )
    ),
]

_RESIZE_GRAD = [
    *(
        OpCase(
            f"{op}Grad/{way}",
            f"{op}Grad",
            [numbers("float32", 2, 7, 4, 2), numbers(dtype, 2, 3, 5, 2)],
            attrs,
            expected=_spread(weights(places)),
            differentiate=(),
        )
        for op, weights in _METHODS[1:]
        for dtype in ("float32",)
        for way, attrs, places in _WAYS
    ),
    OpCase(
        "ResizeBilinearGrad/float64",
        "ResizeBilinearGrad",
        [numbers("float32", 1, 4, 4, 1), numbers("float64", 1, 2, 2, 1)],
        expected=_spread(_bilinear(_legacy)),
        differentiate=(),
    ),
    *(
        OpCase(
            f"ResizeNearestNeighborGrad/{way} {dtype}",
            "ResizeNearestNeighborGrad",
            [numbers(dtype, 2, 7, 4, 2), _i32(3, 5)],
            attrs,
            expected=_spread(_nearest(places), (3, 5)),
        )
        for way, attrs, places in _WAYS
        for dtype in ("float16", "float32", "float64", "int32")
    ),
    *(
        OpCase(
            f"{op}/another shape",
            op,
            [numbers("float32", 2, 2, 2, 1), numbers("float32", 1, 2, 2, 1)],
            raises="gradient does not fit",
            deviation="TensorFlow does not compare the batches",
        )
        for op in ("ResizeBilinearGrad", "ResizeBicubicGrad")
    ),
    OpCase(
        "ResizeNearestNeighborGrad/size 0",
        "ResizeNearestNeighborGrad",
        [_row(1, 2), _i32(0, 1)],
        raises="rows and columns",
    ),
]


def _cropped(method: str = "bilinear", outside: float = 0.0) -> Callable[..., Any]:
    def expected(image: Any, boxes: Any, which: Any, size: Any) -> Any:
        rows, columns = (int(item) for item in size)
        result = np.full((len(boxes), rows, columns, image.shape[3]), outside)
        for n, (box, number) in enumerate(zip(boxes.astype(float), which, strict=True)):
            pixels = image[number].astype(float)
            for i in range(rows):
                for j in range(columns):
                    place = []
                    for k, out, first, last in ((i, rows, box[0], box[2]), (j, columns, box[1], box[3])):
                        place.append(first + k * (last - first) / (out - 1) if out > 1 else (first + last) / 2)
                    y, x = place[0] * (len(pixels) - 1), place[1] * (pixels.shape[1] - 1)
                    if not (0 <= y <= len(pixels) - 1 and 0 <= x <= pixels.shape[1] - 1):
                        continue
                    if method == "nearest":
                        result[n, i, j] = pixels[math.floor(y + 0.5), math.floor(x + 0.5)]
                        continue
                    for a in (math.floor(y), math.floor(y) + 1):
                        for b in (math.floor(x), math.floor(x) + 1):
                            weight = (1 - abs(y - a)) * (1 - abs(x - b))
                            if weight:
                                start = 0.0 if (a, b) == (math.floor(y), math.floor(x)) else result[n, i, j]
                                result[n, i, j] = start + weight * pixels[a, b]
        return result.astype(np.float32)

    return expected


_BOXES = _f32([0.1, 0.2, 0.9, 0.8], [0.9, 0.1, 0.3, 0.7], [-0.3, 0.0, 0.6, 1.4], [0.0, 0.0, 1.0, 1.0])
_CROP = [
    *(
        OpCase(
            f"CropAndResize/{dtype} {method}",
            "CropAndResize",
            [numbers(dtype, 2, 5, 4, 3, low=0, high=50), _BOXES, _i32(0, 1, 1, 0), _i32(3, 2)],
            {"method": method},
            expected=_cropped(method),
            differentiate=(),
        )
        for dtype in ("float16", "float32", "float64", "uint8", "int32")
        for method in ("bilinear", "nearest")
    ),
    OpCase(
        "CropAndResize/one pixel, outside 7",
        "CropAndResize",
        [numbers("float32", 1, 3, 3, 1), _f32([0.2, 0.2, 0.5, 0.9], [2, 2, 3, 3]), _i32(0, 0), _i32(1, 1)],
        {"extrapolation_value": 7.0},
        expected=_cropped(outside=7.0),
        differentiate=(),
    ),
    OpCase(
        "CropAndResize/no boxes",
        "CropAndResize",
        [numbers("float32", 1, 3, 3, 1), np.zeros((0, 4), np.float32), _i32(), _i32(2, 2)],
        expected=np.zeros((0, 2, 2, 1), np.float32),
    ),
    *(
        OpCase(f"CropAndResize/{what}", "CropAndResize", [image, boxes, which, size], raises=text)
        for what, image, boxes, which, size, text in (
            ("image too large", _row(1, 2), _f32([0, 0, 1, 1]), _i32(1), _i32(1, 1), "no such image"),
            ("negative image", _row(1, 2), _f32([0, 0, 1, 1]), _i32(-1), _i32(1, 1), "no such image"),
            ("size 0", _row(1, 2), _f32([0, 0, 1, 1]), _i32(0), _i32(0, 1), "rows and columns"),
            ("too few numbers", _row(1, 2), _f32([0, 0, 1, 1], [0, 0, 1, 1]), _i32(0), _i32(1, 1), "boxes do not fit"),
            ("boxes of three", _row(1, 2), _f32([0, 0, 1]), _i32(0), _i32(1, 1), "boxes do not fit"),
            ("no pixels", np.zeros((1, 0, 2, 1), np.float32), _f32([0, 0, 1, 1]), _i32(0), _i32(1, 1), "to sample"),
        )
    ),
]

_FOUR = _f32([0.1, 0.1, 0.2, 0.2], [0.3, 0.3, 0.3, 0.4], [0.5, 0.5, 0.6, 0.6], [0.7, 0.7, 0.8, 0.8])
_OVERLAPPING = _f32(
    [0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]
)
_SCORES = _f32(0.9, 0.75, 0.6, 0.95, 0.5, 0.3)


def _suppress(what: str, boxes: Any, scores: Any, most: int, iou: float, least: float, result: Any) -> OpCase:
    inputs = [boxes, scores, np.int32(most), np.float32(iou), np.float32(least)]
    name = f"NonMaxSuppressionV3/{what}"
    if isinstance(result, str):
        return OpCase(name, "NonMaxSuppressionV3", inputs, raises=result)
    return OpCase(name, "NonMaxSuppressionV3", inputs, expected=_i32(*result))


_SUPPRESSION = [
    _suppress("three clusters", _OVERLAPPING, _SCORES, 3, 0.5, 0, (3, 0, 5)),
    _suppress("at most two", _OVERLAPPING, _SCORES, 2, 0.5, 0, (3, 0)),
    _suppress("more than there are", _OVERLAPPING, _SCORES, 30, 0.5, 0, (3, 0, 5)),
    _suppress("score threshold", _OVERLAPPING, _SCORES, 3, 0.5, 0.4, (3, 0)),
    _suppress("any overlap", _OVERLAPPING, _SCORES, 9, 1, 0, (3, 0, 1, 2, 4, 5)),
    _suppress("no overlap", _OVERLAPPING, _SCORES, 9, 0, 0, (3, 0, 5)),
    _suppress("flipped corners", _OVERLAPPING[:, [2, 3, 0, 1]], _SCORES, 3, 0.5, 0, (3, 0, 5)),
    _suppress("ties by position", _FOUR[[0, 2, 3]], _f32(0.5, 0.5, 0.5), 3, 0.5, 0, (0, 1, 2)),
    _suppress("equal boxes", _FOUR[[0, 0, 0]], _f32(0.5, 0.5, 0.6), 3, 0.5, 0, (2,)),
    _suppress("nothing wanted", _FOUR, _f32(0.9, 0.8, 0.7, 0.6), 0, 0.5, 0, ()),
    _suppress("O49 no boxes", np.zeros((0, 4), np.float32), _f32(), 3, 0.5, 0, ()),
    _suppress("O49 box without area", _FOUR, _f32(0.9, 0.8, 0.7, 0.6), 8, 0.5, 0, (0, 1, 2, 3)),
    _suppress("O49 NaN score", _FOUR, _f32(0.9, _NAN, 0.7, 0.6), 8, 0.5, 0, (0, 2, 3)),
    _suppress("float16", _OVERLAPPING.astype(np.float16), _SCORES.astype(np.float16), 3, 0.5, 0, (3, 0, 5)),
    _suppress("O49 negative size", _FOUR, _f32(0.9, 0.8, 0.7, 0.6), -1, 0.5, 0, "max_output_size is negative"),
    _suppress("threshold above 1", _FOUR, _f32(0.9, 0.8, 0.7, 0.6), 1, 1.5, 0, "iou_threshold is out of range"),
    _suppress("NaN threshold", _FOUR, _f32(0.9, 0.8, 0.7, 0.6), 1, _NAN, 0, "iou_threshold is out of range"),
    _suppress("too few scores", _FOUR, _f32(0.9), 1, 0.5, 0, "boxes do not fit"),
    _suppress("boxes of three", _FOUR[:, :3], _f32(0.9, 0.8, 0.7, 0.6), 1, 0.5, 0, "boxes do not fit"),
]


def _by_pixel(function: Callable[..., Any]) -> Callable[..., Any]:
    def expected(images: Any) -> Any:
        rows = [function(*row) for row in images.astype(float).reshape(-1, 3)]
        return np.array(rows).reshape(images.shape).astype(images.dtype)

    return expected


def _colours(dtype: str, *shape: int) -> Any:
    return numbers(dtype, *shape, low=0.05, high=0.95)


_COLOUR = [
    *(
        OpCase(f"{op}/{dtype}", op, [_colours(dtype, 2, 3, 2, 3)], expected=_by_pixel(function))
        for op, function in (("RGBToHSV", colorsys.rgb_to_hsv), ("HSVToRGB", colorsys.hsv_to_rgb))
        for dtype in ("float16", "bfloat16", "float32", "float64")
        if (op, dtype) != ("HSVToRGB", "bfloat16")
    ),
    # At greys and at the corners of the cube the colours meet in kinks.
    OpCase(
        "RGBToHSV/greys",
        "RGBToHSV",
        [_f32([0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5])],
        expected=_f32([0, 0, 0], [0, 0, 1], [0, 0, 0.5]),
        differentiate=(),
    ),
    OpCase(
        "RGBToHSV/corners",
        "RGBToHSV",
        [_f32([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1])],
        expected=_by_pixel(colorsys.rgb_to_hsv),
        differentiate=(),
    ),
    OpCase(
        "HSVToRGB/hues",
        "HSVToRGB",
        [_f32(*[[hue / 12, 0.8, 0.9] for hue in range(13)])],
        expected=_by_pixel(colorsys.hsv_to_rgb),
        differentiate=(),
    ),
    *(
        OpCase(f"{op}/one colour", op, [_f32(0.2, 0.4, 0.8)], expected=_by_pixel(function))
        for op, function in (("RGBToHSV", colorsys.rgb_to_hsv), ("HSVToRGB", colorsys.hsv_to_rgb))
    ),
    *(
        OpCase(f"{op}/empty", op, [np.zeros((0, 3), np.float32)], expected=np.zeros((0, 3), np.float32))
        for op in ("RGBToHSV", "HSVToRGB")
    ),
    *(
        OpCase(f"{op}/{what}", op, [images], raises="three parts")
        for op in ("RGBToHSV", "HSVToRGB")
        for what, images in (("four parts", np.zeros((2, 4), np.float32)), ("scalar", np.float32(1)))
    ),
    *(
        OpCase(
            f"AdjustContrastv2/{dtype} {list(shape)}",
            "AdjustContrastv2",
            [_colours(dtype, *shape), np.float32(1.7)],
            expected=lambda x, f: (
                (x.astype(float) - x.mean((-3, -2), float, keepdims=True)) * float(f)
                + x.mean((-3, -2), float, keepdims=True)
            ).astype(x.dtype),
            differentiate=(),
        )
        for dtype in ("float16", "float32")
        for shape in ((3, 4, 2), (2, 3, 2, 1), (1, 2, 3, 3, 3))
    ),
    OpCase(
        "AdjustContrastv2/infinite",
        "AdjustContrastv2",
        [_f32([[[np.inf], [1]]])[0], np.float32(2)],
        expected=np.full((1, 2, 1), _NAN, np.float32),
        differentiate=(),
    ),
    OpCase(
        "AdjustContrastv2/empty",
        "AdjustContrastv2",
        [np.zeros((0, 2, 1), np.float32), np.float32(2)],
        expected=np.zeros((0, 2, 1), np.float32),
    ),
    OpCase(
        "AdjustContrastv2/rank 2", "AdjustContrastv2", [np.zeros((2, 1), np.float32), np.float32(2)], raises="no images"
    ),
    OpCase(
        "AdjustContrastv2/two factors",
        "AdjustContrastv2",
        [np.zeros((2, 1, 1), np.float32), _f32(1, 2)],
        raises="scalar",
    ),
]


def _patches(sizes: Any, strides: Any = (1, 1), rates: Any = (1, 1), padding: str = "VALID") -> Callable[..., Any]:
    def expected(images: Any) -> Any:
        counts, before = [], []
        for axis in (0, 1):
            size, reach = images.shape[axis + 1], (sizes[axis] - 1) * rates[axis] + 1
            same = math.ceil(size / strides[axis])
            counts.append(same if padding == "SAME" else max(math.ceil((size - reach + 1) / strides[axis]), 0))
            before.append(max((same - 1) * strides[axis] + reach - size, 0) // 2 if padding == "SAME" else 0)
        result = np.zeros((len(images), *counts, *sizes, images.shape[3]), images.dtype)
        for i, j, y, x in np.ndindex(*counts, *sizes):
            row = i * strides[0] + y * rates[0] - before[0]
            column = j * strides[1] + x * rates[1] - before[1]
            if 0 <= row < images.shape[1] and 0 <= column < images.shape[2]:
                result[:, i, j, y, x] = images[:, row, column]
        return result.reshape(len(images), *counts, -1)

    return expected


def _patch_attrs(sizes: Any, strides: Any = (1, 1), rates: Any = (1, 1), padding: str = "VALID") -> dict[str, Any]:
    return {
        "ksizes": [1, *sizes, 1],
        "strides": [1, *strides, 1],
        "rates": [1, *rates, 1],
        "padding": padding,
    }


_PATCH_WAYS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("2x2", ((2, 2),)),
    ("3x2 strides 2, 1", ((3, 2), (2, 1))),
    ("2x2 rates 2, 3", ((2, 2), (1, 1), (2, 3))),
    ("SAME", ((3, 3), (2, 2), (1, 1), "SAME")),
    ("SAME rates", ((3, 2), (1, 2), (2, 2), "SAME")),
    ("stride over the end", ((1, 1), (9, 9), (1, 1), "SAME")),
)
_PATCHES = [
    *(
        OpCase(
            f"ExtractImagePatches/{dtype} {what}",
            "ExtractImagePatches",
            [numbers(dtype, 2, 5, 6, 2)],
            _patch_attrs(*way),
            expected=_patches(*way),
        )
        for dtype in ("float32", "int32", "float64", "complex64")
        for what, way in _PATCH_WAYS
    ),
    OpCase(
        "ExtractImagePatches/window too large",
        "ExtractImagePatches",
        [np.ones((1, 2, 2, 1), np.float32)],
        _patch_attrs((3, 3)),
        expected=np.zeros((1, 0, 0, 9), np.float32),
        differentiate=(),
    ),
    OpCase(
        "ExtractImagePatches/no images",
        "ExtractImagePatches",
        [np.ones((0, 2, 2, 1), np.float32)],
        _patch_attrs((1, 2)),
        expected=np.zeros((0, 2, 1, 2), np.float32),
    ),
    *(
        OpCase(
            f"ExtractImagePatches/{what}",
            "ExtractImagePatches",
            [np.ones((1, 2, 2, 1), np.float32)],
            {**_patch_attrs((1, 1)), **attrs},
            raises=text,
            deviation="TensorFlow's number of channels overflows" if what == "too large" else None,
        )
        for what, attrs, text in (
            ("stride 0", {"strides": [1, 0, 1, 1]}, "'strides' is wrong"),
            ("negative rate", {"rates": [1, 1, -1, 1]}, "'rates' is wrong"),
            ("over channels", {"ksizes": [1, 1, 1, 2]}, "'ksizes' is wrong"),
            ("five sizes", {"ksizes": [1, 1, 1, 1, 1]}, "'ksizes' is wrong"),
            ("too large", {"ksizes": [1, 2**31 - 1, 2**31 - 1, 1], "padding": "SAME"}, "too many elements"),
        )
    ),
    OpCase(
        "ExtractImagePatches/rank 3",
        "ExtractImagePatches",
        [np.ones((2, 2, 1), np.float32)],
        _patch_attrs((1, 1)),
        raises="rank|no images",
    ),
]

_PADDED_INPUTS = [_OVERLAPPING, _SCORES, np.int32(4), np.float32(0.5), np.float32(0)]
_PADDED = [
    OpCase(
        "NonMaxSuppressionV4/bare",
        "NonMaxSuppressionV4",
        _PADDED_INPUTS,
        expected=(_i32(3, 0, 5), np.array(3, np.int32)),
    ),
    OpCase(
        "NonMaxSuppressionV4/padded",
        "NonMaxSuppressionV4",
        _PADDED_INPUTS,
        {"pad_to_max_output_size": True},
        (_i32(3, 0, 5, 0), np.array(3, np.int32)),
    ),
    OpCase(
        "NonMaxSuppressionV4/negative",
        "NonMaxSuppressionV4",
        [*_PADDED_INPUTS[:2], np.int32(-1), *_PADDED_INPUTS[3:]],
        raises="max_output_size",
    ),
]

_PIXELS = np.array(
    [[[0.25, 0.5, 0.875], [0, 0, 0], [1, 1, 1], [0.9, 0.1, 0.1], [0.9, 0.1, 0.5], [0.3, 0.7, 0.3]]], np.float32
)


def _turned(images: Any, delta: Any) -> Any:
    """Pixel by pixel: the hue moves, and the other two stay."""
    rows = [colorsys.rgb_to_hsv(*map(float, pixel)) for pixel in images.reshape(-1, 3)]
    pixels = [colorsys.hsv_to_rgb((hue + float(delta)) % 1, *others) for hue, *others in rows]
    return np.array(pixels).astype(images.dtype).reshape(images.shape)


def _saturated(images: Any, scale: Any) -> Any:
    rows = [colorsys.rgb_to_hsv(*map(float, pixel)) for pixel in images.reshape(-1, 3)]
    pixels = [colorsys.hsv_to_rgb(hue, min(max(full * float(scale), 0), 1), value) for hue, full, value in rows]
    return np.array(pixels).astype(images.dtype).reshape(images.shape)


_ADJUSTED = [
    *(
        OpCase(f"AdjustHue/by {delta}", "AdjustHue", [_PIXELS, np.float32(delta)], expected=_turned)
        for delta in (0, 0.1, -0.4, 1, 1.7)
    ),
    OpCase("AdjustHue/float16", "AdjustHue", [_PIXELS.astype(np.float16), np.float32(0.1)], expected=_turned),
    OpCase(
        "AdjustHue/beyond the range",
        "AdjustHue",
        [np.array([[[-0.25, 0.5, 1.5]]], np.float32), np.float32(0.5)],
        expected=np.array([[[1.5, 0.75, -0.25]]], np.float32),
    ),
    OpCase("AdjustHue/a row", "AdjustHue", [_PIXELS[0], np.float32(0.1)], raises=r"rows, columns and colours"),
    OpCase("AdjustHue/two colours", "AdjustHue", [_PIXELS[..., :2], np.float32(0.1)], raises=r"three parts"),
    OpCase("AdjustHue/vector", "AdjustHue", [_PIXELS, np.ones(1, np.float32)], raises=r"delta must be a scalar"),
    *(
        OpCase(f"AdjustSaturation/by {scale}", "AdjustSaturation", [_PIXELS, np.float32(scale)], expected=_saturated)
        for scale in (0, 0.5, 1, 2, -1)
    ),
    OpCase(
        "AdjustSaturation/float16",
        "AdjustSaturation",
        [_PIXELS.astype(np.float16), np.float32(0.5)],
        expected=_saturated,
    ),
    OpCase(
        "AdjustSaturation/a row", "AdjustSaturation", [_PIXELS[0], np.float32(1)], raises=r"rows, columns and colours"
    ),
]

CASES = [*_ADJUSTED, *_RESIZE, *_RESIZE_GRAD, *_CROP, *_SUPPRESSION, *_PADDED, *_COLOUR, *_PATCHES]
