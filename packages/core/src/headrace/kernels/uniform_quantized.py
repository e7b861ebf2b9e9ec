"""NumPy kernels of the uniform_quantized family: the exact integers that every faster kernel must give.

A change of scale is what TensorFlow makes of it: a product with a whole number of 31 bits, a shift to the right that
rounds halves up, so that the same integers come out on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.convolution import convolve, convolve_depthwise
from headrace.kernels.registry import register_kernel
from headrace.ops.uniform_quantized import QuantizedConvolution, check_slices, product_of, sum_shape
from headrace.ops.window import Window
from headrace.types import Array, DType, Shape

__all__: list[str] = []

_INT32 = np.iinfo(np.int32)


def _plain(dtype: DType) -> np.dtype[Any]:
    return np.dtype(dtype.name.removeprefix("q"))


def _integers(x: Array, dtype: DType) -> Array:
    """The integers of a quantised array, in their own width."""
    return np.ascontiguousarray(x).view(_plain(dtype))


def _quantized(values: Any, dtype: DType) -> Array:
    return np.ascontiguousarray(np.asarray(values).astype(_plain(dtype))).view(dtype.array_type)


def _along(parameters: Array, axis: int, rank: int) -> Any:
    """Scales or zero points, shaped to broadcast with a tensor of that rank."""
    if axis == -1:
        return np.asarray(parameters)
    return np.reshape(parameters, [-1 if place == axis else 1 for place in range(rank)])


def _check_positive(*scales: Array) -> None:
    for scale in scales:
        if not np.all(np.asarray(scale) > 0):
            raise InvalidArgumentError(
                "a scale is not positive",
                expected="scales above 0",
                got=str(np.asarray(scale).min()),
                hint="where all values are 0, any positive scale does",
            )


def _bounds(op: OpContext, prefix: str = "") -> tuple[int, int]:
    return op.attr(f"{prefix}quantization_min_val"), op.attr(f"{prefix}quantization_max_val")


@register_kernel("UniformQuantize")
def _quantize(op: OpContext, values: Array, scales: Array, zero_points: Array) -> Array:
    axis = op.attr("quantization_axis")
    check_slices(axis, Shape(values.shape), Shape(np.shape(scales)), Shape(np.shape(zero_points)), "the input")
    _check_positive(scales)
    steps = np.floor(values * (np.float32(1) / _along(scales, axis, values.ndim)) + np.float32(0.5))
    low, high = _bounds(op)
    found = steps.astype(np.float64) + _along(zero_points, axis, values.ndim)  # whole numbers, all exact in float64
    return _quantized(np.where(np.isnan(found), low, np.clip(found, low, high)), op.attr("Tout"))


@register_kernel("UniformDequantize")
def _dequantize(op: OpContext, values: Array, scales: Array, zero_points: Array) -> Array:
    axis = op.attr("quantization_axis")
    check_slices(axis, Shape(values.shape), Shape(np.shape(scales)), Shape(np.shape(zero_points)), "the input")
    _check_positive(scales)
    integers = _integers(values, op.attr("Tin")).astype(np.int32)
    steps = integers - _along(zero_points, axis, values.ndim)
    return np.asarray(steps.astype(np.float32) * _along(scales, axis, values.ndim))


def _rescaled(values: Array, factors: Any) -> Array:
    """int32 times positive numbers of float64, in the integers of which the module speaks; the result is int64."""
    fractions, shifts = np.frexp(factors)
    whole = np.floor(fractions * 2.0**31 + 0.5).astype(np.int64)
    carried = whole == 1 << 31
    whole, shifts = np.where(carried, whole >> 1, whole), shifts.astype(np.int64) + carried
    tiny, huge = shifts < -31, shifts > 30
    whole = np.where(tiny, 0, np.where(huge, (1 << 31) - 1, whole))
    shifts = np.where(tiny, 0, np.where(huge, 30, shifts))
    moved = (values.astype(np.int64) * whole + (np.int64(1) << (30 - shifts))) >> (31 - shifts)
    return np.asarray(np.clip(moved, _INT32.min, _INT32.max))


def _wrapped(sums: Array) -> Array:
    """Whole numbers as int32; like those of a processor they wrap."""
    return sums.astype(np.int64).astype(np.int32)


def _finished(op: OpContext, sums: Array, parameters: tuple[Array, ...], axes: tuple[int, int]) -> Array:
    """Sums of products on their way to the output: at its scale, counted from its zero point, in its range.

    `parameters`: the scale of the first factor, the scales of the second one, scales and zero points of the output.
    `axes`: the axis of the output along which the second factor, and along which the output has scales.
    """
    first, second, scales, zero_points = parameters
    _check_positive(first, second, scales)
    wide = np.asarray(first, np.float64) * _along(second, axes[0], sums.ndim)
    moved = _rescaled(sums, wide / _along(scales, axes[1], sums.ndim))
    return _quantized(
        np.clip(moved + _along(zero_points, axes[1], sums.ndim), *_bounds(op, "output_")), op.attr("Tout")
    )


@register_kernel("UniformQuantizedDot")
def _dot(op: OpContext, a: Array, b: Array, *parameters: Array) -> Array:
    product_of(Shape(a.shape), Shape(b.shape))
    _check_parameters(op, b, parameters, 1)
    scale, zero, scales, zeros, made_scales, made_zeros = parameters
    kind = op.attr("Tin")
    # Products of 16 bits and their sums are whole numbers of float64, so BLAS may add them up.
    left = _integers(a, kind).astype(np.float64) - zero
    right = _integers(b, kind).astype(np.float64) - _along(zeros, op.attr("rhs_quantization_axis"), 2)
    sides = op.attr("rhs_quantization_axis"), op.attr("output_quantization_axis")
    return _finished(op, _wrapped(left @ right), (scale, scales, made_scales, made_zeros), sides)


def _check_parameters(op: OpContext, second: Array, parameters: tuple[Array, ...], channels: int) -> None:
    """The checks of the shape function on what came: `channels` is the axis of outputs of the second factor."""
    shapes = [Shape(np.shape(item)) for item in parameters]
    check_slices(-1, Shape([]), shapes[0], shapes[1], "the first factor")
    check_slices(op.attr("rhs_quantization_axis"), Shape(second.shape), shapes[2], shapes[3], "the second factor")
    side = -1 if op.attr("output_quantization_axis") == -1 else 0
    check_slices(side, Shape([second.shape[channels]]), shapes[4], shapes[5], "the output")


@register_kernel("UniformQuantizedConvolution")
def _convolution(op: OpContext, images: Array, filters: Array, *parameters: Array) -> Array:
    form = QuantizedConvolution.of(op)
    shape = form.shape(Shape(images.shape), Shape(filters.shape))
    _check_parameters(op, filters, parameters, form.filters[3])
    scale, zero, scales, zeros, made_scales, made_zeros = parameters
    kind, axis = op.attr("Tin"), op.attr("rhs_quantization_axis")
    x = _integers(images, kind).transpose(form.images).astype(np.float64) - zero
    w = (_integers(filters, kind).astype(np.float64) - _along(zeros, axis, 4)).transpose(form.filters)
    sums = _wrapped(_convolved(Window.of_convolution(form), x, w, shape.as_tuple()))
    back = sums.transpose([form.output.index(place) for place in range(4)])
    sides = -1 if axis == -1 else form.output[3], op.attr("output_quantization_axis")
    return _finished(op, back, (scale, scales, made_scales, made_zeros), sides)


def _convolved(window: Window, x: Array, w: Array, shape: tuple[int, ...]) -> Array:
    """One product for each group, or one for each tap of the filter where a group is a single channel."""
    if w.shape[2] == 1 < x.shape[3]:
        return convolve_depthwise(window, x, w.reshape(*w.shape[:2], x.shape[3], -1), shape)
    return convolve(window, x, w, shape)


@register_kernel("UniformQuantizedAdd")
def _add(op: OpContext, a: Array, b: Array, *parameters: Array) -> Array:
    sum_shape(op, [Shape(np.shape(item)) for item in (a, b, *parameters)])
    made_scales, made_zeros = parameters[4:]
    _check_positive(parameters[0], parameters[2], made_scales)
    side, rank = op.attr("output_quantization_axis"), max(a.ndim, b.ndim)
    total: Any = _along(made_zeros, side, rank)
    for position, (name, x) in enumerate((("lhs", a), ("rhs", b))):
        lead = rank - x.ndim
        axis = op.attr(f"{name}_quantization_axis")
        scales, zeros = (
            _along(item, -1 if axis == -1 else axis + lead, rank)
            for item in parameters[2 * position : 2 * position + 2]
        )
        steps = _integers(x, op.attr("T")).reshape((1,) * lead + x.shape) - zeros
        factors = np.asarray(scales, np.float64) / _along(made_scales, side, rank)
        total = total + _rescaled(steps, factors).astype(np.int32)
    return _quantized(np.clip(total, *_bounds(op, "output_")), op.attr("T"))
