"""Quantisation (`hr.quantization`): values rounded to what few bits can hold, while they stay floating.

Training with these in place makes a model that loses little when its weights and activations are stored as integers.
"""

from __future__ import annotations

from typing import Any

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.quantized import dequantize, quantize
from headrace.ops.shapes import check_scalar
from headrace.types import Shape

__all__ = ["dequantize", "fake_quant", "quantize", "quantize_and_dequantize"]

_BITS = {"num_bits": attr.int(8), "narrow_range": attr.bool(False)}


def check_bits(op: Any) -> None:
    """Raise InvalidArgumentError unless `num_bits` of a fake quantisation is 2 to 16."""
    if not 2 <= op.attr("num_bits") <= 16:
        raise InvalidArgumentError(
            "num_bits is out of range",
            expected="2 to 16",
            got=str(op.attr("num_bits")),
            hint="hr.quantization.quantize_and_dequantize takes other numbers of bits",
        )


@register_op(
    "FakeQuantWithMinMaxVars",
    inputs={"inputs": "float32", "min": "float32", "max": "float32"},
    outputs={"outputs": "float32"},
    attrs=_BITS,
)
def _fake_quant_shape(op: InferenceContext) -> list[Shape]:
    """The inputs rounded to 2**num_bits values between min and max, which move so that 0 is one of them."""
    check_bits(op)
    check_scalar(op.inputs[1].shape, "min")
    check_scalar(op.inputs[2].shape, "max")
    return [op.inputs[0].shape]


@register_op(
    "FakeQuantWithMinMaxVarsGradient",
    inputs={"gradients": "float32", "inputs": "float32", "min": "float32", "max": "float32"},
    outputs={
        "backprops_wrt_input": "float32",
        "backprop_wrt_min": "float32",
        "backprop_wrt_max": "float32",
    },
    attrs=_BITS,
)
def _fake_quant_gradient_shape(op: InferenceContext) -> list[Shape]:
    """The gradients of `FakeQuantWithMinMaxVars`: inputs inside the range pass theirs on, others to min or max."""
    check_bits(op)
    gradients, inputs = op.inputs[0].shape, op.inputs[1].shape
    if not gradients.is_compatible_with(inputs):
        raise ShapeError(
            "the gradients do not fit the inputs",
            expected=str(inputs),
            got=str(gradients),
            hint="pass the gradient by the outputs, element for element",
        )
    check_scalar(op.inputs[2].shape, "min")
    check_scalar(op.inputs[3].shape, "max")
    return [gradients.merge(inputs), Shape([]), Shape([])]


@register_op(
    "FakeQuantWithMinMaxArgs",
    inputs={"inputs": "float32"},
    outputs={"outputs": "float32"},
    attrs={"min": attr.float(-6.0), "max": attr.float(6.0), **_BITS},
)
def _fake_quant_args_shape(op: InferenceContext) -> list[Shape]:
    """As `FakeQuantWithMinMaxVars` with a fixed range."""
    check_bits(op)
    if not op.attr("min") < op.attr("max"):
        raise InvalidArgumentError(
            "the range is empty",
            expected="min < max",
            got=f"{op.attr('min')}, {op.attr('max')}",
            hint="swap the two, or widen the range",
        )
    return [op.inputs[0].shape]


def check_channels(inputs: Shape, *bounds: Shape) -> Shape:
    """The shape `[channels]` of what goes with the last axis of the inputs.

    Raises:
      ShapeError: there is no last axis, or a bound has another length.
    """
    if inputs.rank == 0:
        raise ShapeError(
            "there is no axis of channels",
            expected="rank >= 1",
            got=str(inputs),
            hint="FakeQuantWithMinMaxVars takes one range for the whole tensor",
        )
    vector = Shape([None if inputs.dims is None else inputs.dims[-1]])
    for bound in bounds:
        if not vector.is_compatible_with(bound):
            raise ShapeError(
                "the bounds do not fit the channels",
                expected=f"one for each channel, {vector}",
                got=str(bound),
                hint="the channels are the last axis",
            )
        vector = vector.merge(bound)
    return vector


@register_op(
    "FakeQuantWithMinMaxVarsPerChannel",
    inputs={"inputs": "float32", "min": "float32", "max": "float32"},
    outputs={"outputs": "float32"},
    attrs=_BITS,
)
def _fake_quant_per_channel_shape(op: InferenceContext) -> list[Shape]:
    """As `FakeQuantWithMinMaxVars` with one range for each channel, the last axis."""
    check_bits(op)
    check_channels(*(spec.shape for spec in op.inputs))
    return [op.inputs[0].shape]


@register_op(
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    inputs={"gradients": "float32", "inputs": "float32", "min": "float32", "max": "float32"},
    outputs={
        "backprops_wrt_input": "float32",
        "backprop_wrt_min": "float32",
        "backprop_wrt_max": "float32",
    },
    attrs=_BITS,
)
def _fake_quant_per_channel_gradient_shape(op: InferenceContext) -> list[Shape]:
    """The gradients of `FakeQuantWithMinMaxVarsPerChannel`."""
    check_bits(op)
    shape = op.inputs[0].shape.merge(op.inputs[1].shape)
    vector = check_channels(shape, op.inputs[2].shape, op.inputs[3].shape)
    return [shape, vector, vector]


