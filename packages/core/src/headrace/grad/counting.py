"""Gradient rules of operations that count."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("HistogramFixedWidth", "counts are integers")
for _name in ("DenseBincount", "RaggedBincount", "SparseBincount"):
    no_gradient(_name, "TensorFlow has none either; Bincount has one")
no_gradient("Bucketize", "its output is an integer")


@register_gradient("Bincount")
def _bincount(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each weight was added to one sum if its number was counted; a zero behind g stands for those that were not."""
    numbers, size, weights = op.inputs
    if weights.shape.num_elements == 0:
        return [None, None, apply_op("ZerosLike", weights)]
    extended = apply_op("Pad", g, [[0, 1]])
    picked = apply_op("GatherV2", extended, apply_op("Minimum", numbers, size), 0)
    if weights.shape.is_fully_defined:
        return [None, None, picked]
    kept = apply_op(
        "Slice", apply_op("Reshape", picked, [-1]), [0], apply_op("ExpandDims", apply_op("Size", weights), 0)
    )
    return [None, None, apply_op("Reshape", kept, apply_op("Shape", weights))]
