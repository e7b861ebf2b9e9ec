"""Cases of the convolutions. What must come out is added up tap by tap and pixel by pixel, in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16

_BFLOAT16 = bfloat16.array_type


def _numbers(*shape: int, dtype: Any = np.float32) -> Array:
    """Distinct multiples of 1/8 around 0: their products are exact."""
    size = int(np.prod(shape))
    order = np.random.default_rng(size).permutation(size)
    return np.asarray((order - size // 2) / 8, dtype).reshape(shape)


def _attrs(
    *,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: str = "SAME",
    pads: tuple[tuple[int, int], tuple[int, int]] | None = None,
    data_format: str = "NHWC",
) -> dict[str, Any]:
    """The attributes of a convolution."""

    def spread(values: list[Any], fill: Any) -> list[Any]:
        return [fill, *values, fill] if data_format == "NHWC" else [fill, fill, *values]

    attrs = {
        "strides": spread(list(stride), 1),
        "dilations": spread(list(dilation), 1),
        "padding": padding,
        "data_format": data_format,
    }
    if pads is not None:
        attrs["padding"] = "EXPLICIT"
        attrs["explicit_paddings"] = [size for pair in spread(list(pads), (0, 0)) for size in pair]
    return attrs


def _last(attrs: Mapping[str, Any], images: Array) -> Array:
    return images if attrs["data_format"] == "NHWC" else images.transpose(0, 2, 3, 1)


def _as_format(attrs: Mapping[str, Any], images: Array) -> Array:
    return images if attrs["data_format"] == "NHWC" else images.transpose(0, 3, 1, 2)


def _axis(attrs: Mapping[str, Any], size: int, taps: int, axis: int) -> tuple[int, int, int, int]:
    """Outputs, stride, dilation and padding before, along rows (0) or columns (1)."""
    place = axis + (1 if attrs["data_format"] == "NHWC" else 2)
    stride, dilation = attrs["strides"][place], attrs["dilations"][place]
    reach = (taps - 1) * dilation + 1
    if attrs["padding"] == "SAME":
        outputs = -(-size // stride)
        return outputs, stride, dilation, max((outputs - 1) * stride + reach - size, 0) // 2
    before, after = attrs.get("explicit_paddings", [0] * 8)[2 * place : 2 * place + 2]
    return (size + before + after - reach) // stride + 1, stride, dilation, before


def _meetings(
    attrs: Mapping[str, Any], size: tuple[int, ...], taps: tuple[int, ...]
) -> tuple[tuple[int, int], Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]]:
    """The size of the output, and each (output, tap, input) that meet."""
    (height, si, di, top), (width, sj, dj, left) = (_axis(attrs, size[axis], taps[axis], axis) for axis in (0, 1))

    def walk() -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
        for i, j, a, b in np.ndindex(height, width, *taps[:2]):
            row, column = i * si + a * di - top, j * sj + b * dj - left
            if 0 <= row < size[0] and 0 <= column < size[1]:
                yield (i, j), (a, b), (row, column)

    return (height, width), walk()


def _dense(w: Array, channels: int) -> Array:
    """A grouped filter as one for all channels, with zeros between different groups."""
    groups = channels // w.shape[2]
    full = np.zeros((*w.shape[:2], channels, w.shape[3]))
    for group in range(groups):
        inputs = slice(group * w.shape[2], (group + 1) * w.shape[2])
        outputs = slice(group * w.shape[3] // groups, (group + 1) * w.shape[3] // groups)
        full[:, :, inputs, outputs] = w[..., outputs]
    return full


def _forward(attrs: Mapping[str, Any], images: Array, w: Array) -> Array:
    x = _last(attrs, images).astype(np.float64)
    full = _dense(w.astype(np.float64), x.shape[3])
    (height, width), meetings = _meetings(attrs, x.shape[1:3], w.shape)
    y = np.zeros((len(x), height, width, w.shape[3]))
    for (i, j), tap, (row, column) in meetings:
        y[:, i, j] += x[:, row, column] @ full[tap]
    return _as_format(attrs, y)


def _by_input(attrs: Mapping[str, Any], sizes: Array, w: Array, gradient: Array) -> Array:
    g = _last(attrs, gradient).astype(np.float64)
    dx = _last(attrs, np.zeros(tuple(sizes)))
    full = _dense(w.astype(np.float64), dx.shape[3])
    for (i, j), tap, (row, column) in _meetings(attrs, dx.shape[1:3], w.shape)[1]:
        dx[:, row, column] += g[:, i, j] @ full[tap].T
    return _as_format(attrs, dx)


def _by_filter(attrs: Mapping[str, Any], images: Array, sizes: Array, gradient: Array) -> Array:
    x, g = _last(attrs, images).astype(np.float64), _last(attrs, gradient).astype(np.float64)
    dw = np.zeros((*sizes[:2], x.shape[3], sizes[3]))
    for (i, j), tap, (row, column) in _meetings(attrs, x.shape[1:3], tuple(sizes))[1]:
        dw[tap] += x[:, row, column].T @ g[:, i, j]
    groups = x.shape[3] // sizes[2]
    blocks = [
        dw[
            :,
            :,
            group * sizes[2] : (group + 1) * sizes[2],
            group * sizes[3] // groups : (group + 1) * sizes[3] // groups,
        ]
        for group in range(groups)
    ]
    return np.concatenate(blocks, axis=3)


def _of_kind(
    kind: str, label: str, images: tuple[int, ...], filters: tuple[int, ...], dtype: Any, attrs: dict[str, Any]
) -> list[OpCase]:
    """The convolution and its two gradients on one configuration."""
    depthwise = kind == "DepthwiseConv2dNative"

    def grouped(w: Array) -> Array:
        """A depthwise filter `[taps, taps, c, m]` is one of c groups `[taps, taps, 1, c * m]`."""
        return w.reshape(*w.shape[:2], 1, -1) if depthwise else w

    def by_filter(x: Array, sizes: Array, g: Array) -> Array:
        flat = [*sizes[:2], 1, sizes[2] * sizes[3]] if depthwise else list(sizes)
        return _by_filter(attrs, x, np.array(flat), g).reshape(tuple(sizes))

    x, w = _numbers(*images, dtype=dtype), _numbers(*filters, dtype=dtype)
    y = _forward(attrs, x, grouped(w))
    g = _numbers(*y.shape, dtype=dtype)
    cases = [
        OpCase(f"{kind}/{label}", kind, [x, w], attrs, expected=lambda x, w: _forward(attrs, x, grouped(w))),
        OpCase(
            f"{kind}BackpropInput/{label}",
            f"{kind}BackpropInput",
            [np.array(images, np.int32), w, g],
            attrs,
            expected=lambda sizes, w, g: _by_input(attrs, sizes, grouped(w), g),
        ),
    ]
    if np.dtype(dtype).kind != "i":
        sizes = np.array(filters, np.int32)
        cases.append(
            OpCase(f"{kind}BackpropFilter/{label}", f"{kind}BackpropFilter", [x, sizes, g], attrs, expected=by_filter)
        )
    return cases


_CONFIGURATIONS: list[tuple[str, tuple[int, ...], tuple[int, ...], Any, dict[str, Any]]] = [
    ("SAME", (2, 5, 4, 3), (3, 2, 3, 4), np.float32, _attrs()),
    ("VALID", (2, 5, 4, 3), (3, 2, 3, 2), np.float32, _attrs(padding="VALID")),
    ("VALID, strides 2 and 3", (1, 6, 7, 2), (2, 3, 2, 3), np.float32, _attrs(stride=(2, 3), padding="VALID")),
    ("SAME, stride 2, odd size", (2, 5, 5, 1), (3, 3, 1, 2), np.float32, _attrs(stride=(2, 2))),
    ("SAME, stride 2, even size", (1, 4, 6, 1), (3, 3, 1, 2), np.float32, _attrs(stride=(2, 2))),
    ("stride beyond the window", (1, 7, 8, 1), (2, 2, 1, 2), np.float32, _attrs(stride=(3, 3), padding="VALID")),
    ("dilated, SAME", (1, 7, 6, 2), (3, 2, 2, 2), np.float32, _attrs(dilation=(2, 3))),
    (
        "dilated, VALID, stride 2",
        (1, 7, 8, 1),
        (2, 3, 1, 2),
        np.float32,
        _attrs(stride=(2, 1), padding="VALID", dilation=(3, 2)),
    ),
    ("explicit padding", (1, 4, 3, 2), (2, 3, 2, 2), np.float32, _attrs(pads=((2, 1), (0, 3)))),
    (
        "explicit padding, stride 2",
        (1, 4, 3, 2),
        (2, 3, 2, 2),
        np.float32,
        _attrs(stride=(2, 2), pads=((0, 3), (1, 1))),
    ),
    ("one tap", (2, 3, 3, 4), (1, 1, 4, 3), np.float32, _attrs(padding="VALID")),
    ("window larger than the image", (1, 2, 2, 1), (5, 5, 1, 2), np.float32, _attrs()),
    ("dilated far beyond the image", (1, 3, 3, 1), (3, 3, 1, 2), np.float32, _attrs(dilation=(2**20, 2**20))),
    ("groups", (1, 4, 4, 4), (2, 2, 2, 6), np.float32, _attrs()),
    ("a group per channel", (1, 4, 4, 3), (2, 2, 1, 3), np.float32, _attrs()),
    ("NCHW", (2, 3, 5, 4), (3, 2, 3, 4), np.float32, _attrs(data_format="NCHW")),
    (
        "NCHW, groups, explicit padding, stride 2",
        (1, 4, 4, 5),
        (2, 2, 2, 4),
        np.float32,
        _attrs(data_format="NCHW", stride=(2, 1), pads=((1, 0), (0, 2))),
    ),
    ("no image", (0, 5, 5, 2), (2, 2, 2, 3), np.float32, _attrs(padding="VALID")),
    ("O39 no image", (0, 28, 28, 1), (5, 5, 1, 32), np.float32, _attrs()),
    ("float64", (2, 5, 4, 3), (3, 2, 3, 4), np.float64, _attrs()),
    ("float16", (1, 4, 4, 2), (2, 2, 2, 2), np.float16, _attrs()),
    ("bfloat16", (1, 4, 4, 2), (2, 2, 2, 2), _BFLOAT16, _attrs()),
]

_DEPTHWISE: list[tuple[str, tuple[int, ...], tuple[int, ...], Any, dict[str, Any]]] = [
    ("SAME", (2, 5, 4, 3), (3, 2, 3, 1), np.float32, _attrs()),
    ("VALID, multiplier 2", (2, 5, 4, 3), (3, 2, 3, 2), np.float32, _attrs(padding="VALID")),
    ("SAME, stride 2", (1, 5, 6, 2), (3, 3, 2, 2), np.float32, _attrs(stride=(2, 2))),
    ("dilated", (1, 6, 6, 2), (2, 3, 2, 1), np.float32, _attrs(dilation=(2, 2), padding="VALID")),
    ("explicit padding", (1, 4, 3, 2), (2, 2, 2, 2), np.float32, _attrs(pads=((2, 1), (0, 2)))),
    ("NCHW", (1, 3, 4, 5), (2, 2, 3, 2), np.float32, _attrs(data_format="NCHW")),
    ("no image", (0, 4, 4, 2), (2, 2, 2, 3), np.float32, _attrs()),
    ("float64", (1, 4, 4, 2), (2, 2, 2, 2), np.float64, _attrs()),
    ("float16", (1, 4, 4, 2), (2, 2, 2, 2), np.float16, _attrs()),
    ("bfloat16", (1, 4, 4, 2), (2, 2, 2, 2), _BFLOAT16, _attrs()),
]

_IMAGE, _FILTER = _numbers(1, 4, 4, 2), _numbers(2, 2, 2, 3)
_VALID = _attrs(padding="VALID")


def _wrong(label: str, raises: str, *, x: Array = _IMAGE, w: Array = _FILTER, **changes: Any) -> OpCase:
    return OpCase(f"Conv2D/{label}", "Conv2D", [x, w], {**_VALID, **changes}, raises=raises)


_SIZES = np.array([1, 4, 4, 2], np.int32)
_GRADIENT = _numbers(1, 3, 3, 3)

_ERRORS = [
    _wrong("O39 filter without taps", "the filter has no elements", w=np.zeros((0, 0, 2, 1), np.float32)),
    _wrong("O39 filter without outputs", "the filter has no elements", w=np.zeros((2, 2, 2, 0), np.float32)),
    _wrong("O39 stride 0", "attr 'strides' is not right", strides=[1, 0, 1, 1]),
    _wrong("negative stride", "attr 'strides' is not right", strides=[1, 1, -2, 1]),
    _wrong("three strides", "attr 'strides' is not right", strides=[1, 1, 1]),
    _wrong("stride over images", "attr 'strides' reaches over images or channels", strides=[2, 1, 1, 1]),
    _wrong("dilation 0", "attr 'dilations' is not right", dilations=[1, 0, 1, 1]),
    _wrong(
        "negative padding",
        "explicit_paddings' is not right",
        padding="EXPLICIT",
        explicit_paddings=[0, 0, -1, 2, 0, 0, 0, 0],
    ),
    _wrong(
        "padding of channels",
        "explicit_paddings' is not right",
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 0, 0, 0, 0, 1, 0],
    ),
    _wrong("explicit without paddings", "explicit_paddings' is not right", padding="EXPLICIT"),
    _wrong("paddings without explicit", "explicit_paddings are given", explicit_paddings=[0, 0, 1, 1, 0, 0, 0, 0]),
    _wrong("channels not divided", "the filter does not fit the channels", w=_numbers(2, 2, 3, 3)),
    _wrong("no channels", "the filter does not fit the channels", x=np.zeros((1, 4, 4, 0), np.float32)),
    _wrong("groups share outputs unevenly", "share its outputs unevenly", x=_numbers(1, 4, 4, 4)),
    _wrong("window does not fit", "the window does not fit", x=_numbers(1, 1, 4, 2), strides=[1, 2, 2, 1]),
    _wrong("no rows", "the window does not fit", x=np.zeros((1, 0, 4, 2), np.float32)),
    _wrong("rank 3", "rank is wrong", x=_IMAGE[0]),
    OpCase(
        "Conv2DBackpropInput/rows and columns only",
        "Conv2DBackpropInput",
        [np.array([4, 4], np.int32), _FILTER, _GRADIENT],
        _VALID,
        expected=lambda sizes, w, g: _by_input(_VALID, _SIZES, w, g),
    ),
    OpCase(
        "Conv2DBackpropInput/negative size",
        "Conv2DBackpropInput",
        [np.array([1, 4, -4, 2], np.int32), _FILTER, _GRADIENT],
        _VALID,
        raises="input_sizes has a negative size",
    ),
    OpCase(
        "Conv2DBackpropInput/wrong gradient",
        "Conv2DBackpropInput",
        [_SIZES, _FILTER, _GRADIENT[:, :2]],
        _VALID,
        raises="the gradient does not fit the output",
    ),
    OpCase(
        "Conv2DBackpropInput/huge size",
        "Conv2DBackpropInput",
        [np.array([1, 2**31 - 1, 2**31 - 1, 2], np.int32), _FILTER, _GRADIENT],
        _VALID,
        raises="the gradient does not fit the output",
    ),
    OpCase(
        "Conv2DBackpropFilter/five sizes",
        "Conv2DBackpropFilter",
        [_IMAGE, np.array([2, 2, 2, 3, 1], np.int32), _GRADIENT],
        _VALID,
        raises="rank is wrong",
    ),
    OpCase(
        "Conv2DBackpropFilter/wrong gradient",
        "Conv2DBackpropFilter",
        [_IMAGE, np.array([2, 2, 2, 3], np.int32), _GRADIENT[..., :2]],
        _VALID,
        raises="the gradient does not fit the output",
    ),
    OpCase(
        "Conv2DBackpropFilter/O55 channels not divided",
        "Conv2DBackpropFilter",
        [np.ones((1, 1, 1, 2), np.float32), np.ones(4, np.int32), np.ones((1, 1, 1, 1), np.float32)],
        _attrs(stride=(66, 49), padding="VALID"),
        raises="share its outputs unevenly",
    ),
    OpCase(
        "DepthwiseConv2dNative/another number of channels",
        "DepthwiseConv2dNative",
        [_IMAGE, _numbers(2, 2, 3, 1)],
        _VALID,
        raises="another number of channels",
    ),
    OpCase(
        "DepthwiseConv2dNative/O39 filter without taps",
        "DepthwiseConv2dNative",
        [_IMAGE, np.zeros((0, 2, 2, 1), np.float32)],
        _VALID,
        raises="the filter has no elements",
    ),
    OpCase(
        "DepthwiseConv2dNativeBackpropInput/negative size",
        "DepthwiseConv2dNativeBackpropInput",
        [np.array([-1, 4, 4, 2], np.int32), _numbers(2, 2, 2, 1), _numbers(1, 3, 3, 2)],
        _VALID,
        raises="input_sizes has a negative size",
    ),
    OpCase(
        "DepthwiseConv2dNativeBackpropFilter/negative size",
        "DepthwiseConv2dNativeBackpropFilter",
        [_IMAGE, np.array([2, -2, 2, 1], np.int32), _numbers(1, 3, 3, 2)],
        _VALID,
        raises="filter_sizes has a negative size",
    ),
]

_WITHOUT_KERNEL = {
    "Conv2DBackpropInput/NCHW, groups, explicit padding, stride 2",
    "Conv2DBackpropFilter/NCHW, groups, explicit padding, stride 2",
    "DepthwiseConv2dNativeBackpropInput/dilated",
    "DepthwiseConv2dNativeBackpropFilter/dilated",
}
"""TensorFlow on a CPU computes these not at all."""

_SHAPE_OF_INPUT = "for no image TensorFlow 2.21 gives the shape of its input, which is not what its graph says"
_DEVIATIONS = {
    "Conv2D/no image": _SHAPE_OF_INPUT,
    "Conv2D/O39 no image": _SHAPE_OF_INPUT,
    "DepthwiseConv2dNative/no image": _SHAPE_OF_INPUT,
    "DepthwiseConv2dNativeBackpropInput/negative size": "TensorFlow takes a negative number of images for the real one",
}


def _marked(case: OpCase) -> OpCase:
    return replace(case, oracle=case.id not in _WITHOUT_KERNEL, deviation=_DEVIATIONS.get(case.id))


_ALL = [
    *(case for configuration in _CONFIGURATIONS for case in _of_kind("Conv2D", *configuration)),
    *(_of_kind("Conv2D", "int32", (1, 4, 4, 2), (2, 2, 2, 2), np.int32, _attrs())),
    *(case for configuration in _DEPTHWISE for case in _of_kind("DepthwiseConv2dNative", *configuration)),
    *_ERRORS,
]

CASES = [_marked(case) for case in _ALL]