@register_op(
    "QuantizeAndDequantizeV3",
    inputs={"input": "T", "input_min": "T", "input_max": "T", "num_bits": "int32"},
    outputs={"output": "T"},
    attrs={
        "signed_input": attr.bool(True),
        "range_given": attr.bool(True),
        "T": attr.floating,
        "narrow_range": attr.bool(False),
        "axis": attr.int(-1),
    },
)
def _quantize_shape(op: InferenceContext) -> list[Shape]:
    """The input rounded to multiples of one number that num_bits can count, halves to even; one per slice of axis."""
    given = op.inputs[0].shape
    size = channels(op, given)
    for index, what in ((1, "input_min"), (2, "input_max")):
        found = op.inputs[index].shape
        if op.attr("range_given") and not found.is_compatible_with(size):
            raise ShapeError(
                f"{what} does not fit the input",
                expected=str(size),
                got=str(found),
                hint="one bound for each slice along axis, or a scalar without axis",
            )
    check_scalar(op.inputs[3].shape, "num_bits")
    return [given]


def channels(op: Any, given: Shape) -> Shape:
    """The shape that bounds of the range have: a scalar, or one for each slice along `axis`.

    Raises:
      InvalidArgumentError: there is no such axis.
    """
    axis = op.attr("axis")
    if axis == -1:
        return Shape([])
    if axis < -1 or (given.rank is not None and axis >= given.rank):
        raise InvalidArgumentError(
            "there is no such axis",
            expected=f"-1, or an axis of {given}",
            got=str(axis),
            hint="add the rank to a negative axis; axis -1 means one range for the whole tensor",
        )
    return Shape([None if given.dims is None else given.dims[axis]])


def fake_quant(
    x: TensorLike,
    low: TensorLike,
    high: TensorLike,
    *,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Values rounded to what an integer of few bits can hold, for training that foresees it.

    Args:
      x: float32, any shape.
      low: float32 scalar, often a Variable: the lowest value. Both ends move a little so that 0 is a step. A vector has
        one for each channel, the last axis.
      high: float32 scalar, or a vector as `low`: the highest value.
      num_bits: 2 to 16.
      narrow_range: leave out the lowest step, so that the range is symmetric.
      name: the operation's name.
    Returns:
      float32 of x's shape. Its gradient is passed on where x is in the range, else to the end that x is beyond.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.quantization.fake_quant([-1.0, 0.4, 0.6, 9.0], 0.0, 3.0, num_bits=2)
      >>> print(hr.Session(graph).run(y))
      [0. 0. 1. 3.]
    """
    attrs = {"num_bits": num_bits, "narrow_range": narrow_range}
    bounds = [convert_to_tensor(item) for item in (low, high)]
    per_channel = any(bound.shape.rank == 1 for bound in bounds)
    op_type = "FakeQuantWithMinMaxVarsPerChannel" if per_channel else "FakeQuantWithMinMaxVars"
    result: Tensor = apply_op(op_type, x, *bounds, **attrs, name=name)
    return result


def quantize_and_dequantize(
    x: TensorLike,
    low: TensorLike | None = None,
    high: TensorLike | None = None,
    *,
    num_bits: TensorLike = 8,
    signed: bool = True,
    narrow_range: bool = False,
    axis: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Values rounded to multiples of one number, as many as fit num_bits: what integers with a scale can hold.

    Args:
      x: floating, any shape.
      low: the lowest value, of x's dtype, scalar or one for each slice along axis; by default the least of x.
      high: the highest value; give both or neither.
      num_bits: int32 scalar, at least 1.
      signed: the integers are signed.
      narrow_range: leave out the lowest integer, so that the range is symmetric.
      axis: every slice along this axis has its own number.
      name: the operation's name.
    Returns:
      The same dtype and shape. Its gradient is passed on as if nothing had been rounded.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.quantization.quantize_and_dequantize([-4.0, 0.4, 1.0, 9.0], -4.0, 3.0, num_bits=3)
      >>> print(hr.Session(graph).run(y))
      [-4.  0.  1.  3.]
    """
    if (low is None) != (high is None):
        raise InvalidArgumentError(
            "half of a range is given",
            expected="both low and high, or neither",
            got="one",
            hint="take hr.min(x) or hr.max(x) for the other one",
        )
    tensor = convert_to_tensor(x)
    bounds = [0.0, 0.0] if low is None else [low, high]
    given = [item if hasattr(item, "dtype") else convert_to_tensor(item, tensor.dtype) for item in bounds]
    attrs = {"signed_input": signed, "range_given": low is not None, "narrow_range": narrow_range}
    result: Tensor = apply_op(
        "QuantizeAndDequantizeV3", tensor, *given, convert_to_tensor(num_bits, types.int32),
        axis=-1 if axis is None else axis, **attrs, name=name,
    )  # fmt: skip
    return result
