"""Arithmetic on quantised tensors: few-bit integers, and beside them the range of real numbers for which they stand.

A tensor of dtype quint8, qint8, quint16, qint16 or qint32 goes with two float32 scalars: what its lowest and highest
integer mean. Graphs of TensorFlow hold such operations; `hr.quantization` also has ones that stay floating.
"""

from __future__ import annotations

from headrace.errors import AttrError, InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.convolution import convolution_shape
from headrace.ops.shapes import check_scalar
from headrace.types import (
    QUANTIZED,
    DTypeLike,
    Shape,
    as_dtype,
    bfloat16,
    float32,
    qint32,
    quint8,
)

__all__ = ["ConvolutionAttrs", "bounds_shape", "dequantize", "product_shape", "quantize"]

_TYPE = attr.type(*QUANTIZED)
_TO_INT32 = AttrSpec("type", default=qint32, allowed=QUANTIZED)
_TO_UINT8 = AttrSpec("type", default=quint8, allowed=QUANTIZED)
_SCALAR = Shape([])
_MODE = attr.string("MIN_COMBINED", allowed=["MIN_COMBINED", "MIN_FIRST", "SCALED"])


def bounds_shape(op: HasAttrs, values: Shape) -> Shape:
    """The shape of the two ends of the range: scalars, or one for each slice along `axis`.

    Raises:
      InvalidArgumentError: there is no such axis.
    """
    axis = int(op.attr("axis"))
    if axis == -1:
        return _SCALAR
    if axis < -1 or (values.rank is not None and axis >= values.rank):
        raise InvalidArgumentError(
            "there is no such axis",
            expected=f"-1, or an axis of {values}",
            got=str(axis),
            hint="axis -1 means one range for the whole tensor",
        )
    return Shape([None if values.dims is None else values.dims[axis]])


def _check_bounds(op: InferenceContext, values: Shape) -> Shape:
    wanted = bounds_shape(op, values)
    for index in (1, 2):
        if not op.inputs[index].shape.is_compatible_with(wanted):
            raise ShapeError(
                "an end of the range has the wrong shape",
                expected=str(wanted),
                got=str(op.inputs[index].shape),
                hint="a scalar, or with axis one for each slice along it",
            )
    return wanted


def _check_scalars(op: InferenceContext, first: int) -> None:
    """The ends of the ranges of all inputs are scalars."""
    for spec in op.inputs[first:]:
        check_scalar(spec.shape, "an end of the range")


@register_op(
    "QuantizeV2",
    inputs={"input": "float32", "min_range": "float32", "max_range": "float32"},
    outputs={"output": "T", "output_min": "float32", "output_max": "float32"},
    attrs={
        "T": _TYPE,
        "mode": _MODE,
        "round_mode": attr.string("HALF_AWAY_FROM_ZERO", allowed=["HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN"]),
        "narrow_range": attr.bool(False),
        "axis": attr.int(-1),
        "ensure_minimum_range": attr.float(0.01),
    },
)
def _quantize_shape(op: InferenceContext) -> list[Shape]:
    """Numbers as the nearest steps of a range, and the range that came of it: it contains 0 and is not too narrow.

    MIN_COMBINED spreads the integers over the range; MIN_FIRST moves it so that 0 is a step; SCALED multiplies by one
    number, so that 0 is 0.
    """
    ends = _check_bounds(op, op.inputs[0].shape)
    if op.attr("round_mode") == "HALF_TO_EVEN" and op.attr("mode") != "SCALED":
        raise AttrError(
            "halves are rounded to even in mode SCALED only",
            expected="round_mode HALF_AWAY_FROM_ZERO",
            got="HALF_TO_EVEN",
            hint="mode='SCALED'",
        )
    return [op.inputs[0].shape, ends, ends]


