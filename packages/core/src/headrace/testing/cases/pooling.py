"""Cases of pooling. What must come out is found window by window, from the definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16

_BFLOAT16 = bfloat16.array_type
_NAN, _INF = np.nan, np.inf


def _numbers(*shape: int, dtype: Any = np.float32) -> Array:
    """Distinct multiples of 1/8 around 0, so that no two values of a window are equal."""
    size = int(np.prod(shape))
    order = np.random.default_rng(size).permutation(size)
    return np.asarray((order - size // 2) / 8, dtype).reshape(shape)


def _attrs(
    ksize: tuple[int, int],
    strides: tuple[int, int],
    padding: str = "VALID",
    pads: tuple[tuple[int, int], tuple[int, int]] | None = None,
    data_format: str = "NHWC",
) -> dict[str, Any]:
    """The attributes of a pooling."""

    def spread(values: tuple[Any, ...], fill: Any) -> list[Any]:
        return [fill, *values, fill] if data_format == "NHWC" else [fill, fill, *values]

    attrs = {"ksize": spread(ksize, 1), "strides": spread(strides, 1), "padding": padding, "data_format": data_format}
    if pads is not None:
        attrs["padding"] = "EXPLICIT"
        attrs["explicit_paddings"] = [size for pair in spread(pads, (0, 0)) for size in pair]
    return attrs


def _last(attrs: Mapping[str, Any], images: Array) -> Array:
    return images if attrs["data_format"] == "NHWC" else images.transpose(0, 2, 3, 1)


def _as_format(attrs: Mapping[str, Any], images: Array) -> Array:
    return images if attrs["data_format"] == "NHWC" else images.transpose(0, 3, 1, 2)


def _spans(attrs: Mapping[str, Any], size: int, axis: int) -> list[tuple[int, int]]:
    """For each window along rows (0) or columns (1) its first and last input, exclusive, padding left out."""
    place = axis + (1 if attrs["data_format"] == "NHWC" else 2)
    taps, stride = attrs["ksize"][place], attrs["strides"][place]
    if attrs["padding"] == "SAME":
        outputs = -(-size // stride)
        before = max((outputs - 1) * stride + taps - size, 0) // 2
    else:
        before, after = attrs.get("explicit_paddings", [0] * 8)[2 * place : 2 * place + 2]
        outputs = (size + before + after - taps) // stride + 1
    return [(max(0, o * stride - before), min(size, o * stride - before + taps)) for o in range(outputs)]


Position = tuple[int, int, int, int]


def _windows(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> Iterator[tuple[Position, list[Position]]]:
    """Each output and the inputs of its window, row by row; both with channels last."""
    rows, columns = _spans(attrs, shape[1], 0), _spans(attrs, shape[2], 1)
    for n, i, j, c in np.ndindex(shape[0], len(rows), len(columns), shape[3]):
        yield (n, i, j, c), [(n, row, column, c) for row in range(*rows[i]) for column in range(*columns[j])]


def _output_shape(attrs: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], len(_spans(attrs, shape[1], 0)), len(_spans(attrs, shape[2], 1)), shape[3])


def _first_largest(x: Array, window: list[Position]) -> Position:
    """The first NaN if there is one, else the first of the largest values."""
    return next((place for place in window if x[place] != x[place]), max(window, key=lambda place: x[place]))


def _max_pool(attrs: Mapping[str, Any], images: Array) -> Array:
    x = _last(attrs, images)
    y = np.zeros(_output_shape(attrs, x.shape), x.dtype)
    for output, window in _windows(attrs, x.shape):
        y[output] = x[_first_largest(x, window)]
    return _as_format(attrs, y)


def _max_pool_grad(attrs: Mapping[str, Any], images: Array, pooled: Array, gradient: Array) -> Array:
    x, g = _last(attrs, images), _last(attrs, gradient)
    dx = np.zeros(x.shape, np.float64)
    for output, window in _windows(attrs, x.shape):
        dx[_first_largest(x, window)] += g[output]
    return _as_format(attrs, dx)


def _max_pool_grad_grad(attrs: Mapping[str, Any], images: Array, pooled: Array, gradient: Array) -> Array:
    x, g = _last(attrs, images), _last(attrs, gradient)
    y = np.zeros(_last(attrs, pooled).shape, np.float64)
    for output, window in _windows(attrs, x.shape):
        y[output] = g[_first_largest(x, window)]
    return _as_format(attrs, y)


def _avg_pool(attrs: Mapping[str, Any], images: Array) -> Array:
    x = _last(attrs, images).astype(np.float64)
    y = np.zeros(_output_shape(attrs, x.shape))
    for output, window in _windows(attrs, x.shape):
        y[output] = sum(x[place] for place in window) / len(window)
    return _as_format(attrs, y)


def _avg_pool_grad(attrs: Mapping[str, Any], sizes: Array, gradient: Array) -> Array:
    g = _last(attrs, gradient).astype(np.float64)
    dx = _last(attrs, np.zeros(tuple(sizes)))
    for output, window in _windows(attrs, dx.shape):
        for place in window:
            dx[place] += g[output] / len(window)
    return _as_format(attrs, dx)


def _bind(function: Callable[..., Array], attrs: Mapping[str, Any]) -> Callable[..., Array]:
    return lambda *inputs: function(attrs, *inputs)


def _max_cases(label: str, images: Array, attrs: dict[str, Any], **options: Any) -> list[OpCase]:
    """MaxPool, its gradient, and that one's, on one configuration."""
    pooled = _max_pool(attrs, images)
    gradient = _numbers(*pooled.shape, dtype=images.dtype)
    back = [images, pooled, gradient]
    # By the images and the pooled values the gradients are constant between ties, and the rules give none.
    floating = images.dtype.kind not in "iu"
    only_gradient = {**options, "differentiate": options.get("differentiate", (2,) if floating else ())}
    cases = [
        OpCase(f"MaxPool/{label}", "MaxPool", [images], attrs, expected=_bind(_max_pool, attrs), exact=True, **options),
        OpCase(
            f"MaxPoolGrad/{label}", "MaxPoolGrad", back, attrs, expected=_bind(_max_pool_grad, attrs), **only_gradient
        ),
    ]
    if attrs["padding"] != "EXPLICIT":
        inputs = [images, pooled, _numbers(*images.shape, dtype=images.dtype)]
        expected = _bind(_max_pool_grad_grad, attrs)
        cases.append(
            OpCase(f"MaxPoolGradGrad/{label}", "MaxPoolGradGrad", inputs, attrs, expected=expected, **only_gradient)
        )
    return cases


