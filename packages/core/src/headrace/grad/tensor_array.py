"""Gradient rules of the TensorArrayV3 family.

The gradients of an array's elements are elements of another array, `TensorArrayGradV3`: what was read is written there,
what was written is read. The gradient of a flow is the flow of that array, so that all writes to it come before its
reads. Each call of `hr.gradients` has an array of its own, by its `source`.
"""

from __future__ import annotations

from headrace.grad.backprop import gradient_source
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("TensorArrayV3", "a new array depends on no value")
no_gradient("TensorArrayGradV3", "the array of gradients is not a function of values; its elements are")
no_gradient("TensorArraySizeV3", "its output is an integer and depends on no value")
no_gradient("TensorArrayCloseV3", "it has no output")


def _gradient_array(op: Operation, flow: Tensor) -> tuple[Tensor, Tensor]:
    """The array of gradients, and the flow after which it may be used."""
    handle, after = apply_op("TensorArrayGradV3", op.inputs[0], flow, source=gradient_source())
    return handle, after


@register_gradient("TensorArrayReadV3")
def _read(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Write g where the value was read."""
    _, index, flow = op.inputs
    handle, after = _gradient_array(op, flow)
    return [None, None, apply_op("TensorArrayWriteV3", handle, index, g, after)]


@register_gradient("TensorArrayWriteV3")
def _write(op: Operation, flow: Tensor) -> list[Tensor | None]:
    """Read what was written to the gradient's element."""
    _, index, value, _ = op.inputs
    handle, after = _gradient_array(op, flow)
    gradient = apply_op("TensorArrayReadV3", handle, index, after, dtype=value.dtype)
    return [None, None, gradient if value.dtype.is_differentiable else None, flow]


@register_gradient("TensorArrayGatherV3")
def _gather(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Write the rows of g where they were read."""
    _, indices, flow = op.inputs
    handle, after = _gradient_array(op, flow)
    return [None, None, apply_op("TensorArrayScatterV3", handle, indices, g, after)]


@register_gradient("TensorArrayScatterV3")
def _scatter(op: Operation, flow: Tensor) -> list[Tensor | None]:
    """Read the rows that were written."""
    _, indices, value, _ = op.inputs
    handle, after = _gradient_array(op, flow)
    gradient = apply_op("TensorArrayGatherV3", handle, indices, after, dtype=value.dtype)
    return [None, None, gradient if value.dtype.is_differentiable else None, flow]


@register_gradient("TensorArrayConcatV3")
def _concat(op: Operation, g: Tensor, _lengths: Tensor | None) -> list[Tensor | None]:
    """Write the parts of g where they were read."""
    handle, after = _gradient_array(op, op.inputs[1])
    return [None, apply_op("TensorArraySplitV3", handle, g, op.outputs[1], after)]


@register_gradient("TensorArraySplitV3")
def _split(op: Operation, flow: Tensor) -> list[Tensor | None]:
    """The parts that were written, joined again."""
    value = op.inputs[1]
    handle, after = _gradient_array(op, flow)
    gradient, _ = apply_op("TensorArrayConcatV3", handle, after, dtype=value.dtype)
    return [None, gradient if value.dtype.is_differentiable else None, None, flow]
