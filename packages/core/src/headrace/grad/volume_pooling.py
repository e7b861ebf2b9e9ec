"""Gradient rules of the pooling of volumes."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.attr import AttrValue
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []


def _attrs(op: Operation) -> dict[str, AttrValue]:
    return {name: op.attrs[name] for name in ("ksize", "strides", "padding", "data_format")}


@register_gradient("MaxPool3D")
def _max_pool3d(op: Operation, g: Tensor) -> list[Tensor]:
    """g: `[batch, depth', rows', columns', channels]`, to the first largest value of each window."""
    return [apply_op("MaxPool3DGrad", op.inputs[0], op.outputs[0], g, **_attrs(op))]


@register_gradient("MaxPool3DGrad")
def _max_pool3d_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Linear in its gradient; which value is the largest does not change with a small change of the volumes."""
    x, y, _ = op.inputs
    if x.dtype is not g.dtype:
        x, y = (apply_op("Cast", item, DstT=g.dtype) for item in (x, y))
    return [None, None, apply_op("MaxPool3DGradGrad", x, y, g, **_attrs(op))]


@register_gradient("MaxPool3DGradGrad")
def _max_pool3d_grad_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """It picks values of its gradient; the gradient of that puts them back."""
    x, y, _ = op.inputs
    return [None, None, apply_op("MaxPool3DGrad", x, y, g, **_attrs(op))]


@register_gradient("AvgPool3D")
def _avg_pool3d(op: Operation, g: Tensor) -> list[Tensor]:
    """g: `[batch, depth', rows', columns', channels]`, in equal parts to the inputs of each window."""
    return [apply_op("AvgPool3DGrad", apply_op("Shape", op.inputs[0]), g, **_attrs(op))]


@register_gradient("AvgPool3DGrad")
def _avg_pool3d_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The transpose of a mean over windows is the mean over windows."""
    return [None, apply_op("AvgPool3D", g, **_attrs(op))]
