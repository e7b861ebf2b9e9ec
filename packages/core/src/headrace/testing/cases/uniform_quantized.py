"""Cases of the uniform_quantized family: integers found one by one, with Python's own unbounded ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from headrace.ops.uniform_quantized import CHANNELS_LAST
from headrace.testing.op_case import OpCase
from headrace.types import Array, as_dtype

_LOW, _HIGH = -(2**31), 2**31 - 1


def _q(values: Any, dtype: str) -> Array:
    """Integers as an array of a quantised dtype."""
    return np.array(values, dtype.removeprefix("q")).view(as_dtype(dtype).array_type)


def _s(values: Any) -> Array:
    return np.array(values, np.float32)


def _z(values: Any) -> Array:
    return np.array(values, np.int32)


def _range(low: int = -128, high: int = 127, axis: int = -1) -> dict[str, int]:
    return {"quantization_min_val": low, "quantization_max_val": high, "quantization_axis": axis}


def _sides(rhs: int = -1, output: int = -1, low: int = _LOW, high: int = _HIGH) -> dict[str, int]:
    given = {"lhs": _range(), "rhs": _range(axis=rhs), "output": _range(low, high, output)}
    return {f"{side}_{name}": value for side, part in given.items() for name, value in part.items()}


def _rescaled(number: int, factor: float) -> int:
    """A number times what 31 bits hold of a factor, to the nearest integer, halves up."""
    fraction, exponent = math.frexp(factor)
    kept = Fraction(math.floor(Fraction(fraction) * 2**31 + Fraction(1, 2)), 2**31) * Fraction(2) ** exponent
    return min(max(math.floor(number * kept + Fraction(1, 2)), _LOW), _HIGH)


_VALUES = _s([[-3.0, -0.26, 0.0, 0.24], [0.25, 1.0, 40.0, -40.0]])


def _nearest(x: float, scale: float, zero: int) -> int:
    return min(max(math.floor(x / scale + 0.5) + zero, -128), 127)


_A, _B = np.array([[1, -128, 127], [-7, 50, 3]]), np.array([[127, -1], [-127, 4], [12, 0]])
_FACTORS = [_q(_A, "qint8"), _q(_B, "qint8")]


def _products(zero: int = 0, zeros: Sequence[int] = (0, 0)) -> list[list[int]]:
    """The sums of products in Python's integers."""
    return [
        [sum((int(_A[i, k]) - zero) * (int(_B[k, j]) - zeros[j]) for k in range(3)) for j in range(2)] for i in range(2)
    ]


def _scaled(sums: list[list[int]], factors: Sequence[float], zeros: Sequence[int], low: int, high: int) -> Array:
    found = [
        [min(max(_rescaled(x, f) + z, low), high) for x, f, z in zip(row, factors, zeros, strict=True)] for row in sums
    ]
    return _q(found, "qint32")


_IMAGES = (np.arange(2 * 4 * 5 * 2) * 37 % 256 - 128).reshape(2, 4, 5, 2)
_FILTERS = (np.arange(3 * 2 * 2 * 3) * 91 % 255 - 127).reshape(3, 2, 2, 3)


_OWN_FILTERS = (np.arange(3 * 2 * 1 * 4) * 67 % 255 - 127).reshape(3, 2, 1, 4)
"""Two for each of the two channels."""


