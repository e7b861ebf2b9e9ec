"""Gradient rules of the reduction family: g, of the reduced shape, goes back to every element that took part."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.types import int64


def keep_axes(op: Operation, reduced: Tensor) -> Tensor:
    """Give a tensor of the output's shape the reduced axes back, with size 1, so that it broadcasts with the input."""
    x, axis = op.inputs
    if op.attr("keep_dims"):
        return reduced
    axes = constant_value(axis)
    if axes is None or x.shape.rank is None:
        kept: Tensor = apply_op(op.type, x, axis, **{**_own_attrs(op), "keep_dims": True})
        return apply_op("Reshape", reduced, apply_op("Shape", kept))  # type: ignore[no-any-return]
    for position in sorted(int(item) % x.shape.rank for item in axes.reshape(-1)):
        reduced = apply_op("ExpandDims", reduced, position)
    return reduced


def _own_attrs(op: Operation) -> dict[str, object]:
    return {name: op.attr(name) for name in op.op_def.attrs}


def spread(op: Operation, g: Tensor) -> Tensor:
    """g in the shape of the input, repeated along the reduced axes."""
    x = op.inputs[0]
    shape: TensorLike = list(x.shape.as_tuple()) if x.shape.is_fully_defined and x.shape.rank else apply_op("Shape", x)
    result: Tensor = apply_op("BroadcastTo", keep_axes(op, g), shape)
    return result


@register_gradient("Sum")
def _sum(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every term has the derivative 1."""
    return [spread(op, g), None]


@register_gradient("Mean")
def _mean(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every term has the derivative 1 / n; the division comes first, where there are fewer elements."""
    x, y = op.inputs[0], op.outputs[0]
    terms, results = x.shape.num_elements, y.shape.num_elements
    if terms is not None and results is not None:
        return [spread(op, g / max(terms // max(results, 1), 1)), None]
    counts = [apply_op("Size", tensor, out_type=int64) for tensor in (x, y)]
    count = apply_op("FloorDiv", counts[0], apply_op("Maximum", counts[1], 1))
    return [spread(op, g / apply_op("Cast", count, DstT=x.dtype)), None]
