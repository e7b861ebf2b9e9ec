"""Cases of the quantized family: what must come out is found number by number, from the real numbers that are meant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, as_dtype


def _q(values: Any, dtype: str) -> Array:
    """Integers as an array of a quantised dtype."""
    return np.array(values, dtype.removeprefix("q")).view(as_dtype(dtype).array_type)


def _f(*values: float) -> list[Array]:
    return [np.array(value, np.float32) for value in values]


def _bounds(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype.removeprefix("q"))
    return int(info.min), int(info.max)


def _round(x: float) -> int:
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


_VALUES = np.array([[-3, -0.5, 0, 0.26], [0.74, 1, 2.2, 99]], np.float32)


def _combined(dtype: str, low: float, high: float) -> Array:
    lowest, highest = _bounds(dtype)
    scale = (highest - lowest) / (high - low)
    shifted = [[(min(max(float(x), low), high) - low) * scale + lowest for x in row] for row in _VALUES]
    return _q(np.clip([[_round(x) for x in row] for row in shifted], lowest, highest), dtype)


def _first(dtype: str, low: float, high: float) -> Array:
    lowest, highest = _bounds(dtype)
    scale = (highest - lowest) / (high - low)
    found = [[_round(float(x) * scale) - _round(low * scale) + lowest for x in row] for row in _VALUES]
    return _q(np.clip(found, lowest, highest), dtype)


def _scaled(
    dtype: str, low: float, high: float, narrow: bool = False, even: bool = False
) -> tuple[Array, float, float]:
    lowest, highest = _bounds(dtype)
    lowest += narrow
    scales = [number / end for number, end in ((lowest, low), (highest, high)) if number * end > 0]
    scale = min(scales)
    least, most = lowest / scale, highest / scale
    found = [[min(max(float(x), least), most) * scale for x in row] for row in _VALUES]
    rounded = [[round(x) if even else _round(x) for x in row] for row in found]
    return _q(rounded, dtype), least, most


def _quantize_cases() -> Iterator[OpCase]:
    for dtype in ("quint8", "qint8", "qint16", "quint16"):
        for low, high in ((-1.0, 2.0), (0.0, 2.5)):
            for mode, values in (("MIN_COMBINED", _combined), ("MIN_FIRST", _first)):
                yield OpCase(
                    f"QuantizeV2/{mode} {dtype} {low}",
                    "QuantizeV2",
                    [_VALUES, *_f(low, high)],
                    {"T": dtype, "mode": mode},
                    expected=(values(dtype, low, high), *_f(low, high)),
                    oracle=dtype.endswith("8"),  # TensorFlow's kernels of 16 bits round differently on each machine
                )
    for even in (False, True):
        for narrow in (False, True):
            found, least, most = _scaled("qint8", -1.0, 2.0, narrow, even)
            yield OpCase(
                f"QuantizeV2/SCALED {'even' if even else 'away'}{' narrow' if narrow else ''}",
                "QuantizeV2",
                [_VALUES, *_f(-1, 2)],
                {
                    "T": "qint8",
                    "mode": "SCALED",
                    "narrow_range": narrow,
                    "round_mode": "HALF_TO_EVEN" if even else "HALF_AWAY_FROM_ZERO",
                },
                expected=(found, *_f(least, most)),
                deviation="TensorFlow reports the range without the lowest integer" if even and not narrow else None,
            )


_LEVELS = {"quint8": [0, 1, 128, 255], "qint8": [-128, -1, 0, 127], "qint16": [-32768, -1, 0, 32767]}


def _dequantize_cases() -> Iterator[OpCase]:
    for dtype, integers in _LEVELS.items():
        lowest, highest = _bounds(dtype)
        step = 5.0 / (highest - lowest)
        start = _round(-2.0 / step) * step
        scale = max(-2.0 / lowest, 3.0 / highest) if lowest else 3.0 / highest
        expected = {
            "MIN_COMBINED": [-2.0 + (x - lowest) * step for x in integers],
            "MIN_FIRST": [start + (x - lowest) * step for x in integers],
            "SCALED": [x * scale for x in integers],
        }
        for mode, values in expected.items():
            yield OpCase(
                f"Dequantize/{mode} {dtype}",
                "Dequantize",
                [_q(integers, dtype), *_f(-2, 3)],
                {"mode": mode},
                expected=np.array(values),
            )


_A, _B = np.array([[0, 51, 255], [102, 204, 1]]), np.array([[0, 255], [51, 3], [128, 7]])
_ZERO_A, _ZERO_B = 51, 0
"""The integers that stand for 0 in the ranges [-1, 4] and [0, 2]."""
_STEP = np.float32(5 / 255) * np.float32(2 / 255)
_PRODUCT = (_A - _ZERO_A) @ (_B - _ZERO_B)


def _wide_range(step: np.float32 = _STEP) -> list[Array]:
    return [np.asarray(step * np.float32(-(2.0**31))), np.asarray(step * np.float32(2.0**31))]


def _images() -> tuple[Array, Array, Array]:
    """Images, a filter and their convolution with a border of 0, in integers counted from 0."""
    images = (np.arange(2 * 3 * 4 * 2) * 37 % 256).reshape(2, 3, 4, 2)
    filters = (np.arange(2 * 2 * 2 * 3) * 91 % 256).reshape(2, 2, 2, 3)
    x, w = images - _ZERO_A, filters - _ZERO_B
    padded = np.zeros((2, 4, 5, 2), np.int64)
    padded[:, :3, :4] = x
    y = np.zeros((2, 3, 4, 3), np.int64)
    for n, i, j, f in np.ndindex(y.shape):
        y[n, i, j, f] = (padded[n, i : i + 2, j : j + 2] * w[..., f]).sum()
    return images, filters, y


_IMAGES, _FILTERS, _CONVOLVED = _images()
_MATRICES = [_q(_A, "quint8"), _q(_B, "quint8")]


def _real(integers: Any, dtype: str, low: float, high: float) -> Any:
    lowest, highest = _bounds(dtype)
    return low + (np.asarray(integers, np.float64) - lowest) * (high - low) / (highest - lowest)


def _requantized(values: list[int], low: float, high: float, least: float, most: float) -> Array:
    numbers = _real(values, "qint32", low, high)
    return _q(np.clip([_round((x - least) * 255 / (most - least)) for x in numbers], 0, 255), "quint8")


_WIDE = [-(2**31), -(2**20), 0, 2**20, 2**30, 2**31 - 1]

CASES = [
    *_quantize_cases(),
    *_dequantize_cases(),
    OpCase(
        "QuantizeV2/a range that is widened",
        "QuantizeV2",
        [np.array([0.5, 0.505], np.float32), *_f(0.5, 0.5)],
        {"T": "quint8"},
        expected=(_q([255, 255], "quint8"), *_f(0, 0.5)),
    ),
    OpCase(
        "QuantizeV2/one range for each column",
        "QuantizeV2",
        [np.array([[-1, 0], [0, 1], [1, 4]], np.float32), np.array([-1, 0], np.float32), np.array([1, 4], np.float32)],
        {"T": "quint8", "axis": 1},
        expected=(
            _q([[0, 0], [128, 64], [255, 255]], "quint8"),
            np.array([-1, 0], np.float32),
            np.array([1, 4], np.float32),
        ),
    ),
    OpCase(
        "Dequantize/one range for each column",
        "Dequantize",
        [_q([[0, 0], [255, 255]], "quint8"), np.array([-1, 0], np.float32), np.array([1, 4], np.float32)],
        {"axis": 1},
        expected=np.array([[-1, 0], [1, 4]], np.float32),
    ),
    OpCase(
        "QuantizeV2/no elements",
        "QuantizeV2",
        [np.zeros((0, 2), np.float32), *_f(0, 1)],
        {"T": "quint8"},
        expected=(_q(np.zeros((0, 2)), "quint8"), *_f(0, 1)),
    ),
    OpCase("QuantizeV2/empty range", "QuantizeV2", [_VALUES, *_f(2, 1)], {"T": "quint8"}, raises="range is empty"),
    OpCase("QuantizeV2/no axis", "QuantizeV2", [_VALUES, *_f(0, 1)], {"T": "quint8", "axis": 2}, raises="no such axis"),
    OpCase(
        "QuantizeV2/ends of another shape",
        "QuantizeV2",
        [_VALUES, np.zeros(2, np.float32), np.ones(2, np.float32)],
        {"T": "quint8"},
        raises="wrong shape|contradict",
    ),
    OpCase(
        "QuantizeV2/even in another mode",
        "QuantizeV2",
        [_VALUES, *_f(0, 1)],
        {"T": "quint8", "round_mode": "HALF_TO_EVEN"},
        raises="mode SCALED only",
    ),
    *(
        OpCase(
            f"QuantizedMatMul/{label}",
            "QuantizedMatMul",
            [np.ascontiguousarray(a), np.ascontiguousarray(b), *_f(-1, 4, 0, 2)],
            {"transpose_a": turned, "transpose_b": turned},
            expected=(_q(_PRODUCT, "qint32"), *_wide_range()),
        )
        for label, a, b, turned in (
            ("plain", *_MATRICES, False),
            ("transposed", _MATRICES[0].T, _MATRICES[1].T, True),
        )
    ),
    OpCase(
        "QuantizedMatMul/sizes differ",
        "QuantizedMatMul",
        [_MATRICES[0], _MATRICES[0], *_f(0, 1, 0, 1)],
        raises="do not fit each other",
    ),
    OpCase(
        "QuantizedConv2D/same",
        "QuantizedConv2D",
        [_q(_IMAGES, "quint8"), _q(_FILTERS, "quint8"), *_f(-1, 4, 0, 2)],
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
        expected=(_q(_CONVOLVED, "qint32"), *_wide_range()),
    ),
    OpCase(
        "QuantizedConv2D/valid and strides",
        "QuantizedConv2D",
        [_q(_IMAGES, "quint8"), _q(_FILTERS, "quint8"), *_f(-1, 4, 0, 2)],
        {"strides": [1, 2, 2, 1], "padding": "VALID"},
        expected=(_q(_CONVOLVED[:, :2:2, :3:2], "qint32"), *_wide_range()),
    ),
    OpCase(
        "QuantizedConv2D/channels of another number",
        "QuantizedConv2D",
        [_q(_IMAGES, "quint8"), _q(np.zeros((1, 1, 3, 1)), "quint8"), *_f(0, 1, 0, 1)],
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
        raises="does not fit the channels",
    ),
    OpCase(
        "QuantizedBiasAdd/quint8",
        "QuantizedBiasAdd",
        [_q([[0, 255], [51, 102]], "quint8"), _q([255, 0], "quint8"), *_f(-1, 4, 0, 2)],
        {"out_type": "qint32"},
        expected=(
            _q(
                [[_round(x * 2.0**31 / 2**19) for x in row] for row in ([-1 + 2, 4], [2, 1])],
                "qint32",
            ),
            *_f(-(2**19), 2**19),
        ),
    ),
    OpCase(
        "QuantizedBiasAdd/bias of another size",
        "QuantizedBiasAdd",
        [_q([[0, 255]], "quint8"), _q([1], "quint8"), *_f(0, 1, 0, 1)],
        {"out_type": "qint32"},
        raises="bias does not fit|contradict",
    ),
    OpCase(
        "QuantizedRelu/quint8",
        "QuantizedRelu",
        [_q([0, 50, 51, 52, 255], "quint8"), *_f(-1, 4)],
        expected=(_q([51, 51, 51, 52, 255], "quint8"), *_f(-1, 4)),
    ),
    OpCase(
        "RequantizationRange/qint32",
        "RequantizationRange",
        [_q([2**20, 2**30, 0], "qint32"), *_f(-8, 8)],
        expected=tuple(_f(0, 4)),
    ),
    OpCase(
        "RequantizationRange/negative numbers",
        "RequantizationRange",
        [_q([-(2**30), 2**29], "qint32"), *_f(-8, 8)],
        expected=tuple(_f(-4, 2)),
    ),
    OpCase(
        "RequantizationRange/nothing",
        "RequantizationRange",
        [_q([], "qint32"), *_f(-8, 8)],
        raises="no numbers to take the range of",
        deviation="TensorFlow gives a range that nothing is in",
    ),
    *(
        OpCase(
            f"Requantize/to [{least}, {most}]",
            "Requantize",
            [_q(_WIDE, "qint32"), *_f(-8, 8, least, most)],
            {"out_type": "quint8"},
            expected=(_requantized(_WIDE, -8, 8, least, most), *_f(least, most)),
        )
        for least, most in ((-8.0, 8.0), (0.0, 4.0), (-1.0, 3.0))
    ),
    OpCase(
        "Requantize/a range above 0",
        "Requantize",
        [_q(_WIDE, "qint32"), *_f(-8, 8, 1, 3)],
        {"out_type": "quint8"},
        raises="requested range is not right",
    ),
]
