"""Convolutions by oneDNN: forward, by images and by filters; plain, grouped and depthwise; of images and volumes.

oneDNN names the axes of images `[n, c, spatial...]`, those of filters `[groups, out, in, spatial...]`, whatever their
order in memory is: that is a matter of strides. Filters may have any layout; where the one that oneDNN chooses is not
theirs, they are copied before or after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.types import DType, bfloat16, float32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.calls import CallWriter, computed_as, makes_calls, row_major
from headrace_cpu.onednn.capi import Descriptor, OneDnn
from headrace_cpu.onednn.views import View

__all__ = ["padding_of"]


def padding_of(
    attrs: Mapping[str, Any], places: Sequence[int], sizes: Sequence[int], outputs: Sequence[int], spans: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each spatial axis; what is after may be negative where windows leave inputs over.

    Args:
      attrs: `padding`, `strides` and perhaps `explicit_paddings` of the operation.
      places: where its attributes have the spatial axes.
      sizes: inputs of each.
      outputs: outputs of each.
      spans: inputs under one window.
    """
    before, after = [], []
    for place, size, count, span in zip(places, sizes, outputs, spans, strict=True):
        needed = (count - 1) * attrs["strides"][place] + span - size
        if attrs["padding"] == "EXPLICIT":
            low = attrs["explicit_paddings"][2 * place]
        else:
            low = max(needed, 0) // 2 if attrs["padding"] == "SAME" else 0
        before.append(low)
        after.append(needed - low)
    return tuple(before), tuple(after)


