"""Cases of the quantization family: expectations by nearest neighbour among all the steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_NAN = np.nan


def _f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def _steps(low: float, high: float, bits: int, narrow: bool) -> Any:
    """All values that the range has after it has moved to have 0 as a step."""
    first, last = int(narrow), 2**bits - 1
    step = (high - low) / (last - first)
    zero = min(max(math.floor(first - low / step + 0.5), first), last)
    return (np.arange(first, last + 1) - zero) * step


def _faked(bits: int = 8, narrow: bool = False) -> Callable[..., Any]:
    def expected(inputs: Any, low: Any, high: Any) -> Any:
        steps = _steps(float(low), float(high), bits, narrow)
        nearest = np.abs(np.reshape(inputs, (-1, 1)).astype(float) - steps).argmin(1)
        return steps[nearest].reshape(np.shape(inputs)).astype(np.float32)

    return expected


def _passed(gradients: Any, inputs: Any, low: Any, high: Any) -> Any:
    steps = _steps(float(low), float(high), 8, False)
    below, above = inputs < steps[0], inputs > steps[-1]
    kept = np.where(below | above, 0, gradients)
    return kept, gradients[below].sum(dtype=np.float32), gradients[above].sum(dtype=np.float32)


_VALUES = numbers("float32", 4, 5, low=-7, high=7)
_RANGES = ((-6.0, 6.0), (-0.7, 3.1), (0.5, 4.0), (-5.0, -1.0), (0.0, 1.0))

# Rounding is passed over by the gradients, which differences do not do: see tests/ops/test_quantization.py.
_FAKE = [
    *(
        OpCase(
            f"FakeQuantWithMinMaxVars/{low} to {high}, {bits} bits, narrow {narrow}",
            "FakeQuantWithMinMaxVars",
            [_VALUES, np.float32(low), np.float32(high)],
            {"num_bits": bits, "narrow_range": narrow},
            expected=_faked(bits, narrow),
            differentiate=(),
        )
        for low, high in _RANGES
        for bits, narrow in ((8, False), (8, True), (2, False), (4, True))
    ),
    OpCase(
        "FakeQuantWithMinMaxVars/range 0 to 0",
        "FakeQuantWithMinMaxVars",
        [_VALUES, np.float32(0), np.float32(0)],
        expected=np.zeros((4, 5), np.float32),
        differentiate=(),
    ),
    OpCase(
        "FakeQuantWithMinMaxVars/infinite",
        "FakeQuantWithMinMaxVars",
        [_f32(np.inf, -np.inf), np.float32(-1), np.float32(1)],
        {"num_bits": 2},
        differentiate=(),
        expected=_f32(2 / 3, -4 / 3),
    ),
    OpCase(
        "FakeQuantWithMinMaxVars/scalar",
        "FakeQuantWithMinMaxVars",
        [np.float32(0.3), np.float32(0), np.float32(3)],
        {"num_bits": 2},
        expected=np.float32(0),
        differentiate=(),
    ),
    OpCase(
        "FakeQuantWithMinMaxVars/empty",
        "FakeQuantWithMinMaxVars",
        [np.zeros((0, 2), np.float32), np.float32(0), np.float32(3)],
        expected=np.zeros((0, 2), np.float32),
        differentiate=(),
    ),
    *(
        OpCase(
            f"FakeQuantWithMinMaxVars/{what}",
            "FakeQuantWithMinMaxVars",
            [_VALUES, low, high],
            attrs,
            raises=text,
            deviation=why,
        )
        for what, low, high, attrs, text, why in (
            ("1 bit", np.float32(0), np.float32(1), {"num_bits": 1}, "num_bits is out of range", None),
            ("17 bits", np.float32(0), np.float32(1), {"num_bits": 17}, "num_bits is out of range", None),
            ("min of rank 1", _f32(0), np.float32(1), {}, "min must be a scalar", None),
            ("empty range", np.float32(1), np.float32(0), {}, "range is empty", "TensorFlow computes with it"),
            ("NaN range", np.float32(_NAN), np.float32(0), {}, "range is empty", "TensorFlow computes with it"),
        )
    ),
    *(
        OpCase(
            f"FakeQuantWithMinMaxVarsGradient/{low} to {high}",
            "FakeQuantWithMinMaxVarsGradient",
            [numbers("float32", 4, 5, seed=1), _VALUES, np.float32(low), np.float32(high)],
            expected=_passed,
        )
        for low, high in _RANGES
    ),
    OpCase(
        "FakeQuantWithMinMaxVarsGradient/range 0 to 0",
        "FakeQuantWithMinMaxVarsGradient",
        [_f32(1, 2), _f32(-1, 1), np.float32(0), np.float32(0)],
        expected=(_f32(1, 2), np.float32(0), np.float32(0)),
    ),
    OpCase(
        "FakeQuantWithMinMaxVarsGradient/another shape",
        "FakeQuantWithMinMaxVarsGradient",
        [_f32(1, 2, 3), _f32(-1, 1), np.float32(0), np.float32(1)],
        raises="gradients do not fit",
    ),
    *(
        OpCase(
            f"FakeQuantWithMinMaxArgs/{low} to {high}",
            "FakeQuantWithMinMaxArgs",
            [_VALUES],
            {"min": low, "max": high},
            expected=lambda x, low=low, high=high: _faked()(x, low, high),
            differentiate=(),
        )
        for low, high in ((-6.0, 6.0), (-0.75, 3.5), (0.0, 1.0))
    ),
    OpCase(
        "FakeQuantWithMinMaxArgs/empty range",
        "FakeQuantWithMinMaxArgs",
        [_VALUES],
        {"min": 1.0, "max": 1.0},
        raises="range is empty",
    ),
]


def _rounded(signed: bool, narrow: bool, axis: int = -1, given: bool = True) -> Callable[..., Any]:
    def one(values: Any, low: float, high: float, bits: int) -> Any:
        least = (-(2 ** (bits - 1)) + narrow) if signed else 0
        most = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
        sizes = [bound / limit for bound, limit in ((low, least), (high, most)) if bound * limit > 0]
        if not sizes:
            return values * 0
        step = max(sizes)
        inside = np.clip(values, least * step, most * step) if given else values
        return np.rint(inside / step) * step

    def expected(values: Any, low: Any, high: Any, bits: Any) -> Any:
        wide = values.astype(np.float64)
        if axis == -1:
            least, most = (float(low), float(high)) if given else (float(wide.min()), float(wide.max()))
            return one(wide, least, most, int(bits)).astype(values.dtype)
        rows = np.moveaxis(wide, axis, 0)
        ends = zip(low, high, strict=True) if given else ((row.min(), row.max()) for row in rows)
        result = [one(row, float(a), float(b), int(bits)) for row, (a, b) in zip(rows, ends, strict=True)]
        return np.moveaxis(np.array(result), 0, axis).astype(values.dtype)

    return expected


def _quantize(
    what: str, values: Any, low: Any, high: Any, bits: Any, raises: str | None = None, **attrs: Any
) -> OpCase:
    dtype = np.asarray(values).dtype
    inputs = [values, np.asarray(low, dtype), np.asarray(high, dtype), np.array(bits, np.int32)]
    given, axis = attrs.get("range_given", True), attrs.get("axis", -1)
    expected = _rounded(attrs.get("signed_input", True), attrs.get("narrow_range", False), axis, given)
    return OpCase(
        f"QuantizeAndDequantizeV3/{what}", "QuantizeAndDequantizeV3", inputs, attrs,
        expected=None if raises else expected, raises=raises, differentiate=(),
    )  # fmt: skip


_ROUNDED = [
    *(
        _quantize(
            f"{dtype} signed {signed}, narrow {narrow}",
            numbers(dtype, 3, 4, low=-2, high=3),
            -1.5,
            2.0,
            4,
            signed_input=signed,
            narrow_range=narrow,
        )
        for dtype in ("float32", "float64")
        for signed, narrow in ((True, False), (True, True), (False, False))
    ),
    *(
        _quantize(f"{dtype}, range of the input", numbers(dtype, 3, 4), 0, 0, 8, range_given=False)
        for dtype in ("float32", "float64")
    ),
    _quantize("along axis 1", numbers("float32", 3, 4, 2), [-1, -2, -3, 0], [1, 3, 0, 2], 5, axis=1),
    _quantize(
        "along axis 0, range of the input", numbers("float32", 3, 4), [0, 0, 0], [0, 0, 0], 5, axis=0, range_given=False
    ),
    _quantize("halves go to even", _f32(0.5, 1.5, 2.5, -0.5, -1.5), -128, 127, 8),
    _quantize("range 0 alone", _f32(0, 0), 0, 0, 8),
    _quantize("scalar", np.float32(0.3), -1, 1, 8),
    _quantize("float16", np.array([0.25, 1.5, -3], np.float16), -4, 4, 4),
    _quantize("empty", np.zeros((0, 2), np.float32), -1, 1, 8),
    _quantize("O55 bounds of two sizes", _f32(1, 2), [0, 1], [1], 8, "does not fit"),
    _quantize("empty range", _f32(1, 2), 1, 0, 8, "range is empty"),
    _quantize("no bits", _f32(1, 2), 0, 1, 0, "num_bits is out of range"),
    _quantize("64 bits", _f32(1, 2), 0, 1, 64, "num_bits is out of range"),
    _quantize("bits of rank 1", _f32(1, 2), 0, 1, [8], "num_bits"),
    _quantize("axis too large", _f32(1, 2), [0], [1], 8, "no such axis", axis=1),
    _quantize("negative axis", _f32(1, 2), [0], [1], 8, "no such axis", axis=-2),
    _quantize("a bound too few", numbers("float32", 3, 2), [0, 1], [1, 2], 8, "does not fit", axis=0),
]

_CHANNELS = np.array([[-3, -0.4, 0.6], [0.26, 2.4, 9]], np.float32)
_LOW, _HIGH = np.array([-1.1, 0, 0], np.float32), np.array([1, 3, 0], np.float32)


def _one_channel(x: float, low: float, high: float, bits: int) -> tuple[float, float, float]:
    """What a number becomes, and the ends of the range after 0 has become a step."""
    if low == high == 0:
        return 0.0, 0.0, 0.0
    step = (high - low) / (2**bits - 1)
    zero = min(max(math.floor(-low / step + 0.5), 0), 2**bits - 1)
    bottom, top = -zero * step, (2**bits - 1 - zero) * step
    return math.floor((min(max(x, bottom), top) - bottom) / step - zero + 0.5) * step, bottom, top


def _per_channel_cases() -> Iterator[OpCase]:
    for bits in (2, 4, 8):
        table = [
            [
                _one_channel(float(x), float(low), float(high), bits)
                for x, low, high in zip(row, _LOW, _HIGH, strict=True)
            ]
            for row in _CHANNELS
        ]
        yield OpCase(
            f"FakeQuantWithMinMaxVarsPerChannel/{bits} bits",
            "FakeQuantWithMinMaxVarsPerChannel",
            [_CHANNELS, _LOW, _HIGH],
            {"num_bits": bits},
            expected=np.array([[value for value, _, _ in row] for row in table]),
            differentiate=(),  # it takes float32 only; see tests/ops/test_quantization.py
        )
    g = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    yield OpCase(
        "FakeQuantWithMinMaxVarsPerChannelGradient/2 bits",
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        [g, _CHANNELS, np.array([-1.5, 0, 0], np.float32), np.array([1.5, 3, 0], np.float32)],
        {"num_bits": 2},
        # The third range is empty: it passes every gradient on.
        expected=(np.array([[0, 0, 3], [4, 5, 6]]), np.array([1, 2, 0]), np.array([0, 0, 0])),
    )
    for label, bounds, text in (
        ("another number", _LOW[:2], "do not fit the channels"),
        ("empty range", np.array([-1, 4, 0], np.float32), "range is empty"),
    ):
        yield OpCase(
            f"FakeQuantWithMinMaxVarsPerChannel/{label}",
            "FakeQuantWithMinMaxVarsPerChannel",
            [_CHANNELS, bounds, _HIGH],
            raises=text,
            deviation="TensorFlow computes with a range of negative width" if label == "empty range" else None,
        )


CASES = [*_FAKE, *_ROUNDED, *_per_channel_cases()]
