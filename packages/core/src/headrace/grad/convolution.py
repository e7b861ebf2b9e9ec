"""Gradient rules of the convolutions: the three operations of a kind differentiate into each other."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []

_ATTRS = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
"""Those that there are of them: volumes have no explicit padding."""


def _register(forward: str, by_input: str, by_filter: str) -> None:
    """y = x * w is linear in x and in w, and so are its two gradients in theirs."""

    def make(op: Operation, op_type: str, *inputs: Tensor) -> Tensor:
        result: Tensor = apply_op(op_type, *inputs, **{name: op.attrs[name] for name in _ATTRS if name in op.attrs})
        return result

    def shape(tensor: Tensor) -> Tensor:
        result: Tensor = apply_op("Shape", tensor)
        return result

    @register_gradient(forward)
    def of_forward(op: Operation, g: Tensor) -> list[Tensor]:
        """g: `[batch, rows', columns', out]`."""
        x, w = op.inputs
        return [make(op, by_input, shape(x), w, g), make(op, by_filter, x, shape(w), g)]

    @register_gradient(by_input)
    def of_gradient_by_input(op: Operation, g: Tensor) -> list[Tensor | None]:
        """g has the shape of the images: it takes their place."""
        _, w, dy = op.inputs
        return [None, make(op, by_filter, g, shape(w), dy), make(op, forward, g, w)]

    @register_gradient(by_filter)
    def of_gradient_by_filter(op: Operation, g: Tensor) -> list[Tensor | None]:
        """g has the shape of the filter: it takes its place."""
        x, _, dy = op.inputs
        return [make(op, by_input, shape(x), g, dy), None, make(op, forward, x, g)]


_register("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
_register("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")
_register("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")