@dataclass(frozen=True, slots=True)
class _Images:
    """Images or volumes: their shape `[n, c, spatial...]` and the strides of these axes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], data_format: str) -> _Images:
        steps = row_major(shape)
        order = range(len(shape)) if data_format.startswith("NC") else [0, len(shape) - 1, *range(1, len(shape) - 1)]
        return cls(tuple(shape[axis] for axis in order), tuple(steps[axis] for axis in order))

    def layout(self, library: OneDnn, dtype: DType, place: View | None = None) -> Descriptor:
        """Their layout where they lie by themselves, or in a larger memory."""
        return library.strided(self.shape, dtype, self.strides, place.offset if place else 0)


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution in the axes of oneDNN.

    Attributes:
      images, output: what goes in and comes out forward.
      filters: the shape `[groups, out, in, spatial...]`, without groups where there is one.
      filter_strides: the strides of these axes in the graph's order `[spatial..., in, out]`.
      numbers: strides, dilations (0 is none), padding before and after, for each spatial axis.
    """

    images: _Images
    output: _Images
    filters: tuple[int, ...]
    filter_strides: tuple[int, ...]
    numbers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, call: CallWriter, places: Sequence[int], *, depthwise: bool) -> _Convolution | None:
        """From the operation's attributes and the places of images, filters and output; None for another form."""
        attrs = call.request.op.attrs
        images, filters, output = (call.request.shape(place) for place in places)
        *taps, depth, count = filters
        axes = [2 + axis if attrs["data_format"].startswith("NC") else 1 + axis for axis in range(len(taps))]
        given = _Images.of(images, attrs["data_format"])
        made = _Images.of(output, attrs["data_format"])
        others = {axis for axis in range(len(images)) if axis not in axes}
        if any(attrs[name][axis] != 1 for name in ("strides", "dilations") for axis in others):
            return None
        strides = tuple(attrs["strides"][axis] for axis in axes)
        dilations = tuple(attrs["dilations"][axis] - 1 for axis in axes)
        spans = [(tap - 1) * (dilation + 1) + 1 for tap, dilation in zip(taps, dilations, strict=True)]
        before, after = padding_of(attrs, axes, given.shape[2:], made.shape[2:], spans)
        steps = row_major(filters)
        if depthwise:
            shape, filter_strides = (depth, count, 1, *taps), (count, 1, 1, *steps[:-2])
        else:
            groups = given.shape[1] // depth
            shape, filter_strides = (groups, count // groups, depth, *taps), (count // groups, 1, count, *steps[:-2])
            if groups == 1:
                shape, filter_strides = shape[1:], filter_strides[1:]
        return cls(given, made, shape, filter_strides, (strides, dilations, before, after))

    def summed(self, kind: str) -> int:
        """The channels over which a convolution forward or by images sums, in each group."""
        place = -len(self.numbers[0]) - 1
        return self.filters[place - 1 if kind == BY_IMAGES else place]

    def described(
        self,
        library: OneDnn,
        kind: str,
        images: Descriptor,
        filters: Descriptor,
        output: Descriptor,
        hint: int | None = None,
        bias: Descriptor | None = None,
        attributes: int | None = None,
    ) -> int | None:
        given = [capi.DIRECT, images, filters, output, *(capi.dims(item) for item in self.numbers)]
        if kind == "convolution_backward_data":
            return library.describe(kind, *given, hint, None)
        given.insert(3, bias)
        if kind == "convolution_forward":
            return library.describe(kind, capi.FORWARD_TRAINING, *given, attributes)
        return library.describe(kind, *given, hint, None)


FORWARD, BY_IMAGES, BY_FILTERS = "convolution_forward", "convolution_backward_data", "convolution_backward_weights"
PAIRED = ("brg", "jit_bf16_1x1")
"""How the names of code begin that multiplies bfloat16 in pairs of channels: where their number is odd it takes one of
the next pixel, times 0, so that NaN and infinities there would make NaN here."""
FEW_CHANNELS = 8
"""Channels of images below which gradients by filters are left to float32. There the code of oneDNN for bfloat16 lets
threads spin for each other many times in one call: no faster where nothing else runs, and with 2 to 6 channels up to
300 times slower where a thread has to wait for a processor (0.5 s instead of 2 ms)."""
_PLACES = {FORWARD: (0, 1, 2), BY_IMAGES: (3, 1, 2), BY_FILTERS: (0, 3, 2)}
"""Which pointers are those of images, filters and output."""
_ARGUMENTS = {
    FORWARD: (capi.SRC, capi.WEIGHTS, capi.DST),
    BY_IMAGES: (capi.DIFF_SRC, capi.WEIGHTS, capi.DIFF_DST),
    BY_FILTERS: (capi.SRC, capi.DIFF_WEIGHTS, capi.DIFF_DST),
}


def _convolve(call: CallWriter, kind: str, *, depthwise: bool) -> bool:
    places, dtypes = _PLACES[kind], call.request.dtypes
    made = 2 if kind == FORWARD else 3
    operand = computed_as([dtypes[place] for place in places if place != made], dtypes[made])
    form = None if operand is None else _Convolution.of(call, places, depthwise=depthwise)
    if form is None or operand is None:
        return False
    widened = operand is bfloat16 and call.request.op.outputs[0].dtype is float32
    if kind == BY_FILTERS and widened and not depthwise and form.images.shape[1] < FEW_CHANNELS:
        return False
    library = call.library
    views = call.request.places or (None, None, None)
    if views[1] is not None or not all(map(_is_whole, views)):
        return False
    images, output = (
        side.layout(library, dtypes[place], view)
        for side, place, view in ((form.images, places[0], views[0]), (form.output, places[2], views[2]))
    )
    hint = None
    if kind != FORWARD:
        narrow = [side.layout(library, operand) for side in (form.images, form.output)]
        hint = form.described(library, FORWARD, narrow[0], library.any(form.filters, operand), narrow[1])
        if hint is None:
            return False
    filter_dtype = dtypes[places[1]]
    place, attributes, arguments = call.epilogue(lambda dtype: form.output.layout(library, dtype))
    bias = None
    if place is not None:
        bias = library.strided(form.output.shape[1:2], float32, [1])
        arguments.append((capi.BIAS, place, bias))
    any_filters = library.any(form.filters, filter_dtype)
    found = form.described(library, kind, images, any_filters, output, hint, bias, attributes)
    if found is None:
        return False
    if operand is bfloat16:
        while form.summed(kind) % 2 and library.implementation(found).startswith(PAIRED):
            if widened or not library.next_implementation(found):
                return False
        if library.implementation(found).startswith("ref"):
            return False
    by_filters = kind == BY_FILTERS
    chosen = library.queried(found, capi.QUERY_DIFF_WEIGHTS if by_filters else capi.QUERY_WEIGHTS)
    plain = library.strided(form.filters, filter_dtype, form.filter_strides)
    numbers = _ARGUMENTS[kind]

    def run(filters: int) -> None:
        sides = (numbers[0], places[0], images), (numbers[1], filters, chosen), (numbers[2], places[2], output)
        call.run(found, *sides, *arguments)

    if by_filters:
        call.given_back(places[1], plain, chosen, run)
    else:
        run(call.reordered(places[1], plain, chosen))
    return True


def _is_whole(place: View | None) -> bool:
    """True for images that follow each other in memory without gaps."""
    return place is None or place.strides == View.whole(place.sizes).strides


@makes_calls("Conv2D", "Conv3D")
def _forward(call: CallWriter) -> bool:
    return _convolve(call, FORWARD, depthwise=False)


@makes_calls("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _by_images(call: CallWriter) -> bool:
    return _convolve(call, BY_IMAGES, depthwise=False)


@makes_calls("Conv2DBackpropFilter", "Conv3DBackpropFilterV2")
def _by_filters(call: CallWriter) -> bool:
    return _convolve(call, BY_FILTERS, depthwise=False)


@makes_calls("DepthwiseConv2dNative")
def _depthwise(call: CallWriter) -> bool:
    return _convolve(call, FORWARD, depthwise=True)


@makes_calls("DepthwiseConv2dNativeBackpropInput")
def _depthwise_by_images(call: CallWriter) -> bool:
    return _convolve(call, BY_IMAGES, depthwise=True)


@makes_calls("DepthwiseConv2dNativeBackpropFilter")
def _depthwise_by_filters(call: CallWriter) -> bool:
    return _convolve(call, BY_FILTERS, depthwise=True)
