"""Operations on variables, which are reached through handles (paper, section 3.1).

A `VarHandleOp` yields the handle of a variable; reads, assignments and updates take it. The user's view of them is
`hr.Variable`.
"""

from __future__ import annotations

from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Shape, TensorSpec

__all__ = ["check_gather", "check_scatter"]


def _variable(op: InferenceContext) -> TensorSpec:
    """The spec of the variable behind input 0; the dtype the operation states must be the variable's."""
    known = op.variable_spec(0)
    stated = op.attr("dtype")
    if known is None:
        return TensorSpec(stated, Shape())
    if known.dtype is not stated:
        raise DTypeError(
            "the variable has another dtype",
            expected=str(known.dtype),
            got=str(stated),
            hint="hr.astype(value, variable.dtype); a read states dtype=variable.dtype",
        )
    return known


def _check_fits(variable: Shape, value: Shape) -> None:
    if not variable.is_compatible_with(value):
        raise ShapeError(
            "the value does not fit the variable",
            expected=str(variable),
            got=str(value),
            hint="hr.broadcast_to the value, or make the variable with shape=[None, ...] if sizes change",
        )


@register_op(
    "VarHandleOp",
    outputs={"resource": "resource"},
    attrs={
        "container": attr.string(""),
        "shared_name": attr.string(""),
        "dtype": attr.any_type,
        "shape": attr.shape(),
        "allowed_devices": attr.list_of(attr.string(), ()),
    },
    stateful=True,
    reads_only=True,
)
def _var_handle_shape(op: InferenceContext) -> list[Shape]:
    """The handle of the variable named `shared_name` in `container`."""
    return [Shape([])]


@register_op(
    "ReadVariableOp",
    inputs={"resource": "resource"},
    outputs={"value": "dtype"},
    attrs={"dtype": attr.any_type},
    stateful=True,
    reads_only=True,
)
def _read_shape(op: InferenceContext) -> list[Shape]:
    """The whole value of a variable, as it was at one moment."""
    return [_variable(op).shape]


@register_op(
    "AssignVariableOp",
    inputs={"resource": "resource", "value": "dtype"},
    attrs={"dtype": attr.any_type, "validate_shape": attr.bool(False)},
    stateful=True,
)
def _assign_shape(op: InferenceContext) -> list[Shape]:
    """Replaces the value of a variable."""
    _check_fits(_variable(op).shape, op.inputs[1].shape)
    return []


@register_op(
    "AssignAddVariableOp",
    inputs={"resource": "resource", "value": "dtype"},
    attrs={"dtype": attr.numeric},
    stateful=True,
)
def _assign_add_shape(op: InferenceContext) -> list[Shape]:
    """Adds to a variable; the update is atomic."""
    _check_fits(_variable(op).shape, op.inputs[1].shape)
    return []


@register_op(
    "AssignSubVariableOp",
    inputs={"resource": "resource", "value": "dtype"},
    attrs={"dtype": attr.numeric},
    stateful=True,
)
def _assign_sub_shape(op: InferenceContext) -> list[Shape]:
    """Subtracts from a variable; the update is atomic."""
    _check_fits(_variable(op).shape, op.inputs[1].shape)
    return []


@register_op(
    "ResourceGather",
    inputs={"resource": "resource", "indices": "Tindices"},
    outputs={"output": "dtype"},
    attrs={
        "batch_dims": attr.int(0, minimum=0),
        "validate_indices": attr.bool(True),
        "dtype": attr.any_type,
        "Tindices": attr.index_type,
    },
    stateful=True,
    reads_only=True,
)
def _resource_gather_shape(op: InferenceContext) -> list[Shape]:
    """Rows of a variable, `[indices..., row...]`, without reading the rest of it."""
    variable, indices = _variable(op).shape, op.inputs[1].shape
    batch = op.attr("batch_dims")
    if variable.dims is None or indices.dims is None:
        return [Shape()]
    check_gather(variable, indices, batch)
    return [Shape((*variable.dims[:batch], *indices.dims[batch:], *variable.dims[batch + 1 :]))]