@register_op(
    "Dequantize",
    inputs={"input": "T", "min_range": "float32", "max_range": "float32"},
    outputs={"output": "dtype"},
    attrs={
        "T": _TYPE,
        "mode": _MODE,
        "narrow_range": attr.bool(False),
        "axis": attr.int(-1),
        "dtype": AttrSpec("type", default=float32, allowed=(bfloat16, float32)),
    },
)
def _dequantize_shape(op: InferenceContext) -> list[Shape]:
    """The numbers for which quantised ones stand; the modes are those of QuantizeV2."""
    _check_bounds(op, op.inputs[0].shape)
    return [op.inputs[0].shape]


_RANGES = ("min_a", "max_a", "min_b", "max_b")


@register_op(
    "QuantizedMatMul",
    inputs={"a": "T1", "b": "T2", **dict.fromkeys(_RANGES, "float32")},
    outputs={"out": "Toutput", "min_out": "float32", "max_out": "float32"},
    attrs={
        "T1": _TYPE,
        "T2": _TYPE,
        "Toutput": _TO_INT32,
        "transpose_a": attr.bool(False),
        "transpose_b": attr.bool(False),
        "Tactivation": _TO_UINT8,
    },
)
def _quantized_matmul_shape(op: InferenceContext) -> list[Shape]:
    """The product of two quantised matrices, in integers, and what the lowest and the highest qint32 mean in it."""
    _check_scalars(op, 2)
    return [product_shape(op, op.inputs[0].shape, op.inputs[1].shape), _SCALAR, _SCALAR]


def product_shape(op: HasAttrs, a: Shape, b: Shape) -> Shape:
    """The shape of a matrix product under the attributes `transpose_a` and `transpose_b`.

    Raises:
      ShapeError: the sizes in the middle differ.
    """
    rows, inner = a.with_rank(2) if not op.attr("transpose_a") else tuple(a.with_rank(2))[::-1]
    other, columns = b.with_rank(2) if not op.attr("transpose_b") else tuple(b.with_rank(2))[::-1]
    if not Shape([inner]).is_compatible_with(Shape([other])):
        raise ShapeError(
            "the matrices do not fit each other",
            expected=f"{inner} rows of b",
            got=str(other),
            hint="transpose_b=True if b lies the other way round",
        )
    return Shape([rows, columns])


class ConvolutionAttrs:
    """A quantised convolution seen as a plain one: it has no attributes for explicit padding and the data format.

    Args:
      op: the operation.
    """

    def __init__(self, op: HasAttrs) -> None:
        self._op = op

    def attr(self, name: str) -> object:
        """The value of an attribute."""
        fixed = {"data_format": "NHWC", "explicit_paddings": ()}
        return fixed[name] if name in fixed else self._op.attr(name)


@register_op(
    "QuantizedConv2D",
    inputs={
        "input": "Tinput",
        "filter": "Tfilter",
        **dict.fromkeys(("min_input", "max_input", "min_filter", "max_filter"), "float32"),
    },
    outputs={"output": "out_type", "min_output": "float32", "max_output": "float32"},
    attrs={
        "Tinput": _TYPE,
        "Tfilter": _TYPE,
        "out_type": _TO_INT32,
        "strides": attr.list_of(attr.int()),
        "padding": attr.string(allowed=["SAME", "VALID"]),
        "dilations": attr.list_of(attr.int(), (1, 1, 1, 1)),
    },
)
def _quantized_conv2d_shape(op: InferenceContext) -> list[Shape]:
    """The convolution of quantised images, in integers, with padding that stands for 0; the range as in a product."""
    _check_scalars(op, 2)
    return [convolution_shape(ConvolutionAttrs(op), op.inputs[0].shape, op.inputs[1].shape), _SCALAR, _SCALAR]


