"""Products and convolutions of int8 by oneDNN, where the sums that come out are exactly those of the NumPy kernels.

oneDNN sums products of int8 exactly only where the processor multiplies bytes into 32 bits at once (VNNI). Elsewhere it
adds two products in 16 bits, which saturate, or halves the weights. There it multiplies the same integers in float32,
as long as no sum can leave the whole numbers that float32 has, which the weights tell. With VNNI too it takes a zero
point off in float32, under the same condition. Where that does not hold the kernels of NumPy are left to compute.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.graph.proto.quantization_pb2 import UniformQuantizedConvolutionDimensionNumbersAttr
from headrace.types import Array, DType, float32, int8, int32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.calls import CallWriter, Request, makes_calls, row_major
from headrace_cpu.onednn.capi import Descriptor, OneDnn
from headrace_cpu.onednn.convolutions import padding_of

__all__ = ["sums_exactly"]

VNNI = 0x08 | 0x40
"""The bits of oneDNN's instruction sets that stand for such instructions, in registers of 256 and of 512 bits."""
EXACT = 1 << 24
"""Whole numbers up to here are exact in float32."""
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
LHS, RHS, LHS_SCALE, LHS_ZERO, RHS_SCALES, RHS_ZEROS, SCALES, ZEROS, OUTPUT = range(9)
"""The pointers of inputs, then of the output."""


