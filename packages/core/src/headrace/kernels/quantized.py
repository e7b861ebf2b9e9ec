"""NumPy kernels of the quantized family: integers that stand for numbers in a range, step by step as TensorFlow does.

The steps of a number are taken in float64 where TensorFlow takes them in double, so that each goes to the same integer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.convolution import convolve
from headrace.kernels.registry import register_kernel
from headrace.ops.convolution import convolution_shape
from headrace.ops.quantized import ConvolutionAttrs, bounds_shape, product_shape
from headrace.ops.window import Window
from headrace.types import Array, DType, Shape

__all__: list[str] = []


def _plain(dtype: DType) -> np.dtype[Any]:
    return np.dtype(dtype.name.removeprefix("q"))


def _limits(dtype: DType) -> tuple[int, int]:
    """The lowest and the highest integer of a quantised dtype."""
    info = np.iinfo(_plain(dtype))
    return int(info.min), int(info.max)


def _integers(x: Array, dtype: DType) -> Array:
    """The integers of a quantised array, as int64."""
    return np.ascontiguousarray(x).view(_plain(dtype)).astype(np.int64)


def _quantized(values: Any, dtype: DType) -> Array:
    """Integers, of any dtype, as a quantised array."""
    return np.ascontiguousarray(np.asarray(values).astype(_plain(dtype))).view(dtype.array_type)


def _away(x: Any) -> Any:
    """Rounded to the nearest whole number, halves away from 0."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _end(value: Array) -> np.float32:
    return np.float32(np.asarray(value)[()])


def _check_order(low: Any, high: Any) -> None:
    if not np.all(np.less_equal(low, high)):
        raise InvalidArgumentError(
            "the range is empty",
            expected="min <= max",
            got=f"{low}, {high}",
            hint="swap the two, and check that neither is NaN",
        )


def _steps(dtype: DType) -> float:
    return 2.0 ** (8 * _plain(dtype).itemsize)


def _scale(dtype: DType, low: np.float32, high: np.float32) -> float:
    """Numbers from one integer to the next."""
    steps = _steps(dtype)
    return float(high - low) * (steps / (steps - 1.0)) / steps


def _to_integers(values: Any, dtype: DType, low: np.float32, high: np.float32, *, clamp: bool = True) -> Any:
    """The integers nearest to numbers, so that 0 is one of them; int64."""
    lowest, highest = _limits(dtype)
    if low == high:
        return np.full(np.shape(values), lowest, np.int64)
    steps = _steps(dtype)
    scale = steps / (float(high - low) * (steps / (steps - 1.0)))
    found = _away(np.asarray(values, np.float64) * scale) - _away(float(low) * scale) + lowest
    return (np.clip(found, lowest, highest) if clamp else np.asarray(found)).astype(np.int64)


def _to_numbers(integers: Any, dtype: DType, low: np.float32, high: np.float32) -> Any:
    """The numbers for which integers stand; float32."""
    if low == high:
        return np.full(np.shape(integers), low, np.float32)
    scale = _scale(dtype, low, high)
    narrow = float(np.float32(scale))
    start = _away(float(low) / narrow) * narrow
    return np.asarray(start + (np.asarray(integers) - _limits(dtype)[0]) * scale).astype(np.float32)


def _per_slice(op: OpContext, values: Array, low: Array, high: Array) -> tuple[Any, Any]:
    """The ends of the ranges, shaped to broadcast with the values."""
    shape = bounds_shape(op, Shape(values.shape))
    for end in (low, high):
        shape.merge(Shape(np.shape(end)))
    if shape.rank == 0:
        return _end(low), _end(high)
    sides = [-1 if axis == op.attr("axis") else 1 for axis in range(values.ndim)]
    return np.reshape(low, sides), np.reshape(high, sides)