def check_gather(variable: Shape, indices: Shape, batch: int) -> None:
    """Raise ShapeError unless both have `batch` leading axes in common and the variable has one more; ranks known."""
    if len(variable) <= batch or len(indices) < batch:
        raise ShapeError(
            "batch_dims is too large",
            expected=f"below the rank of {variable}",
            got=str(batch),
            hint="count the leading axes that variable and indices share; 0 picks rows of the whole",
        )
    lead = Shape(list(variable)[:batch])
    if not lead.is_compatible_with(Shape(list(indices)[:batch])):
        raise ShapeError(
            "the indices do not share the batch axes of the variable",
            expected=f"a shape that begins with {lead}",
            got=str(indices),
            hint="give indices for each item of the batch; batch_dims=0 picks rows of the whole",
        )


def _scatter_shape(op: InferenceContext) -> list[Shape]:
    check_scatter(_variable(op).shape, op.inputs[1].shape, op.inputs[2].shape)
    return []


def check_scatter(variable: Shape, indices: Shape, updates: Shape) -> None:
    """Raise ShapeError unless the variable has rows, and the updates are a scalar or a row for each index."""
    if variable.rank == 0:
        raise ShapeError(
            "a scalar variable has no rows",
            expected="rank >= 1",
            got=str(variable),
            hint="change it whole, with Variable.assign, assign_add or assign_sub",
        )
    if variable.dims is not None and indices.dims is not None and updates.rank != 0:
        _check_fits(Shape((*indices.dims, *variable.dims[1:])), updates)


_SCATTER_INPUTS = {"resource": "resource", "indices": "Tindices", "updates": "dtype"}
_SCATTER_ATTRS = {"dtype": attr.numeric, "Tindices": attr.index_type}


@register_op("ResourceScatterSub", inputs=_SCATTER_INPUTS, attrs=_SCATTER_ATTRS, stateful=True)
def _scatter_sub_shape(op: InferenceContext) -> list[Shape]:
    """Subtracts from rows of a variable, from repeated rows each time. Nothing changes if an index is wrong."""
    return _scatter_shape(op)


@register_op("ResourceScatterAdd", inputs=_SCATTER_INPUTS, attrs=_SCATTER_ATTRS, stateful=True)
def _scatter_add_shape(op: InferenceContext) -> list[Shape]:
    """Adds to rows of a variable; repeated rows are added each time. Nothing changes if an index is wrong."""
    return _scatter_shape(op)


@register_op(
    "ResourceScatterUpdate",
    inputs=_SCATTER_INPUTS,
    attrs={"dtype": attr.any_type, "Tindices": attr.index_type},
    stateful=True,
)
def _scatter_update_shape(op: InferenceContext) -> list[Shape]:
    """Replaces rows of a variable; of repeated rows the last one stays. Nothing changes if an index is wrong."""
    return _scatter_shape(op)


@register_op(
    "VarIsInitializedOp",
    inputs={"resource": "resource"},
    outputs={"is_initialized": "bool"},
    stateful=True,
    reads_only=True,
)
def _is_initialized_shape(op: InferenceContext) -> list[Shape]:
    """True once the variable has a value."""
    return [Shape([])]


@register_op(
    "VariableShape",
    inputs={"input": "resource"},
    outputs={"output": "out_type"},
    attrs={"out_type": attr.index_type},
    stateful=True,
    reads_only=True,
)
def _variable_shape_shape(op: InferenceContext) -> list[Shape]:
    """The shape of a variable's value."""
    known = op.variable_spec(0)
    return [Shape([None if known is None else known.shape.rank])]


@register_op("DisableCopyOnRead", inputs={"resource": "resource"}, stateful=True, reads_only=True)
def _disable_copy_on_read_shape(op: InferenceContext) -> list[Shape]:
    """Tells TensorFlow that no gather follows the reads of a variable; here it does nothing, as reads never copy."""
    return []


@register_op(
    "DestroyResourceOp", inputs={"resource": "resource"}, attrs={"ignore_lookup_error": attr.bool(True)}, stateful=True
)
def _destroy_shape(op: InferenceContext) -> list[Shape]:
    """Forgets the value of a variable; it is uninitialised again."""
    return []
