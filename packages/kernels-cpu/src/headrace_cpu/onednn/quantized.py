"""Products and convolutions of int8 by oneDNN, where the sums that come out are exactly those of the NumPy kernels.

oneDNN sums products of int8 exactly only where the processor multiplies bytes into 32 bits at once (VNNI). Elsewhere it
adds two products in 16 bits, which saturate, or halves the weights; there the kernels of NumPy are left to compute. A
zero point it takes off in float32, which is exact as long as no sum can leave the whole numbers that float32 has.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np

from headrace.graph.proto.quantization_pb2 import UniformQuantizedConvolutionDimensionNumbersAttr
from headrace.types import Array, int32
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


def _is_exact(filters: Array | None, zero: int, summed: Sequence[int]) -> bool:
    """True if no sum of products with bytes counted from the zero point can leave what float32 holds."""
    if zero == 0:
        return True
    if filters is None or not -128 <= zero <= 127:
        return False
    weights = np.abs(filters.view(np.int8).astype(np.int64))
    return int(weights.sum(axis=tuple(summed)).max()) * 256 <= EXACT


def _run(call: CallWriter, found: int, plain: Descriptor, sides: tuple[Descriptor, Descriptor], zero: int) -> bool:
    """Execute what was described; a reference implementation is no faster than NumPy."""
    library = call.library
    if library.implementation(found).startswith("ref"):
        return False
    chosen = library.queried(found, capi.QUERY_WEIGHTS)
    arguments = [(capi.SRC, LHS, sides[0]), (capi.DST, OUTPUT, sides[1])]
    if zero:
        arguments.append((capi.ZERO_POINTS | capi.SRC, LHS_ZERO, library.strided((1,), int32, (1,))))
    call.run(found, *arguments, (capi.WEIGHTS, call.reordered(RHS, plain, chosen), chosen))
    return True


@makes_calls("UniformQuantizedDot")
def _dot(call: CallWriter) -> bool:
    request, library = call.request, call.library
    zero = _zero_point(request) if sums_exactly(library) else None
    if zero is None or not _is_exact(request.constants[RHS], zero, [0]):
        return False
    a, b, output = (call.plain(place) for place in (LHS, RHS, OUTPUT))
    weights = b if request.constants[RHS] is None else library.any(request.shape(RHS), request.dtypes[RHS])
    found = library.describe("matmul", a, weights, None, output, library.attributes((), zero_point=bool(zero)))
    return found is not None and _run(call, found, b, (a, output), zero)


def _is_plain(request: Request) -> bool:
    """True for images and output `[n, rows, columns, channels]`, filters `[rows, columns, in, out]`, one group."""
    attrs = request.op.attrs
    if attrs["batch_group_count"] != 1 or attrs["feature_group_count"] != 1 or set(attrs["lhs_dilation"]) - {1}:
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
    zero = _zero_point(request) if sums_exactly(library) and _is_plain(request) else None
    if zero is None or not _is_exact(request.constants[RHS], zero, [0, 1, 2]):
        return False
    attrs = request.op.attrs
    x, w, y = (request.shape(place) for place in (LHS, RHS, OUTPUT))
    images, output = (
        library.strided((shape[0], shape[3], *shape[1:3]), request.dtypes[place], _channels_first(shape))
        for place, shape in ((LHS, x), (OUTPUT, y))
    )
    filters = (w[3], w[2], *w[:2])
    plain = library.strided(filters, request.dtypes[RHS], (1, w[3], w[1] * w[2] * w[3], w[2] * w[3]))
    strides, dilations = attrs["window_strides"] or (1, 1), attrs["rhs_dilation"] or (1, 1)
    spans = [(taps - 1) * step + 1 for taps, step in zip(w[:2], dilations, strict=True)]
    numbers = {"padding": attrs["padding"], "explicit_paddings": attrs["explicit_padding"], "strides": strides}
    before, after = padding_of(numbers, (0, 1), x[1:3], y[1:3], spans)
    geometry = (strides, [step - 1 for step in dilations], before, after)
    found = library.describe(
        "convolution_forward",
        capi.FORWARD_INFERENCE,
        capi.DIRECT,
        images,
        library.any(filters, request.dtypes[RHS]),
        None,
        output,
        *(capi.dims(item) for item in geometry),
        library.attributes((), zero_point=bool(zero)),
    )
    return found is not None and _run(call, found, plain, (images, output), zero)


def _channels_first(shape: Sequence[int]) -> list[int]:
    steps = row_major(shape)
    return [steps[0], steps[3], steps[1], steps[2]]
