"""Gradient rules of the state family: the gradient of a variable's value is that of its handle."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.indexed_slices import IndexedSlices

no_gradient("VarHandleOp", "a handle has no inputs")
for _name in (
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "ResourceScatterSub",
    "ResourceScatterAdd",
    "ResourceScatterUpdate",
    "DestroyResourceOp",
):
    no_gradient(_name, "an assignment has no output")
no_gradient("DisableCopyOnRead", "it has no output")
no_gradient("VarIsInitializedOp", "its output is a bool")
no_gradient("VariableShape", "its output is an integer shape")


@register_gradient("ReadVariableOp", sparse=True)
def _read(op: Operation, g: Tensor) -> list[Tensor]:
    """The value read is the variable itself."""
    return [g]


@register_gradient("ResourceGather")
def _resource_gather(op: Operation, g: Tensor) -> list[IndexedSlices | None]:
    """Only the rows that were read get a gradient; g: `[indices..., row...]`."""
    handle, indices = op.inputs
    shape: Tensor = apply_op("VariableShape", handle)
    row_shape: Tensor = apply_op("StridedSlice", shape, [1], [0], [1], begin_mask=0, end_mask=1)
    count: Tensor = apply_op("Size", indices)
    values_shape: Tensor = apply_op("ConcatV2", [apply_op("ExpandDims", count, 0), row_shape], 0)
    values: Tensor = apply_op("Reshape", g, values_shape)
    flat: Tensor = apply_op("Reshape", indices, apply_op("ExpandDims", count, 0))
    return [IndexedSlices(values, flat, shape), None]