def _avg_cases(label: str, images: Array, attrs: dict[str, Any]) -> list[OpCase]:
    pooled = _avg_pool(attrs, images)
    sizes, gradient = np.array(images.shape, np.int32), _numbers(*pooled.shape, dtype=images.dtype)
    return [
        OpCase(f"AvgPool/{label}", "AvgPool", [images], attrs, expected=_bind(_avg_pool, attrs)),
        OpCase(f"AvgPoolGrad/{label}", "AvgPoolGrad", [sizes, gradient], attrs, expected=_bind(_avg_pool_grad, attrs)),
    ]


_BOTH: list[tuple[str, Array, dict[str, Any]]] = [
    ("2 by 2", _numbers(2, 4, 6, 3), _attrs((2, 2), (2, 2))),
    ("odd size, VALID", _numbers(1, 5, 7, 2), _attrs((2, 2), (2, 2))),
    ("odd size, SAME", _numbers(1, 5, 7, 2), _attrs((2, 2), (2, 2), "SAME")),
    ("overlapping", _numbers(2, 5, 4, 2), _attrs((3, 2), (1, 1))),
    ("overlapping, SAME", _numbers(1, 5, 4, 2), _attrs((3, 3), (2, 1), "SAME")),
    ("stride beyond the window", _numbers(1, 8, 7, 1), _attrs((2, 1), (3, 2))),
    ("window larger than the image", _numbers(1, 3, 2, 2), _attrs((2**20, 5), (1, 2), "SAME")),
    ("one tap", _numbers(1, 2, 3, 2), _attrs((1, 1), (1, 1))),
    ("NCHW", _numbers(2, 3, 4, 5), _attrs((2, 3), (2, 1), "SAME", data_format="NCHW")),
    ("O39 no image", _numbers(0, 4, 4, 2), _attrs((2, 2), (2, 2))),
    ("float64", _numbers(1, 4, 4, 2, dtype=np.float64), _attrs((2, 2), (2, 2))),
    ("float16", _numbers(1, 4, 4, 2, dtype=np.float16), _attrs((3, 3), (1, 1))),
    ("bfloat16", _numbers(1, 4, 4, 2, dtype=_BFLOAT16), _attrs((3, 3), (1, 1), "SAME")),
]

