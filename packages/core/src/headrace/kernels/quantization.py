"""NumPy kernels of the quantization family.

They compute in the dtype that comes in: a value between two steps then goes to the same one as in TensorFlow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.quantization import channels, check_channels
from headrace.types import Array, Shape

_HALF = np.float32(0.5)


def _nudged(op: OpContext, low: Any, high: Any) -> tuple[Any, Any, Any]:
    """The ends of the range after 0 has become a step, and the size of a step."""
    first = np.float32(op.attr("narrow_range"))
    last = np.float32(2 ** op.attr("num_bits") - 1)
    step = (high - low) / (last - first)
    zero = np.clip(np.floor(first - low / step + _HALF), first, last)
    return (first - zero) * step, (last - zero) * step, step


def _check_range(low: Array, high: Array) -> tuple[Any, Any]:
    bounds = np.float32(low), np.float32(high)
    if not bounds[0] <= bounds[1]:
        raise InvalidArgumentError(
            "the range is empty",
            expected="min <= max",
            got=f"{bounds[0]}, {bounds[1]}",
            hint="swap them, and check that neither is NaN",
        )
    return bounds


def _fake_quantized(op: OpContext, inputs: Array, low: Any, high: Any) -> Array:
    if low == high == 0:
        return np.zeros_like(inputs)
    bottom, top, step = _nudged(op, low, high)
    inverse = 1 / step
    zero = np.floor(-bottom * inverse + _HALF)
    shifted = np.clip(inputs, bottom, top) - bottom
    return np.asarray(np.floor(shifted * inverse - zero + _HALF) * step, np.float32)


@register_kernel("FakeQuantWithMinMaxVars")
def _fake_quant(op: OpContext, inputs: Array, low: Array, high: Array) -> Array:
    return _fake_quantized(op, inputs, *_check_range(low, high))


@register_kernel("FakeQuantWithMinMaxArgs")
def _fake_quant_args(op: OpContext, inputs: Array) -> Array:
    return _fake_quantized(op, inputs, np.float32(op.attr("min")), np.float32(op.attr("max")))


@register_kernel("FakeQuantWithMinMaxVarsGradient")
def _fake_quant_gradient(
    op: OpContext, gradients: Array, inputs: Array, low: Array, high: Array
) -> tuple[Array, Array, Array]:
    least, most = _check_range(low, high)
    if least == most == 0:
        return np.array(gradients), np.zeros((), np.float32), np.zeros((), np.float32)
    bottom, top, _ = _nudged(op, least, most)
    below, above = np.less(inputs, bottom), np.greater(inputs, top)
    inside = np.greater_equal(inputs, bottom) & np.less_equal(inputs, top)
    zero = np.float32(0)
    sums = [np.asarray(np.where(chosen, gradients, zero).sum(dtype=np.float32)) for chosen in (below, above)]
    return np.where(inside, gradients, zero), sums[0], sums[1]


def _channels(inputs: Array, *bounds: Array) -> list[tuple[Any, Any]]:
    check_channels(Shape(inputs.shape), *(Shape(bound.shape) for bound in bounds))
    return [_check_range(low, high) for low, high in zip(*bounds, strict=True)]


@register_kernel("FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant_per_channel(op: OpContext, inputs: Array, low: Array, high: Array) -> Array:
    result = np.empty_like(inputs)
    for channel, (least, most) in enumerate(_channels(inputs, low, high)):
        result[..., channel] = _fake_quantized(op, inputs[..., channel], least, most)
    return result


@register_kernel("FakeQuantWithMinMaxVarsPerChannelGradient")
def _fake_quant_per_channel_gradient(
    op: OpContext, gradients: Array, inputs: Array, low: Array, high: Array
) -> tuple[Array, Array, Array]:
    Shape(gradients.shape).merge(Shape(inputs.shape))
    _channels(inputs, low, high)
    result, by_low, by_high = np.empty_like(inputs), np.empty_like(low), np.empty_like(high)
    for channel in range(len(low)):
        result[..., channel], by_low[channel], by_high[channel] = _fake_quant_gradient(
            op, gradients[..., channel], inputs[..., channel], low[channel], high[channel]
        )
    return result, by_low, by_high


@register_kernel("QuantizeAndDequantizeV3")
def _quantize_and_dequantize(op: OpContext, values: Array, low: Array, high: Array, num_bits: Array) -> Array:
    signed = op.attr("signed_input")
    if not 0 < int(num_bits) < (62 if signed else 63):
        raise InvalidArgumentError(
            "num_bits is out of range",
            expected=f"1 to {61 if signed else 62}",
            got=f"{num_bits}",
            hint="8 is usual; float32 tells no more than 24 bits apart",
        )
    values = np.asarray(values)
    axis, size = op.attr("axis"), channels(op, Shape(values.shape)).as_tuple()
    if op.attr("range_given"):
        if not np.all(np.less_equal(low, high)):
            raise InvalidArgumentError(
                "the range is empty",
                expected="input_min <= input_max",
                got=f"{low}, {high}",
                hint="swap them, or leave both out to take the range of the tensor itself",
            )
    elif values.size:
        others = tuple(position for position in range(values.ndim) if axis == -1 or position != axis)
        low, high = np.asarray(values.min(axis=others)), np.asarray(values.max(axis=others))
    if not values.size:
        return values.copy()
    shape = [-1 if position == axis else 1 for position in range(values.ndim)] if size else []
    scale, inverse, bottom, top = (np.reshape(part, shape) for part in _scaled(op, low, high, int(num_bits)))
    inside = np.clip(values, bottom, top) if op.attr("range_given") else values
    return np.asarray(np.rint(inside * scale) * inverse).astype(values.dtype)


def _scaled(op: OpContext, low: Array, high: Array, bits: int) -> tuple[Array, Array, Array, Array]:
    """Steps for each unit, units for each step, and the ends of the range that the integers reach."""
    dtype = np.asarray(low).dtype
    signed = op.attr("signed_input")
    least = dtype.type(-(2 ** (bits - 1)) + op.attr("narrow_range") if signed else 0)
    most = dtype.type(2 ** (bits - 1) - 1 if signed else 2**bits - 1)
    huge = np.array(np.inf, dtype)
    from_low = np.where(np.greater(least * low, 0), least / low, huge)
    from_high = np.where(np.greater(most * high, 0), most / high, huge)
    by_low = np.less(from_low, from_high)
    scale = np.where(by_low, from_low, from_high)
    inverse = np.where(by_low, low / least if least else low * 0, high / most if most else high * 0)
    none = np.isinf(scale)  # the range is 0 alone
    scale, inverse = np.where(none, dtype.type(1), scale), np.where(none, dtype.type(0), inverse)
    bottom, top = np.where(by_low, low, least * inverse), np.where(by_low, most * inverse, high)
    return scale.astype(dtype), inverse.astype(dtype), bottom.astype(dtype), top.astype(dtype)
