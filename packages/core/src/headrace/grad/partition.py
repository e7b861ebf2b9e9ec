"""Gradient rules of Part and Stitch: each is undone by the other."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


@register_gradient("DynamicPartition")
def _dynamic_partition(op: Operation, *gs: Tensor) -> list[Tensor | None]:
    """The rows put back where they came from: the numbers of the rows, distributed in the same way, say where."""
    data, partitions = op.inputs
    numbers = apply_op("Reshape", apply_op("Range", 0, apply_op("Size", partitions), 1), apply_op("Shape", partitions))
    places = apply_op("DynamicPartition", numbers, partitions, num_partitions=op.attr("num_partitions"))
    stitched = apply_op("DynamicStitch", list(places), list(gs))
    return [apply_op("Reshape", stitched, apply_op("Shape", data)), None]


@register_gradient("DynamicStitch")
def _dynamic_stitch(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each row reads its gradient from its place; a row that a later one replaced gets nothing."""
    count = op.attr("N")
    indices, data = op.inputs[:count], op.inputs[count:]
    start = apply_op("Fill", [], 0)
    numbers: list[Tensor] = []
    for places in indices:
        end = apply_op("AddV2", start, apply_op("Size", places))
        numbers.append(apply_op("Reshape", apply_op("Range", start, end, 1), apply_op("Shape", places)))
        start = end
    winners = apply_op("DynamicStitch", list(indices), numbers)
    results: list[Tensor | None] = [None] * count
    for places, own, values in zip(indices, numbers, data, strict=True):
        rows = apply_op("GatherV2", g, places, 0)
        counts = apply_op("Equal", apply_op("GatherV2", winners, places, 0), own)
        mask = _as_tall(counts, places, values)
        results.append(apply_op("SelectV2", mask, rows, apply_op("ZerosLike", rows)))
    return results


def _as_tall(mask: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """The mask with axes of size 1 for those of a row, so that it applies to whole rows."""
    extra = apply_op("Sub", apply_op("Rank", values), apply_op("Rank", places))
    ones = apply_op("Fill", apply_op("ExpandDims", extra, 0), 1)
    tall: Tensor = apply_op("Reshape", mask, apply_op("ConcatV2", [apply_op("Shape", places), ones], 0))
    return tall
