"""Gradient rules of pooling."""

from __future__ import annotations

import math

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.attr import AttrValue
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []


def _attrs(op: Operation, *, explicit: bool = False) -> dict[str, AttrValue]:
    names = ["ksize", "strides", "padding", "data_format", *(["explicit_paddings"] if explicit else [])]
    return {name: op.attrs[name] for name in names}


@register_gradient("MaxPool")
def _max_pool(op: Operation, g: Tensor) -> list[Tensor]:
    """g: `[batch, rows', columns', channels]`, to the first largest value of each window."""
    return [apply_op("MaxPoolGrad", op.inputs[0], op.outputs[0], g, **_attrs(op, explicit=True))]


@register_gradient("MaxPoolGrad")
def _max_pool_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Linear in its gradient; which value is the largest does not change with a small change of the images."""
    x, y, _ = op.inputs
    attrs = _attrs(op)
    if attrs["padding"] == "EXPLICIT":
        x, g = _padded(op, x, -math.inf), _padded(op, g, 0)
        attrs["padding"] = "VALID"
    return [None, None, apply_op("MaxPoolGradGrad", x, y, g, **attrs)]


def _padded(op: Operation, images: Tensor, value: AttrValue) -> Tensor:
    """The images with their explicit padding made real: MaxPoolGradGrad has no attribute for it."""
    pads = op.attrs["explicit_paddings"]
    pairs = [list(pads[i : i + 2]) for i in range(0, 8, 2)]
    result: Tensor = apply_op("PadV2", images, pairs, value)
    return result


@register_gradient("MaxPoolGradGrad")
def _max_pool_grad_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """It picks values of its gradient; the gradient of that puts them back."""
    x, y, _ = op.inputs
    return [None, None, apply_op("MaxPoolGrad", x, y, g, **_attrs(op))]


def _argmax_attrs(op: Operation) -> dict[str, AttrValue]:
    return {name: op.attrs[name] for name in ("ksize", "strides", "padding", "include_batch_in_index")}


@register_gradient("MaxPoolWithArgmax")
def _max_pool_with_argmax(op: Operation, g: Tensor, _: Tensor | None) -> list[Tensor]:
    """g: `[batch, rows', columns', channels]`, to the places that the operation gave."""
    return [apply_op("MaxPoolGradWithArgmax", op.inputs[0], g, op.outputs[1], **_argmax_attrs(op))]


@register_gradient("MaxPoolGradWithArgmax")
def _max_pool_grad_with_argmax(op: Operation, g: Tensor) -> list[Tensor | None]:
    """It puts values at places; the gradient of that takes them from there."""
    x, _, places = op.inputs
    return [None, apply_op("MaxPoolGradGradWithArgmax", x, g, places, **_argmax_attrs(op)), None]


@register_gradient("MaxPoolGradGradWithArgmax")
def _max_pool_grad_grad_with_argmax(op: Operation, g: Tensor) -> list[Tensor | None]:
    """It takes values from places; the gradient of that puts them back."""
    x, _, places = op.inputs
    return [None, apply_op("MaxPoolGradWithArgmax", x, g, places, **_argmax_attrs(op)), None]


@register_gradient("AvgPool")
def _avg_pool(op: Operation, g: Tensor) -> list[Tensor]:
    """g: `[batch, rows', columns', channels]`, in equal parts to the inputs of each window."""
    return [apply_op("AvgPoolGrad", apply_op("Shape", op.inputs[0]), g, **_attrs(op))]


@register_gradient("AvgPoolGrad")
def _avg_pool_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The transpose of a mean over windows is the mean over windows."""
    return [None, apply_op("AvgPool", g, **_attrs(op))]