_TIES = np.array([1, 2, 2, 2], np.float32).reshape(1, 2, 2, 1)
_NAN_IMAGE = np.array([1, _NAN, 2, _NAN, _INF, 5, -_INF, 3], np.float32).reshape(1, 2, 4, 1)
_SQUARE = _attrs((2, 2), (2, 2))
_IMAGE = _numbers(1, 4, 4, 2)
_KEEPS_NAN = "TensorFlow drops a NaN that is not the first of its window; relu, maximum and max keep it there and here"


def _wrong(label: str, raises: str, **changes: Any) -> list[OpCase]:
    cases = [OpCase(f"MaxPool/{label}", "MaxPool", [_IMAGE], {**_SQUARE, **changes}, raises=raises)]
    if "explicit_paddings" not in changes:
        cases.append(OpCase(f"AvgPool/{label}", "AvgPool", [_IMAGE], {**_SQUARE, **changes}, raises=raises))
    return cases


_WITHOUT_KERNEL = {
    "MaxPoolGrad/NCHW",
    "MaxPoolGradGrad/NCHW",
    "MaxPool/explicit padding, NCHW, stride 2",
    "MaxPoolGrad/explicit padding, NCHW, stride 2",
}
"""TensorFlow on a CPU computes these not at all."""

_DEVIATIONS = {
    "MaxPool/all -inf": "TensorFlow gives the lowest finite number for a window of -inf",
}


def _marked(case: OpCase) -> OpCase:
    deviation = _DEVIATIONS.get(case.id, case.deviation)
    return replace(case, oracle=case.id not in _WITHOUT_KERNEL, deviation=deviation)