def _convolved(
    zero: int, pads: Sequence[int] = (0, 0, 0, 0), strides: Sequence[int] = (1, 1), filters: Array = _FILTERS
) -> Array:
    """Images counted from a zero point, padded with 0, correlated with filters of all channels or of one each."""
    x = np.pad(_IMAGES - zero, ((0, 0), tuple(pads[:2]), tuple(pads[2:]), (0, 0)))
    rows, columns = (x.shape[1] - 3) // strides[0] + 1, (x.shape[2] - 2) // strides[1] + 1
    depth, count = filters.shape[2:]
    y = np.zeros((2, rows, columns, count), np.int64)
    for n, i, j, f in np.ndindex(y.shape):
        first = f * (2 // depth) // count
        window = x[n, i * strides[0] : i * strides[0] + 3, j * strides[1] : j * strides[1] + 2, first : first + depth]
        y[n, i, j, f] = (window * filters[..., f]).sum()
    return y


_PLAIN = [_s(1), _z(3), _s([1, 1, 1]), _z([0, 0, 0]), _s([1, 1, 1]), _z([0, 0, 0])]
_IMAGE_CASE = [_q(_IMAGES, "qint8"), _q(_FILTERS, "qint8")]
_ONE = [_s(1), _z(0)]
_TERMS = [_q([[1, -2], [3, _HIGH - 5]], "qint32"), _q([10, 20], "qint32")]

CASES = [
    *(
        OpCase(
            f"UniformQuantize/{dtype} scale {scale} zero point {zero}",
            "UniformQuantize",
            [_VALUES, _s(scale), _z(zero)],
            {"Tout": dtype, **_range()},
            expected=_q([[_nearest(float(x), scale, zero) for x in row] for row in _VALUES], dtype),
        )
        for dtype in ("qint8", "qint32")
        for scale, zero in ((0.5, 0), (0.25, -128), (0.125, 100))
    ),
    OpCase(
        "UniformQuantize/a scale for each column",
        "UniformQuantize",
        [_s([[1, 1], [-1, 2.5]]), _s([0.5, 1]), _z([3, -1])],
        {"Tout": "quint8", **_range(0, 255, 1)},
        expected=_q([[5, 0], [1, 2]], "quint8"),
    ),
    OpCase(
        "UniformQuantize/not finite",
        "UniformQuantize",
        [_s([np.inf, -np.inf, np.nan, 1e30, -1e30]), _s(1), _z(5)],
        {"Tout": "qint8", **_range(-100, 90)},
        expected=_q([90, -100, -100, 90, -100], "qint8"),
        deviation="TensorFlow's large numbers become the lowest integer, as they do not fit int32",
    ),
    OpCase(
        "UniformQuantize/no elements",
        "UniformQuantize",
        [_s(np.zeros((0, 3))), _s(1), _z(5)],
        {"Tout": "qint8", **_range()},
        expected=_q(np.zeros((0, 3)), "qint8"),
    ),
    OpCase(
        "UniformQuantize/scale 0",
        "UniformQuantize",
        [_VALUES, _s(0), _z(5)],
        {"Tout": "qint8", **_range()},
        raises="scale is not positive",
        deviation="TensorFlow divides by 0",
    ),
    OpCase(
        "UniformQuantize/scales of another size",
        "UniformQuantize",
        [_VALUES, _s([1, 2]), _z([0, 0])],
        {"Tout": "qint8", **_range(axis=1)},
        raises="scales of the input have the wrong shape",
    ),
    OpCase(
        "UniformQuantize/no axis",
        "UniformQuantize",
        [_VALUES, _s([1, 2]), _z([0, 0])],
        {"Tout": "qint8", **_range(axis=2)},
        raises="no such axis",
    ),
    OpCase(
        "UniformDequantize/qint32",
        "UniformDequantize",
        [_q([_LOW, -3, 0, 7, _HIGH], "qint32"), _s(0.5), _z(0)],
        {"Tout": "float32", **_range(_LOW, _HIGH)},
        expected=np.array([-(2.0**30), -1.5, 0, 3.5, 2.0**30], np.float32),
        exact=True,
        deviation="TensorFlow takes qint32 by way of float32, in which the largest does not fit int32",
    ),
    OpCase(
        "UniformDequantize/a scale for each row",
        "UniformDequantize",
        [_q([[-128, 127], [0, 1]], "qint8"), _s([0.5, 2]), _z([-128, 1])],
        {"Tout": "float32", **_range(axis=0)},
        expected=np.array([[0, 127.5], [-2, 0]], np.float32),
        exact=True,
    ),
    OpCase(
        "UniformDequantize/zero points of another size",
        "UniformDequantize",
        [_q([[1, 2]], "quint8"), _s(1), _z([1, 2])],
        {"Tout": "float32", **_range(0, 255)},
        raises="zero points of the input have the wrong shape",
    ),
    OpCase(
        "UniformQuantizedDot/the sums themselves",
        "UniformQuantizedDot",
        [*_FACTORS, _s(0.5), _z(-128), _s([0.25, 3]), _z([0, 0]), _s([0.125, 1.5]), _z([0, 0])],
        {"Tout": "qint32", **_sides(1, 1)},
        expected=_q(_products(-128), "qint32"),
    ),
    OpCase(
        "UniformQuantizedDot/one scale, rounded and kept in range",
        "UniformQuantizedDot",
        [*_FACTORS, _s(0.75), _z(5), _s(0.3), _z(-3), _s(7.0), _z(11)],
        {"Tout": "qint32", **_sides(low=-300, high=300)},
        expected=_scaled(_products(5, (-3, -3)), [float(np.float32(0.3)) * 0.75 / 7.0] * 2, (11, 11), -300, 300),
    ),
    OpCase(
        "UniformQuantizedDot/scales of columns to one of the output",
        "UniformQuantizedDot",
        [*_FACTORS, _s(1), _z(0), _s([1e-6, 100]), _z([2, 0]), _s(0.01), _z(0)],
        {"Tout": "qint32", **_sides(1)},
        expected=_scaled(
            _products(0, (2, 0)),
            [float(f) / float(np.float32(0.01)) for f in _s([1e-6, 100])],
            (0, 0),
            _LOW,
            _HIGH,
        ),
    ),
    OpCase(
        "UniformQuantizedDot/sizes differ",
        "UniformQuantizedDot",
        [_FACTORS[0], _FACTORS[0], *_ONE * 3],
        {"Tout": "qint32", **_sides()},
        raises="do not fit each other",
    ),
    OpCase(
        "UniformQuantizedDot/scales of rows",
        "UniformQuantizedDot",
        [*_FACTORS, *_ONE, _s([1, 1, 1]), _z([0, 0, 0]), *_ONE],
        {"Tout": "qint32", **_sides(0)},
        raises="along the axis that is summed over",
    ),
    OpCase(
        "UniformQuantizedDot/scales of the first factor's rows",
        "UniformQuantizedDot",
        [*_FACTORS, *_ONE * 3],
        {"Tout": "qint32", **_sides(), "lhs_quantization_axis": 0},
        raises="a scale for each slice|one scale for each slice",
    ),
    OpCase(
        "UniformQuantizedDot/scales of the output's rows",
        "UniformQuantizedDot",
        [*_FACTORS, *_ONE, _s([1, 1]), _z([0, 0]), _s([1, 1]), _z([0, 0])],
        {"Tout": "qint32", **_sides(1, 0)},
        raises="another axis than its channels",
    ),
    OpCase(
        "UniformQuantizedDot/scales of the output alone",
        "UniformQuantizedDot",
        [*_FACTORS, *_ONE * 2, _s([1, 1]), _z([0, 0])],
        {"Tout": "qint32", **_sides(-1, 1)},
        raises="the second factor has one for all",
    ),
    OpCase(
        "UniformQuantizedConvolution/same",
        "UniformQuantizedConvolution",
        [*_IMAGE_CASE, *_PLAIN],
        {"Tout": "qint32", "padding": "SAME", "dimension_numbers": CHANNELS_LAST, **_sides(3, 3)},
        expected=_q(_convolved(3, (1, 1, 0, 1)), "qint32"),
    ),
    OpCase(
        "UniformQuantizedConvolution/explicit and strides",
        "UniformQuantizedConvolution",
        [*_IMAGE_CASE, *_PLAIN],
        {
            "Tout": "qint32",
            "padding": "EXPLICIT",
            "explicit_padding": [2, 1, 0, 3],
            "window_strides": [2, 1],
            "dimension_numbers": CHANNELS_LAST,
            **_sides(3, 3),
        },
        expected=_q(_convolved(3, (2, 1, 0, 3), (2, 1)), "qint32"),
    ),
    OpCase(
        "UniformQuantizedConvolution/channels first",
        "UniformQuantizedConvolution",
        [_q(_IMAGES.transpose(0, 3, 1, 2), "qint8"), _q(_FILTERS.transpose(3, 2, 0, 1), "qint8"), *_PLAIN],
        {"Tout": "qint32", "padding": "VALID", **_sides(0, 1)},
        expected=_q(_convolved(3).transpose(0, 3, 1, 2), "qint32"),
    ),
    OpCase(
        "UniformQuantizedConvolution/two groups",
        "UniformQuantizedConvolution",
        [_q(_IMAGES, "qint8"), _q(np.ones((1, 1, 1, 2)), "qint8"), _s(1), _z(3), *_ONE * 2],
        {
            "Tout": "qint32",
            "padding": "VALID",
            "feature_group_count": 2,
            "dimension_numbers": CHANNELS_LAST,
            **_sides(),
        },
        expected=_q(_IMAGES - 3, "qint32"),
    ),
    OpCase(
        "UniformQuantizedConvolution/filters for each channel, padded",
        "UniformQuantizedConvolution",
        [_IMAGE_CASE[0], _q(_OWN_FILTERS, "qint8"), _s(1), _z(3), *[_s([1] * 4), _z([0] * 4)] * 2],
        {
            "Tout": "qint32",
            "padding": "SAME",
            "window_strides": [2, 1],
            "feature_group_count": 2,
            "dimension_numbers": CHANNELS_LAST,
            **_sides(3, 3),
        },
        expected=_q(_convolved(3, (0, 1, 0, 1), (2, 1), _OWN_FILTERS), "qint32"),
    ),
    OpCase(
        "UniformQuantizedConvolution/groups of another number",
        "UniformQuantizedConvolution",
        [_q(_IMAGES, "qint8"), _q(np.ones((1, 1, 1, 2)), "qint8"), *_ONE * 3],
        {"Tout": "qint32", "padding": "VALID", "dimension_numbers": CHANNELS_LAST, **_sides()},
        raises="feature_group_count does not fit",
    ),
    OpCase(
        "UniformQuantizedConvolution/axes named twice",
        "UniformQuantizedConvolution",
        [*_IMAGE_CASE, *_PLAIN],
        {"Tout": "qint32", "padding": "SAME", "dimension_numbers": "\x10\x01", **_sides(3, 3)},
        raises="dimension_numbers",
    ),
    OpCase(
        "UniformQuantizedConvolution/bytes that are no message",
        "UniformQuantizedConvolution",
        [*_IMAGE_CASE, *_PLAIN],
        {"Tout": "qint32", "padding": "SAME", "dimension_numbers": "\x1a\x7f", **_sides(3, 3)},
        raises="dimension_numbers|dimension numbers",
    ),
    OpCase(
        "UniformQuantizedConvolution/spread images",
        "UniformQuantizedConvolution",
        [*_IMAGE_CASE, *_PLAIN],
        {
            "Tout": "qint32",
            "padding": "SAME",
            "lhs_dilation": [2, 2],
            "dimension_numbers": CHANNELS_LAST,
            **_sides(3, 3),
        },
        raises="spreads its images",
        deviation="TensorFlow can also compute gradients of quantised convolutions",
    ),
    OpCase(
        "UniformQuantizedConvolution/scales of channels",
        "UniformQuantizedConvolution",
        [*_IMAGE_CASE, *_ONE, _s([1, 1]), _z([0, 0]), *_ONE],
        {"Tout": "qint32", "padding": "SAME", "dimension_numbers": CHANNELS_LAST, **_sides(2)},
        raises="another axis than its outputs",
    ),
    OpCase(
        "UniformQuantizedAdd/a bias for each column",
        "UniformQuantizedAdd",
        [*_TERMS, *[_s([0.5, 2]), _z([0, 0])] * 3],
        {
            "T": "qint32",
            **_sides(0, 1),
            "lhs_quantization_axis": 1,
            "output_quantization_max_val": _HIGH - 1,
        },
        expected=_q([[11, 18], [13, _LOW + 14]], "qint32"),
        deviation="TensorFlow takes qint32 by way of float32, which has no odd numbers of that size",
    ),
    OpCase(
        "UniformQuantizedAdd/scales and zero points",
        "UniformQuantizedAdd",
        [
            *(_q([[100, -7], [33, 0]], "qint32"), _q([[5, 9], [-20, 4]], "qint32")),
            *(_s(0.3), _z(3), _s(0.7), _z(-2), _s(0.9), _z(40)),
        ],
        {"T": "qint32", **_sides(low=-50, high=70)},
        expected=lambda a, b, *_: _q(
            [
                [
                    min(max(_rescaled(int(x) - 3, _ratio(0.3)) + _rescaled(int(y) + 2, _ratio(0.7)) + 40, -50), 70)
                    for x, y in zip(*rows, strict=True)
                ]
                for rows in zip(np.asarray(a).view(np.int32), np.asarray(b).view(np.int32), strict=True)
            ],
            "qint32",
        ),
    ),
    OpCase(
        "UniformQuantizedAdd/scales along different axes",
        "UniformQuantizedAdd",
        [_q(np.ones((2, 2)), "qint32")] * 2 + [_s([1, 1]), _z([0, 0])] * 3,
        {"T": "qint32", **_sides(1, 1), "lhs_quantization_axis": 0},
        raises="along another axis than the sum",
    ),
]


def _ratio(scale: float) -> float:
    return float(np.float32(scale)) / float(np.float32(0.9))