@register_op(
    "QuantizedBiasAdd",
    inputs={
        "input": "T1",
        "bias": "T2",
        **dict.fromkeys(("min_input", "max_input", "min_bias", "max_bias"), "float32"),
    },
    outputs={"output": "out_type", "min_out": "float32", "max_out": "float32"},
    attrs={"T1": _TYPE, "T2": _TYPE, "out_type": _TYPE},
)
def _quantized_bias_add_shape(op: InferenceContext) -> list[Shape]:
    """A bias for each channel added, in a range that has room for the sums of both."""
    _check_scalars(op, 2)
    values, bias = op.inputs[0].shape, op.inputs[1].shape.with_rank(1)
    last = Shape([None if values.dims is None else values.dims[-1] if values.dims else 0])
    if not last.is_compatible_with(bias):
        raise ShapeError(
            "the bias does not fit the channels",
            expected=str(last),
            got=str(bias),
            hint="the channels are the last axis",
        )
    return [values, _SCALAR, _SCALAR]


@register_op(
    "QuantizedRelu",
    inputs={"features": "Tinput", "min_features": "float32", "max_features": "float32"},
    outputs={"activations": "out_type", "min_activations": "float32", "max_activations": "float32"},
    attrs={"Tinput": _TYPE, "out_type": _TO_UINT8},
)
def _quantized_relu_shape(op: InferenceContext) -> list[Shape]:
    """The larger of each number and 0, in the same range."""
    _check_scalars(op, 1)
    return [op.inputs[0].shape, _SCALAR, _SCALAR]


@register_op(
    "RequantizationRange",
    inputs={"input": "Tinput", "input_min": "float32", "input_max": "float32"},
    outputs={"output_min": "float32", "output_max": "float32"},
    attrs={"Tinput": _TYPE},
)
def _requantization_range_shape(op: InferenceContext) -> list[Shape]:
    """The least (at most 0) and the largest number that a quantised tensor holds: the range to requantise it to."""
    _check_scalars(op, 1)
    return [_SCALAR, _SCALAR]


@register_op(
    "Requantize",
    inputs={
        "input": "Tinput",
        **dict.fromkeys(("input_min", "input_max", "requested_output_min", "requested_output_max"), "float32"),
    },
    outputs={"output": "out_type", "output_min": "float32", "output_max": "float32"},
    attrs={"Tinput": _TYPE, "out_type": _TYPE},
)
def _requantize_shape(op: InferenceContext) -> list[Shape]:
    """The same numbers in integers of fewer bits and another range."""
    _check_scalars(op, 1)
    return [op.inputs[0].shape, _SCALAR, _SCALAR]


def quantize(
    x: TensorLike,
    low: TensorLike,
    high: TensorLike,
    dtype: DTypeLike = quint8,
    *,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers as few-bit integers that stand for the steps of a range.

    Args:
      x: float32, any shape.
      low: float32 scalar, the lower end of the range; 0 is always in it.
      high: float32 scalar, the upper end.
      dtype: quint8, qint8, quint16, qint16 or qint32.
      mode: `"MIN_COMBINED"`, `"MIN_FIRST"` or `"SCALED"`, see the operation QuantizeV2.
      name: the operation's name.
    Returns:
      The integers, and the two ends of the range for which they stand.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.quantization.dequantize(*hr.quantization.quantize([-1.0, 0.3, 9.0], 0.0, 2.55))
      >>> print(hr.Session(graph).run(y).round(3))
      [0.   0.3  2.55]
    """
    ends = [convert_to_tensor(item, float32) for item in (low, high)]
    output, least, most = apply_op(
        "QuantizeV2", convert_to_tensor(x, float32), *ends, T=as_dtype(dtype), mode=mode, name=name
    )
    return output, least, most


def dequantize(
    x: Tensor, low: TensorLike, high: TensorLike, *, mode: str = "MIN_COMBINED", name: str | None = None
) -> Tensor:
    """The numbers for which quantised ones stand.

    Args:
      x: quint8, qint8, quint16, qint16 or qint32, any shape.
      low: float32 scalar, the number of the lowest integer.
      high: float32 scalar, that of the highest.
      mode: the mode in which they were quantised.
      name: the operation's name.
    Returns:
      float32 of the same shape.
    """
    ends = [convert_to_tensor(item, float32) for item in (low, high)]
    result: Tensor = apply_op("Dequantize", x, *ends, mode=mode, name=name)
    return result
