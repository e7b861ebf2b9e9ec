"""NumPy kernels of the state family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.errors import FailedPreconditionError, OutOfRangeError, ShapeError
from headrace.interfaces import OpContext, VariableStorage
from headrace.kernels.registry import register_kernel
from headrace.ops.state import check_gather, check_scatter
from headrace.types import Array, Shape

__all__ = ["change_rows", "check_indices"]

_WIDE = 8
"""Elements of a row from which on rows are changed as wholes."""
_MANY = 2048
"""Elements of all rows from which on; fewer cost less one by one than putting them in order does."""
_TURNS = 16
"""How often rows that come again are changed together; a row that comes more often is changed by itself."""


@register_kernel("VarHandleOp", binds_once=True)
def _var_handle(op: OpContext) -> VariableStorage:
    name = op.attr("shared_name") or op.name
    return op.resources.variable(op.attr("container"), name, op.attr("dtype"), op.attr("shape"))


@register_kernel("ReadVariableOp", aliases=[0])
def _read(op: OpContext, variable: VariableStorage) -> Array:
    return variable.read()


@register_kernel("AssignVariableOp")
def _assign(op: OpContext, variable: VariableStorage, value: Array) -> None:
    variable.assign(np.asarray(value))


@register_kernel("AssignAddVariableOp")
def _assign_add(op: OpContext, variable: VariableStorage, value: Array) -> None:
    def add(old: Array, new: Array) -> None:
        _check_same_shape(old, value)
        np.add(old, value, out=new)

    variable.rewrite(add)


@register_kernel("AssignSubVariableOp")
def _assign_sub(op: OpContext, variable: VariableStorage, value: Array) -> None:
    def subtract(old: Array, new: Array) -> None:
        _check_same_shape(old, value)
        np.subtract(old, value, out=new)

    variable.rewrite(subtract)


def _check_same_shape(target: Array, value: Array) -> None:
    """TensorFlow does not broadcast updates: a wrong shape is a mistake, not a wish."""
    if target.shape != np.shape(value):
        raise ShapeError(
            "the update does not fit the variable",
            expected=str(list(target.shape)),
            got=str(list(np.shape(value))),
            hint="hr.broadcast_to the value first, or change some rows with variable.rows(indices)",
        )


@register_kernel("ResourceGather")
def _resource_gather(op: OpContext, variable: VariableStorage, indices: Array) -> Array:
    value = variable.read()
    batch = op.attr("batch_dims")
    check_gather(Shape(value.shape), Shape(np.shape(indices)), batch)
    check_indices(indices, value.shape[batch])
    if not batch:
        return np.take(value, indices, axis=0)
    lead = value.shape[:batch]
    result = np.empty(lead + np.shape(indices)[batch:] + value.shape[batch + 1 :], value.dtype)
    for position in np.ndindex(lead):
        result[position] = np.take(value[position], indices[position], axis=0)
    return result


def check_indices(indices: Array, bound: int) -> None:
    """Raise OutOfRangeError unless every index is in `[0, bound)`; no negative indices, as in TensorFlow."""
    indices = np.asarray(indices)
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= bound):
        wrong = indices[(indices < 0) | (indices >= bound)].reshape(-1)
        raise OutOfRangeError(
            "an index is out of range",
            expected=f"0 <= index < {bound}",
            got=str(int(wrong[0])),
            hint="count from 0, as -1 is not the last; hr.boolean_mask leaves wrong indices out",
        )


def _scatter(
    change: Callable[[Array, Array, Array], None],
) -> Callable[[OpContext, VariableStorage, Array, Array], None]:
    def kernel(op: OpContext, variable: VariableStorage, indices: Array, updates: Array) -> None:
        def apply(target: Array) -> None:
            check_scatter(Shape(target.shape), Shape(np.shape(indices)), Shape(np.shape(updates)))
            check_indices(indices, target.shape[0])
            rows = np.broadcast_to(updates, np.shape(indices) + target.shape[1:])
            change(target, np.asarray(indices), rows)

        variable.update(apply)

    return kernel


def change_rows(ufunc: np.ufunc, target: Array, indices: Array, rows: Array) -> None:
    """What `ufunc.at(target, indices, rows)` does, to the bit; many rows take that up to 20 times as long.

    All rows that come for the first time are changed together, then those that come for the second time, and so on.
    """
    flat = indices.reshape(-1)
    if rows.size < _MANY or target[:1].size < _WIDE:
        ufunc.at(target, indices, rows)
        return
    updates = rows.reshape(flat.size, *target.shape[1:])
    order = np.argsort(flat, kind="stable")
    placed = flat[order]
    differ = placed[1:] != placed[:-1]
    if differ.all():
        changed = target[flat]
        target[flat] = ufunc(changed, updates, out=changed)
        return
    starts = np.flatnonzero(np.concatenate([[True], differ]))
    turns = np.arange(flat.size) - np.repeat(starts, np.diff(starts, append=flat.size))
    for turn in range(min(int(turns.max()) + 1, _TURNS)):
        chosen = order[turns == turn]
        places = flat[chosen]
        target[places] = ufunc(target[places], updates[chosen])
    rest = np.sort(order[turns >= _TURNS])
    ufunc.at(target, flat[rest], updates[rest])


def _subtract_at(target: Array, indices: Array, rows: Array) -> None:
    change_rows(np.subtract, target, indices, rows)


def _add_at(target: Array, indices: Array, rows: Array) -> None:
    change_rows(np.add, target, indices, rows)


def _replace_at(target: Array, indices: Array, rows: Array) -> None:
    target[indices] = rows  # in order: NumPy promises that the last of repeated rows stays


register_kernel("ResourceScatterSub", copies=[2])(_scatter(_subtract_at))
register_kernel("ResourceScatterAdd", copies=[2])(_scatter(_add_at))
register_kernel("ResourceScatterUpdate")(_scatter(_replace_at))


@register_kernel("VarIsInitializedOp")
def _is_initialized(op: OpContext, variable: VariableStorage) -> Array:
    return np.array(variable.is_initialized)


@register_kernel("VariableShape")
def _variable_shape(op: OpContext, variable: VariableStorage) -> Array:
    return np.array(variable.read().shape, op.attr("out_type").array_type)


@register_kernel("DisableCopyOnRead")
def _disable_copy_on_read(op: OpContext, variable: VariableStorage) -> None:
    """A read shares the value's memory until the variable is written, whatever follows it."""


@register_kernel("DestroyResourceOp")
def _destroy(op: OpContext, variable: VariableStorage) -> None:
    if not variable.is_initialized and not op.attr("ignore_lookup_error"):
        raise FailedPreconditionError(
            f"variable '{variable.name}' has no value to destroy",
            expected="a variable that has a value",
            got="uninitialised",
            hint="run its initializer first, or set ignore_lookup_error=True",
        )
    variable.destroy()
