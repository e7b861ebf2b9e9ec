"""Gradient rules of operations that find elements."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

for _name in ("Unique", "UniqueWithCounts", "ListDiff"):
    no_gradient(_name, "which elements are equal is not a smooth function of them")
no_gradient("InTopK", "its output is a bool")


@register_gradient("TopKV2")
def _top_k(op: Operation, g: Tensor, g_indices: Tensor | None) -> list[Tensor | None]:
    """Each element that was taken gets its part of g: with rows laid end to end, g goes to `row * size + index`."""
    x, indices = op.inputs[0], op.outputs[1]
    if indices.dtype.size != 4:
        indices = apply_op("Cast", indices, DstT="int32")
    shape = apply_op("Shape", x)
    size = apply_op("StridedSlice", shape, [-1], [0], [1], shrink_axis_mask=1)
    count = apply_op("StridedSlice", apply_op("Shape", indices), [-1], [0], [1], shrink_axis_mask=1)
    total = apply_op("Size", x)
    rows = apply_op("Prod", apply_op("StridedSlice", shape, [0], [-1], [1]), [0])
    starts = apply_op("ExpandDims", apply_op("Mul", apply_op("Range", 0, rows, 1), size), 1)
    flat = apply_op("AddV2", apply_op("Reshape", indices, apply_op("Pack", [rows, count])), starts)
    places = apply_op("Reshape", flat, apply_op("Pack", [apply_op("Mul", rows, count), 1]))
    scattered = apply_op("ScatterNd", places, apply_op("Reshape", g, [-1]), apply_op("ExpandDims", total, 0))
    return [apply_op("Reshape", scattered, shape), None]


@register_gradient("NthElement")
def _nth_element(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The element that was taken gets g; several that are equal to it share it."""
    x, y = op.inputs[0], op.outputs[0]
    equal = apply_op("Cast", apply_op("Equal", x, apply_op("ExpandDims", y, -1)), DstT=x.dtype)
    share = apply_op("RealDiv", g, apply_op("Sum", equal, [-1]))
    return [apply_op("Mul", equal, apply_op("ExpandDims", share, -1)), None]