def sums_exactly(library: OneDnn) -> bool:
    """True if oneDNN sums products of int8 without loss on this processor, with what it is allowed to use of it."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    return bool(library.library.dnnl_get_effective_cpu_isa() & VNNI)


def _zero_point(request: Request) -> int | None:
    """The zero point of the first factor, if the result is just the sums of products; None if more is to be done."""
    known = [request.constants[place] for place in range(LHS_SCALE, OUTPUT)]
    attrs = request.op.attrs
    if any(item is None for item in known):
        return None
    scale, zero, scales, zeros, made_scales, made_zeros = (np.asarray(item) for item in known)
    if (attrs["output_quantization_min_val"], attrs["output_quantization_max_val"]) != (LOWEST, HIGHEST):
        return None
    if zeros.any() or made_zeros.any() or not all((item > 0).all() for item in (scale, scales, made_scales)):
        return None
    unchanged = bool((scale.astype(np.float64) * scales == made_scales).all())
    return int(zero) if unchanged else None


def _is_bounded(filters: Array | None, zero: int, summed: Sequence[int]) -> bool:
    """True if no sum of products with bytes counted from the zero point can leave what float32 holds."""
    if filters is None or not -128 <= zero <= 127:
        return False
    weights = np.abs(filters.view(np.int8).astype(np.int64))
    return int(weights.sum(axis=tuple(summed)).max()) * 256 <= EXACT


@dataclass(frozen=True, slots=True)
class _Product:
    """A product or convolution, in any dtype.

    Attributes:
      layout: the layout of an input or the output.
      weights: a layout of weights that oneDNN may choose.
      described: describes the primitive from the layouts of its source, weights and destination, and attributes.
      summed: the axes of the weights that are summed over.
    """

    layout: Callable[[int, DType], Descriptor]
    weights: Callable[[DType], Descriptor]
    described: Callable[[Descriptor, Descriptor, Descriptor, int | None], int | None]
    summed: tuple[int, ...]


def _multiplied(call: CallWriter, product: _Product, zero: int) -> bool:
    library, known = call.library, call.request.constants[RHS]
    bounded = _is_bounded(known, zero, product.summed)
    bytes_ = sums_exactly(library)
    if not bounded and (zero or not bytes_):
        return False
    x, weights, y = (product.layout(place, call.request.dtypes[place]) for place in (LHS, RHS, OUTPUT))
    taken_off = (capi.ZERO_POINTS | capi.SRC, LHS_ZERO, library.strided((1,), int32, (1,))) if zero else None
    source, target = (x, y) if bytes_ else (product.layout(LHS, float32), product.layout(OUTPUT, float32))
    options = library.attributes((), zero_point=True) if bytes_ and zero else None
    wanted = product.weights(int8 if bytes_ else float32)
    found = product.described(source, wanted, target, options)
    if found is None or library.implementation(found).startswith("ref"):  # no faster than NumPy
        return False
    chosen = library.queried(found, capi.QUERY_WEIGHTS)
    packed = call.reordered(RHS, weights, chosen)
    if bytes_:
        extra = () if taken_off is None else (taken_off,)
        call.run(found, (capi.SRC, LHS, x), (capi.WEIGHTS, packed, chosen), (capi.DST, OUTPUT, y), *extra)
        return True
    given, sums = call.scratch(source.size), call.scratch(target.size)
    call.converted(LHS, x, source, given, taken_off)
    call.run(found, (capi.SRC, given, source), (capi.WEIGHTS, packed, chosen), (capi.DST, sums, target))
    call.converted(sums, target, y, OUTPUT)
    return True


@makes_calls("UniformQuantizedDot")
def _dot(call: CallWriter) -> bool:
    request, library = call.request, call.library
    zero = _zero_point(request)
    if zero is None:
        return False

    def layout(place: int, dtype: DType) -> Descriptor:
        shape = request.shape(place)
        return library.strided(shape, dtype, row_major(shape))

    def weights(dtype: DType) -> Descriptor:
        return layout(RHS, dtype) if request.constants[RHS] is None else library.any(request.shape(RHS), dtype)

    def described(x: Descriptor, w: Descriptor, y: Descriptor, options: int | None) -> int | None:
        return library.describe("matmul", x, w, None, y, options)

    return _multiplied(call, _Product(layout, weights, described, (0,)), zero)


def _is_plain(request: Request) -> bool:
    """True for images and output `[n, rows, columns, channels]`, filters `[rows, columns, in / groups, out]`."""
    attrs = request.op.attrs
    if attrs["batch_group_count"] != 1 or set(attrs["lhs_dilation"]) - {1}:
        return False
    numbers = UniformQuantizedConvolutionDimensionNumbersAttr()
    given = attrs["dimension_numbers"]
    numbers.ParseFromString(given.encode() if isinstance(given, str) else given)
    return numbers == UniformQuantizedConvolutionDimensionNumbersAttr(
        input_feature_dimension=3,
        input_spatial_dimensions=[1, 2],
        kernel_input_feature_dimension=2,
        kernel_output_feature_dimension=3,
        kernel_spatial_dimensions=[0, 1],
        output_feature_dimension=3,
        output_spatial_dimensions=[1, 2],
    )


@makes_calls("UniformQuantizedConvolution")
def _convolution(call: CallWriter) -> bool:
    request, library = call.request, call.library
    zero = _zero_point(request) if _is_plain(request) else None
    if zero is None:
        return False
    attrs = request.op.attrs
    x, w, y = (request.shape(place) for place in (LHS, RHS, OUTPUT))
    groups, (*taps, depth, count) = attrs["feature_group_count"], w
    filters: tuple[int, ...] = (count // groups, depth, *taps)
    steps: tuple[int, ...] = (1, count, taps[1] * depth * count, depth * count)
    if groups > 1:
        filters, steps = (groups, *filters), (count // groups, *steps)
    strides, dilations = attrs["window_strides"] or (1, 1), attrs["rhs_dilation"] or (1, 1)
    spans = [(taps - 1) * step + 1 for taps, step in zip(taps, dilations, strict=True)]
    numbers = {"padding": attrs["padding"], "explicit_paddings": attrs["explicit_padding"], "strides": strides}
    geometry = (strides, [step - 1 for step in dilations], *padding_of(numbers, (0, 1), x[1:3], y[1:3], spans))

    def layout(place: int, dtype: DType) -> Descriptor:
        if place == RHS:
            return library.strided(filters, dtype, steps)
        shape = request.shape(place)
        return library.strided((shape[0], shape[3], *shape[1:3]), dtype, _channels_first(shape))

    def weights(dtype: DType) -> Descriptor:
        return library.any(filters, dtype)

    def described(images: Descriptor, kernel: Descriptor, output: Descriptor, options: int | None) -> int | None:
        sides = images, kernel, None, output
        given = map(capi.dims, geometry)
        return library.describe("convolution_forward", capi.FORWARD_INFERENCE, capi.DIRECT, *sides, *given, options)

    return _multiplied(call, _Product(layout, weights, described, (0, 1, 2)), zero)


def _channels_first(shape: Sequence[int]) -> list[int]:
    steps = row_major(shape)
    return [steps[0], steps[3], steps[1], steps[2]]