_ALL = [
    *(case for label, images, attrs in _BOTH for case in _max_cases(label, images, attrs)),
    *(case for label, images, attrs in _BOTH for case in _avg_cases(label, images, attrs)),
    *_max_cases("explicit padding", _numbers(1, 4, 3, 2), _attrs((3, 2), (1, 1), pads=((2, 1), (0, 1)))),
    *_max_cases(
        "explicit padding, NCHW, stride 2",
        _numbers(1, 2, 4, 3),
        _attrs((3, 2), (2, 1), pads=((1, 2), (1, 0)), data_format="NCHW"),
    ),
    *_max_cases("int32", np.asarray(8 * _numbers(1, 4, 4, 2), np.int32), _attrs((2, 2), (1, 1), "SAME")),
    *_max_cases("uint8", np.arange(32, dtype=np.uint8).reshape(1, 4, 4, 2), _attrs((2, 2), (2, 2))),
    # Ties and NaN are kinks: there is no derivative to compare with.
    *_max_cases("G05 ties", _TIES, _SQUARE, differentiate=()),
    *_max_cases("ties, overlapping", np.ones((1, 3, 3, 1), np.float32), _attrs((2, 2), (1, 1)), differentiate=()),
    *_max_cases("C01 NaN", _NAN_IMAGE, _attrs((2, 2), (2, 2)), differentiate=(), deviation=_KEEPS_NAN),
    *_max_cases(
        "C01 NaN, overlapping", _NAN_IMAGE, _attrs((2, 2), (1, 1), "SAME"), differentiate=(), deviation=_KEEPS_NAN
    ),
    *_max_cases("all -inf", np.full((1, 2, 2, 1), -_INF, np.float32), _SQUARE, differentiate=()),
    OpCase(
        "MaxPoolGrad/G05 value",
        "MaxPoolGrad",
        [_TIES, np.full((1, 1, 1, 1), 2, np.float32), np.ones((1, 1, 1, 1), np.float32)],
        _SQUARE,
        expected=np.array([0, 1, 0, 0], np.float32).reshape(1, 2, 2, 1),
        differentiate=(),
    ),
    OpCase(
        "MaxPoolGrad/infinite gradient stays in its place",
        "MaxPoolGrad",
        [_TIES, np.full((1, 1, 1, 1), 2, np.float32), np.full((1, 1, 1, 1), _INF, np.float32)],
        _SQUARE,
        expected=np.array([0, _INF, 0, 0], np.float32).reshape(1, 2, 2, 1),
        differentiate=(),
    ),
    *_wrong("O39 window 0", "attr 'ksize' is not right", ksize=[1, 0, 2, 1]),
    *_wrong("negative window", "attr 'ksize' is not right", ksize=[1, -2, 2, 1]),
    *_wrong("O39 stride 0", "attr 'strides' is not right", strides=[1, 0, 2, 1]),
    *_wrong("three sizes", "attr 'ksize' is too short", ksize=[1, 2, 2]),
    *_wrong("window over channels", "attr 'ksize' reaches over images or channels", ksize=[1, 2, 2, 2]),
    *_wrong("window over images", "attr 'ksize' reaches over images or channels", ksize=[2, 2, 2, 1]),
    *_wrong("window does not fit", "the window does not fit", ksize=[1, 8, 2, 1]),
    *_wrong(
        "padding as large as the window",
        "a padding is as large as the window",
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 2, 0, 0, 0, 0, 0],
    ),
    OpCase("MaxPool/rank 3", "MaxPool", [_IMAGE[0]], _SQUARE, raises="rank is wrong"),
    OpCase(
        "MaxPoolGrad/wrong gradient",
        "MaxPoolGrad",
        [_IMAGE, _IMAGE[:, :2, :2], _IMAGE[:, :1, :2]],
        _SQUARE,
        raises="grad does not fit the pooling",
    ),
    OpCase(
        "MaxPoolGrad/wrong output",
        "MaxPoolGrad",
        [_IMAGE, _IMAGE[:, :1, :2], _IMAGE[:, :2, :2]],
        _SQUARE,
        raises="orig_output does not fit the pooling",
    ),
    OpCase(
        "MaxPoolGradGrad/wrong gradient",
        "MaxPoolGradGrad",
        [_IMAGE, _IMAGE[:, :2, :2], _IMAGE[:, :2, :2]],
        _SQUARE,
        raises="grad does not fit",
    ),
    OpCase(
        "AvgPoolGrad/negative size",
        "AvgPoolGrad",
        [np.array([1, 4, -4, 2], np.int32), _IMAGE[:, :2, :2]],
        _SQUARE,
        raises="orig_input_shape has a negative size",
    ),
    OpCase(
        "AvgPoolGrad/wrong gradient",
        "AvgPoolGrad",
        [np.array([1, 4, 4, 2], np.int32), _IMAGE[:, :1, :2]],
        _SQUARE,
        raises="grad does not fit the pooling",
        deviation="TensorFlow computes with a gradient that belongs to images of another size",
    ),
    OpCase(
        "AvgPoolGrad/huge size",
        "AvgPoolGrad",
        [np.array([1, 2**31 - 1, 2**31 - 1, 2], np.int32), _IMAGE[:, :2, :2]],
        _SQUARE,
        raises="grad does not fit the pooling",
    ),
]


