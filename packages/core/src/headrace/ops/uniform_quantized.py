"""Integers that stand for multiples of a number, counted from a zero point: what models quantised to int8 compute with.

A quantised tensor q goes with a float32 scale s and an int32 zero point z, or one of each for each slice along
`quantization_axis`; it means s * (q - z). Products of qint8 are summed exactly, as qint32. The operations are those of
TensorFlow, so that a graph with them runs there too; `hr.to_int8` makes such graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from headrace.errors import AttrError, InvalidArgumentError, ShapeError, UnimplementedError
from headrace.graph import attr
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.proto.quantization_pb2 import UniformQuantizedConvolutionDimensionNumbersAttr
from headrace.ops.convolution import convolution_shape
from headrace.ops.quantized import product_shape
from headrace.types import Shape, broadcast_shapes, float32, qint8, qint32, quint8

__all__ = ["CHANNELS_LAST", "QuantizedConvolution", "check_slices", "product_of", "sum_shape"]

CHANNELS_LAST = UniformQuantizedConvolutionDimensionNumbersAttr(
    input_feature_dimension=3,
    input_spatial_dimensions=[1, 2],
    kernel_input_feature_dimension=2,
    kernel_output_feature_dimension=3,
    kernel_spatial_dimensions=[0, 1],
    output_feature_dimension=3,
    output_spatial_dimensions=[1, 2],
).SerializeToString(deterministic=True)
"""`dimension_numbers` of images and sums `[n, rows, columns, channels]`, filters `[rows, columns, in, out]`."""

_PARAMETERS = {"scales": "float32", "zero_points": "int32"}


def _range_attrs(prefix: str = "") -> dict[str, AttrSpec]:
    """Along which axis there is one scale for each slice (-1: one for all), and the integers that may be used."""
    return {
        f"{prefix}quantization_axis": attr.int(-1),
        f"{prefix}quantization_min_val": attr.int(),
        f"{prefix}quantization_max_val": attr.int(),
    }


def _three_ranges() -> dict[str, AttrSpec]:
    return {name: spec for side in ("lhs", "rhs", "output") for name, spec in _range_attrs(f"{side}_").items()}


_THREE_PARAMETERS = {
    f"{side}_{name}": dtype for side in ("lhs", "rhs", "output") for name, dtype in _PARAMETERS.items()
}


def check_slices(axis: int, values: Shape, scales: Shape, zero_points: Shape, what: str) -> None:
    """Check that scales and zero points are scalars or, with an axis, vectors with one number for each slice along it.

    Args:
      axis: the axis, or -1.
      values: the shape of the quantised tensor.
      scales: that of its scales.
      zero_points: that of its zero points.
      what: how an error names the tensor.
    Raises:
      InvalidArgumentError: there is no such axis.
      ShapeError: one of the two does not fit.
    """
    wanted = Shape([])
    if axis != -1:
        if axis < -1 or (values.rank is not None and axis >= values.rank):
            raise InvalidArgumentError(
                f"{what} has no such axis",
                expected=f"-1, or an axis of {values}",
                got=str(axis),
                hint="quantization_axis -1 means one scale for the whole tensor",
            )
        wanted = Shape([None if values.dims is None else values.dims[axis]])
    for given, name in ((scales, "scales"), (zero_points, "zero points")):
        if not given.is_compatible_with(wanted):
            raise ShapeError(
                f"the {name} of {what} have the wrong shape",
                expected=str(wanted),
                got=str(given),
                hint="a scalar, or with quantization_axis one number for each slice along it",
            )


@register_op(
    "UniformQuantize",
    inputs={"input": "Tin", **_PARAMETERS},
    outputs={"output": "Tout"},
    attrs={"Tin": attr.type(float32), "Tout": attr.type(qint8, quint8, qint32), **_range_attrs()},
)
def _quantize_shape(op: InferenceContext) -> list[Shape]:
    """The integer nearest to input / scale, halves up, counted from the zero point and kept in the given range."""
    values, scales, zero_points = (spec.shape for spec in op.inputs)
    check_slices(op.attr("quantization_axis"), values, scales, zero_points, "the input")
    return [values]


@register_op(
    "UniformDequantize",
    inputs={"input": "Tin", **_PARAMETERS},
    outputs={"output": "Tout"},
    attrs={"Tin": attr.type(qint8, quint8, qint32), "Tout": attr.type(float32), **_range_attrs()},
)
def _dequantize_shape(op: InferenceContext) -> list[Shape]:
    """The numbers for which integers stand: scale * (input - zero point)."""
    values, scales, zero_points = (spec.shape for spec in op.inputs)
    check_slices(op.attr("quantization_axis"), values, scales, zero_points, "the input")
    return [values]


class _Plain:
    """The attributes of a matrix product that transposes nothing."""

    def attr(self, name: str) -> object:
        """False: neither `transpose_a` nor `transpose_b`."""
        return False


def product_of(a: Shape, b: Shape) -> Shape:
    """The shape of a product of matrices; raises ShapeError if they do not fit each other."""
    return product_shape(_Plain(), a, b)


def _check_sides(op: InferenceContext, output: Shape, channels: int) -> None:
    """One scale for the first factor; one for each output channel of the second factor and the output, or one.

    `channels` is the axis of the output's channels.
    """
    if op.attr("lhs_quantization_axis") != -1:
        raise AttrError(
            "the first factor has one scale for each slice",
            expected="lhs_quantization_axis -1",
            got=str(op.attr("lhs_quantization_axis")),
            hint="scales of the axis that is summed over cannot be taken out of the sum",
        )
    inputs = [spec.shape for spec in op.inputs]
    check_slices(-1, inputs[0], inputs[2], inputs[3], "the first factor")
    side = op.attr("output_quantization_axis")
    if side not in (-1, channels):
        raise AttrError(
            "the output has scales along another axis than its channels",
            expected=f"output_quantization_axis -1 or {channels}",
            got=str(side),
            hint="the channels of the output are those of the second factor",
        )
    check_slices(side, output, inputs[6], inputs[7], "the output")
    if side != -1 and op.attr("rhs_quantization_axis") == -1:
        raise AttrError(
            "the output has a scale for each channel, the second factor has one for all",
            expected="output_quantization_axis -1",
            got=str(side),
            hint="give the output one scale",
        )


@register_op(
    "UniformQuantizedDot",
    inputs={"lhs": "Tin", "rhs": "Tin", **_THREE_PARAMETERS},
    outputs={"output": "Tout"},
    attrs={"Tin": attr.type(qint8), "Tout": attr.type(qint32), **_three_ranges()},
)
def _dot_shape(op: InferenceContext) -> list[Shape]:
    """The product of two quantised matrices, summed in int32 and then brought to the scale of the output."""
    inputs = [spec.shape for spec in op.inputs]
    output = product_of(inputs[0], inputs[1])
    axis = op.attr("rhs_quantization_axis")
    if axis not in (-1, 1):
        raise AttrError(
            "the second factor has scales along the axis that is summed over",
            expected="rhs_quantization_axis -1 or 1",
            got=str(axis),
            hint="give each column a scale",
        )
    check_slices(axis, inputs[1], inputs[4], inputs[5], "the second factor")
    _check_sides(op, output, 1)
    return [output]


@dataclass(frozen=True, slots=True)
class QuantizedConvolution:
    """A quantised convolution seen as a plain one of images `[batch, rows, columns, in]`.

    Attributes:
      op: the operation.
      images: the axes of its input in the order batch, rows, columns, channels.
      filters: the axes of its filter in the order rows, columns, in, out.
      output: the axes of its output in the order batch, rows, columns, channels.
    """

    op: HasAttrs
    images: tuple[int, int, int, int]
    filters: tuple[int, int, int, int]
    output: tuple[int, int, int, int]

    @classmethod
    def of(cls, op: HasAttrs) -> QuantizedConvolution:
        """Read the attributes.

        Raises:
          AttrError: `dimension_numbers` cannot be read or are no numbers of four axes.
          UnimplementedError: the images are spread or batches grouped, as in gradients of convolutions.
        """
        spread = tuple(op.attr("lhs_dilation"))
        if any(step != 1 for step in spread) or op.attr("batch_group_count") != 1:
            raise UnimplementedError(
                "a quantised convolution spreads its images, or groups its batch",
                expected="lhs_dilation 1 and batch_group_count 1",
                got=f"{list(spread)}, {op.attr('batch_group_count')}",
                hint="only gradients of convolutions do, and these are not quantised",
            )
        given = op.attr("dimension_numbers") or b""
        numbers = UniformQuantizedConvolutionDimensionNumbersAttr()
        try:
            numbers.ParseFromString(given.encode() if isinstance(given, str) else given)
        except DecodeError as error:
            raise _wrong_numbers(given) from error
        if not given:
            return cls(op, (0, 2, 3, 1), (2, 3, 1, 0), (0, 2, 3, 1))
        images = numbers.input_batch_dimension, *numbers.input_spatial_dimensions, numbers.input_feature_dimension
        filters = (
            *numbers.kernel_spatial_dimensions,
            numbers.kernel_input_feature_dimension,
            numbers.kernel_output_feature_dimension,
        )
        output = numbers.output_batch_dimension, *numbers.output_spatial_dimensions, numbers.output_feature_dimension
        if any(sorted(axes) != [0, 1, 2, 3] for axes in (images, filters, output)):
            raise _wrong_numbers(given)
        return cls(op, images, filters, output)  # type: ignore[arg-type]  # four of each

    def attr(self, name: str) -> object:
        """The value of an attribute of the plain convolution."""
        if name in ("strides", "dilations"):
            own = tuple(self.op.attr("window_strides" if name == "strides" else "rhs_dilation"))
            return (1, *(own or (1, 1)), 1)
        if name == "explicit_paddings":
            pads = tuple(self.op.attr("explicit_padding"))
            return (0, 0, *pads, 0, 0) if pads else ()
        return "NHWC" if name == "data_format" else self.op.attr(name)

    def shape(self, images: Shape, filters: Shape) -> Shape:
        """The shape of the output, in the order batch, rows, columns, channels.

        Args:
          images: in the order of the operation.
          filters: in the order of the operation.
        Raises:
          AttrError: the number of groups is not right.
        """
        x, w = (
            Shape([shape.with_rank(4)[axis] for axis in axes])
            for shape, axes in ((images, self.images), (filters, self.filters))
        )
        result = convolution_shape(self, x, w)
        groups = self.op.attr("feature_group_count")
        if x[3] is not None and w[2] is not None and x[3] != w[2] * groups:
            raise AttrError(
                "feature_group_count does not fit the channels",
                expected=str(x[3] // w[2]),
                got=str(groups),
                hint="channels of the images over channels of the filter",
            )
        return result


def _wrong_numbers(given: object) -> AttrError:
    return AttrError(
        "attr 'dimension_numbers' is not right",
        expected="a serialised message with the numbers 0 to 3 for the axes of input, kernel and output",
        got=repr(given)[:80],
        hint="leave it empty for images [n, channels, rows, columns] and filters [out, in, rows, columns]",
    )


@register_op(
    "UniformQuantizedConvolution",
    inputs={"lhs": "Tin", "rhs": "Tin", **_THREE_PARAMETERS},
    outputs={"output": "Tout"},
    attrs={
        "Tin": attr.type(qint8),
        "Tout": attr.type(qint32),
        "window_strides": attr.list_of(attr.int(), ()),
        "padding": attr.string(allowed=["SAME", "VALID", "EXPLICIT"]),
        "explicit_padding": attr.list_of(attr.int(), ()),
        "lhs_dilation": attr.list_of(attr.int(), ()),
        "rhs_dilation": attr.list_of(attr.int(), ()),
        "batch_group_count": attr.int(1),
        "feature_group_count": attr.int(1),
        "dimension_numbers": attr.string(""),
        **_three_ranges(),
    },
)
def _convolution_shape(op: InferenceContext) -> list[Shape]:
    """The convolution of quantised images, padded with what stands for 0, summed in int32 as UniformQuantizedDot."""
    form = QuantizedConvolution.of(op)
    inputs = [spec.shape for spec in op.inputs]
    plain = form.shape(inputs[0], inputs[1])
    output = Shape([plain[form.output.index(axis)] for axis in range(4)])
    axis = op.attr("rhs_quantization_axis")
    if axis not in (-1, form.filters[3]):
        raise AttrError(
            "the filter has scales along another axis than its outputs",
            expected=f"rhs_quantization_axis -1 or {form.filters[3]}",
            got=str(axis),
            hint="give each filter a scale",
        )
    check_slices(axis, inputs[1], inputs[4], inputs[5], "the filter")
    _check_sides(op, output, form.output[3])
    return [output]


def sum_shape(op: HasAttrs, inputs: list[Shape]) -> Shape:
    """The shape of a sum of quantised tensors, from those of the eight inputs.

    Raises:
      InvalidArgumentError: an axis does not exist.
      ShapeError: scales do not fit, or the terms do not broadcast.
      AttrError: a term has scales along another axis than the sum.
    """
    output = broadcast_shapes(inputs[0], inputs[1])
    side = op.attr("output_quantization_axis")
    check_slices(side, output, inputs[6], inputs[7], "the output")
    for position, name in enumerate(("lhs", "rhs")):
        axis, values = op.attr(f"{name}_quantization_axis"), inputs[position]
        check_slices(axis, values, inputs[2 + 2 * position], inputs[3 + 2 * position], f"the term '{name}'")
        ranks = (values.rank, output.rank)
        from_end = [None if rank is None else rank - place for rank, place in zip(ranks, (axis, side), strict=True)]
        if min(axis, side) >= 0 and None not in from_end and from_end[0] != from_end[1]:
            raise AttrError(
                f"the term '{name}' has scales along another axis than the sum",
                expected="the same axis, counted from the last",
                got=f"axis {axis} of {values}, axis {side} of {output}",
                hint="give one of them a single scale",
            )
    return output


@register_op(
    "UniformQuantizedAdd",
    inputs={"lhs": "T", "rhs": "T", **_THREE_PARAMETERS},
    outputs={"output": "T"},
    attrs={**_three_ranges(), "T": attr.type(qint32)},
)
def _add_shape(op: InferenceContext) -> list[Shape]:
    """The sum of two quantised tensors, each brought to the scale of the output first; shapes broadcast."""
    return [sum_shape(op, [spec.shape for spec in op.inputs])]