@register_kernel("QuantizeV2")
def _quantize(op: OpContext, values: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    shape = bounds_shape(op, Shape(values.shape))
    for end in (low, high):
        shape.merge(Shape(np.shape(end)))
    _check_order(low, high)
    if shape.rank == 0:
        output, least, most = _quantize_slice(op, values, _end(low), _end(high))
        return output, np.asarray(least, np.float32), np.asarray(most, np.float32)
    output = np.empty(values.shape, op.attr("T").array_type)
    ends = np.empty((2, len(low)), np.float32)
    for place in range(len(low)):
        at = (slice(None),) * op.attr("axis") + (place,)
        output[at], ends[0, place], ends[1, place] = _quantize_slice(op, values[at], low[place], high[place])
    return output, ends[0].copy(), ends[1].copy()


def _quantize_slice(
    op: OpContext, values: Array, low: np.float32, high: np.float32
) -> tuple[Array, np.float32, np.float32]:
    dtype, mode = op.attr("T"), op.attr("mode")
    lowest, highest = _limits(dtype)
    zero = np.float32(0)
    least = min(zero, low)
    wide = max(np.float32(1), abs(low), abs(high)) * np.float32(op.attr("ensure_minimum_range"))
    most = max(zero, high, least + wide)
    if mode == "MIN_FIRST":
        return _quantized(_to_integers(values, dtype, least, most), dtype), least, most
    if mode == "SCALED":
        bottom = lowest + bool(op.attr("narrow_range"))
        sides = [np.float32(number) / end for number, end in ((bottom, least), (highest, most)) if number * end > 0]
        scale = min([np.float32(np.finfo(np.float32).max), *sides])
        least, most = np.float32(bottom) / scale, np.float32(highest) / scale
        scaled = np.minimum(np.maximum(values, least), most) * scale
        rounded = np.rint(scaled) if op.attr("round_mode") == "HALF_TO_EVEN" else _away(scaled)
        return _quantized(np.clip(rounded.astype(np.float64), bottom, highest), dtype), least, most
    scale = np.float32((float(highest) - float(lowest)) / float(most - least))
    shifted = (np.minimum(np.maximum(values, least), most) - least) * scale
    half = np.float32((highest - lowest + 1) / 2) if lowest else zero
    rounded = _away(shifted - half) if lowest else np.floor(shifted + np.float32(0.5))
    return _quantized(np.clip(rounded.astype(np.float64), lowest, highest), dtype), least, most


@register_kernel("Dequantize")
def _dequantize(op: OpContext, values: Array, low: Array, high: Array) -> Array:
    dtype = op.attr("T")
    least, most = _per_slice(op, values, low, high)
    _check_order(low, high)
    integers = _integers(values, dtype)
    lowest, highest = _limits(dtype)
    mode = op.attr("mode")
    if mode == "MIN_FIRST":
        if np.ndim(least) == 0:
            numbers = _to_numbers(integers, dtype, least, most)
        else:
            numbers = np.empty(values.shape, np.float32)
            for place in range(len(low)):
                at = (slice(None),) * op.attr("axis") + (place,)
                numbers[at] = _to_numbers(integers[at], dtype, low[place], high[place])
    elif mode == "SCALED":
        bottom = lowest + bool(op.attr("narrow_range"))
        scale = most / np.float32(highest)
        if lowest:
            scale = np.maximum(least / np.float32(bottom), scale)
        numbers = integers.astype(np.float32) * scale
    else:
        scale = (most - least) / np.float32(float(highest) - float(lowest))
        half = np.float32((highest - lowest + 1) / 2 if lowest else 0)
        numbers = (integers.astype(np.float32) + half) * scale + least
    return np.asarray(numbers).astype(op.attr("dtype").array_type)


def _product_range(op: OpContext, kinds: tuple[DType, DType], ends: list[np.float32]) -> tuple[Array, Array]:
    """What the lowest and the highest integer of the output mean: a step is the product of the steps of the inputs."""
    step = np.float32(1)
    for kind, (low, high) in zip(kinds, (ends[:2], ends[2:]), strict=True):
        lowest, highest = _limits(kind)
        step = step * ((high - low) / np.float32(highest - lowest))
    lowest, highest = _limits(op.outputs[0].dtype)
    return np.asarray(step * np.float32(lowest)), np.asarray(step * np.float32(highest))


def _factors(kinds: tuple[DType, DType], a: Array, b: Array, ends: list[np.float32]) -> list[Array]:
    """The integers of two tensors counted from the ones that stand for 0."""
    for low, high in (ends[:2], ends[2:]):
        _check_order(low, high)
    return [
        _integers(x, kind) - int(_to_integers(0.0, kind, low, high, clamp=False))
        for x, kind, (low, high) in zip((a, b), kinds, (ends[:2], ends[2:]), strict=True)
    ]


def _wrapped(values: Array, dtype: DType) -> Array:
    """Sums as integers of the output: like those of a processor they wrap."""
    return _quantized(np.asarray(values).astype(np.int64).astype(_plain(dtype)), dtype)


@register_kernel("QuantizedMatMul")
def _quantized_matmul(op: OpContext, a: Array, b: Array, *ends: Array) -> tuple[Array, Array, Array]:
    product_shape(op, Shape(a.shape), Shape(b.shape))
    kinds, bounds = (op.attr("T1"), op.attr("T2")), [_end(end) for end in ends]
    left, right = _factors(kinds, a, b, bounds)
    left, right = left.T if op.attr("transpose_a") else left, right.T if op.attr("transpose_b") else right
    return _wrapped(left @ right, op.outputs[0].dtype), *_product_range(op, kinds, bounds)


@register_kernel("QuantizedConv2D")
def _quantized_conv2d(op: OpContext, images: Array, filters: Array, *ends: Array) -> tuple[Array, Array, Array]:
    plain = ConvolutionAttrs(op)
    shape = convolution_shape(plain, Shape(images.shape), Shape(filters.shape))
    kinds, bounds = (op.attr("Tinput"), op.attr("Tfilter")), [_end(end) for end in ends]
    x, w = _factors(kinds, images, filters, bounds)
    # Products of 16 bits each and their sums are whole numbers of float64, so BLAS may add them up.
    y = convolve(Window.of_convolution(plain), x.astype(np.float64), w.astype(np.float64), shape.as_tuple())
    return _wrapped(y, op.outputs[0].dtype), *_product_range(op, kinds, bounds)


@register_kernel("QuantizedBiasAdd")
def _quantized_bias_add(op: OpContext, values: Array, bias: Array, *ends: Array) -> tuple[Array, Array, Array]:
    Shape(values.shape[-1:]).merge(Shape(bias.shape))
    low, high, bias_low, bias_high = (_end(end) for end in ends)
    most = max(high, -low, bias_high, -bias_low) * np.float32(1 << 17)
    least = -most
    out = op.outputs[0].dtype
    total = np.zeros(values.shape, np.int64)
    for given, kind, start, stop in (
        (values, op.attr("T1"), low, high),
        (bias, op.attr("T2"), bias_low, bias_high),
    ):
        total = total + _to_integers(_to_numbers(_integers(given, kind), kind, start, stop), out, least, most)
    return _wrapped(total, out), np.asarray(least), np.asarray(most)


@register_kernel("QuantizedRelu")
def _quantized_relu(op: OpContext, features: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    kind = op.attr("Tinput")
    zero = int(_to_integers(0.0, kind, _end(low), _end(high)))
    return _quantized(np.maximum(_integers(features, kind), zero), op.attr("out_type")), low.copy(), high.copy()


@register_kernel("RequantizationRange")
def _requantization_range(op: OpContext, values: Array, low: Array, high: Array) -> tuple[Array, Array]:
    kind = op.attr("Tinput")
    integers = _integers(values, kind)
    if not integers.size:
        raise InvalidArgumentError(
            "there are no numbers to take the range of",
            expected="at least one element",
            got=str(list(values.shape)),
            hint="give Requantize a range of your own",
        )
    least, most = (_to_numbers(item, kind, _end(low), _end(high)) for item in (integers.min(), integers.max()))
    return np.asarray(np.minimum(least, np.float32(0))), np.asarray(most)


@register_kernel("Requantize")
def _requantize(
    op: OpContext, values: Array, low: Array, high: Array, wanted_low: Array, wanted_high: Array
) -> tuple[Array, Array, Array]:
    least, most = _end(wanted_low), _end(wanted_high)
    if not least <= 0 or not most >= least:
        raise InvalidArgumentError(
            "the requested range is not right",
            expected="requested_output_min <= 0 and no more than requested_output_max",
            got=f"{least}, {most}",
            hint="RequantizationRange gives one",
        )
    source, target = op.attr("Tinput"), op.attr("out_type")
    integers = _integers(values, source)
    if source.name == "qint32" and target.name == "quint8":
        result = _to_bytes(integers, _end(low), _end(high), least, most)
    else:
        result = _to_integers(_to_numbers(integers, source, _end(low), _end(high)), target, least, most)
    return _quantized(result, target), np.asarray(least), np.asarray(most)


def _to_bytes(integers: Array, low: np.float32, high: np.float32, least: np.float32, most: np.float32) -> Array:
    """From 32 bits to 8 in fixed point with 16 bits after the point, by one product and shifts."""
    unit = 1 << 16
    wide, narrow = high - low, most - least
    if narrow == 0:
        return np.zeros_like(integers)
    scale = int(255.0 * unit * float(wide) / float(narrow))
    centre = np.float32((low + high) / np.float32(2))
    shift = int(float(centre * np.float32(255.0 / float(narrow)) * np.float32(unit)))
    start = int(unit * (float(least) * 255.0) / float(narrow))
    fixed = (integers * scale >> 32) + shift - start + (unit >> 1)
    return np.asarray(np.clip(fixed >> 16, 0, 255))