def _argmax(attrs: Mapping[str, Any]) -> Callable[[Array], tuple[Array, Array]]:
    """Each window's first largest value and its place, window by window."""
    window = {**attrs, "data_format": "NHWC"}

    def reference(images: Array) -> tuple[Array, Array]:
        rows, columns = _spans(window, images.shape[1], 0), _spans(window, images.shape[2], 1)
        shape = (images.shape[0], len(rows), len(columns), images.shape[3])
        values, places = np.zeros(shape), np.zeros(shape, np.int64)
        for n, i, j, c in np.ndindex(shape):
            part = [
                (float(images[n, row, column, c]), row, column)
                for row in range(*rows[i])
                for column in range(*columns[j])
            ]
            value, row, column = next(item for item in part if item[0] == max(part)[0])
            values[n, i, j, c] = value
            first = n if attrs.get("include_batch_in_index") else 0
            places[n, i, j, c] = np.ravel_multi_index((first, row, column, c), images.shape)
        return values, places

    return reference


def _argmax_cases() -> Iterator[OpCase]:
    for label, images, attrs in (
        ("valid", _numbers(2, 4, 5, 2), _attrs((2, 2), (2, 2))),
        ("same, overlapping", _numbers(2, 3, 4, 1), _attrs((3, 2), (1, 1), "SAME")),
        ("batch counts", _numbers(3, 2, 4, 2), {**_attrs((2, 2), (2, 2)), "include_batch_in_index": True}),
    ):
        attrs.pop("data_format")
        reference = _argmax(attrs)
        yield OpCase(f"MaxPoolWithArgmax/{label}", "MaxPoolWithArgmax", [images], attrs, expected=reference)
        values, places = reference(images)
        gradient = np.linspace(-1, 1, values.size, dtype=np.float32).reshape(values.shape)
        flat = places if attrs.get("include_batch_in_index") else places + _starts(images)
        by_images = np.zeros(images.size, np.float64)
        for place, value in zip(flat.reshape(-1), gradient.reshape(-1), strict=True):
            by_images[place] += value
        yield OpCase(
            f"MaxPoolGradWithArgmax/{label}",
            "MaxPoolGradWithArgmax",
            [images, gradient, places],
            attrs,
            expected=by_images.reshape(images.shape),
        )
        yield OpCase(
            f"MaxPoolGradGradWithArgmax/{label}",
            "MaxPoolGradGradWithArgmax",
            [images, images * 2, places],
            attrs,
            expected=(images * 2).reshape(-1)[flat],
        )


def _starts(images: Array) -> Array:
    return (np.arange(len(images)) * images[:1].size).reshape(-1, 1, 1, 1)


_PLAIN = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
_ARGMAX_CASES = [
    *_argmax_cases(),
    *(
        OpCase(
            f"MaxPoolWithArgmax/{label}",
            "MaxPoolWithArgmax",
            [np.array(values).reshape(1, 2, 2, 1)],
            {**_PLAIN, "Targmax": kind},
            expected=(np.array(largest).reshape(1, 1, 1, 1), np.array(place, kind).reshape(1, 1, 1, 1)),
            differentiate=(),  # ties and NaN
        )
        for label, values, largest, place, kind in (
            ("ties", np.array([1.0, 2, 2, 2], np.float32), 2.0, 1, "int64"),
            ("int8 and int32 places", np.array([-5, -128, -3, -4], np.int8), -3, 2, "int32"),
        )
    ),
    OpCase(
        "MaxPoolWithArgmax/no image",
        "MaxPoolWithArgmax",
        [np.zeros((0, 2, 2, 1), np.float32)],
        _PLAIN,
        expected=(np.zeros((0, 1, 1, 1)), np.zeros((0, 1, 1, 1), np.int64)),
    ),
    OpCase(
        "MaxPoolGradWithArgmax/place beyond the image",
        "MaxPoolGradWithArgmax",
        [_numbers(1, 2, 2, 1), np.ones((1, 1, 1, 1), np.float32), np.array([[[[4]]]])],
        _PLAIN,
        raises="not in the images",
    ),
    OpCase(
        "MaxPoolGradWithArgmax/gradient of another shape",
        "MaxPoolGradWithArgmax",
        [_numbers(1, 2, 2, 1), np.ones((1, 1, 2, 1), np.float32), np.array([[[[0]]]])],
        _PLAIN,
        raises="does not fit the pooling",
    ),
]

CASES = [*(_marked(case) for case in _ALL), *_ARGMAX_CASES]
