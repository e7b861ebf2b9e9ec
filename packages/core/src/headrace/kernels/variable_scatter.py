"""NumPy kernels of the variable_scatter family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import EndOfDataError, InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext, VariableStorage
from headrace.kernels.registry import register_kernel
from headrace.kernels.state import check_indices
from headrace.ops.gather import check_updates
from headrace.types import Array, Shape

Change = Callable[[Array, Any, Array], None]
"""Called with the target, an index of it, and the rows for that."""


def _register_rows(op_type: str, change: Change) -> None:
    def kernel(op: OpContext, variable: VariableStorage, indices: Array, updates: Array) -> None:
        def apply(target: Array) -> None:
            if not target.ndim:
                raise ShapeError(
                    "a scalar variable has no rows",
                    expected="rank >= 1",
                    got="[]",
                    hint="change it with variable.assign, or make it with one row: hr.Variable([x])",
                )
            check_indices(indices, target.shape[0])
            wanted = (*np.shape(indices), *target.shape[1:])
            if np.ndim(updates) and np.shape(updates) != wanted:
                raise ShapeError(
                    "the updates do not fit the variable",
                    expected=str(list(wanted)),
                    got=str(list(np.shape(updates))),
                    hint="hr.broadcast_to them first, or give one number for all",
                )
            change(target, np.asarray(indices), np.broadcast_to(updates, wanted))

        variable.update(apply)

    register_kernel(op_type)(kernel)


@register_kernel("_FirstRows")
def _first_rows(op: OpContext, indices: Array) -> tuple[Array, Array]:
    check_indices(indices, op.attr("bound"))
    _, first, inverse = np.unique(indices, return_index=True, return_inverse=True)
    position = first[inverse.reshape(-1)]
    rows = np.where(position == np.arange(indices.size), indices, _absent(indices))
    return rows, position.astype(op.outputs[1].dtype.array_type)


def _absent(rows: Array) -> Array:
    """What stands for no row."""
    return np.array(np.iinfo(rows.dtype).min, rows.dtype)


@register_kernel("_GatherRows")
def _gather_rows(op: OpContext, variable: VariableStorage, rows: Array) -> Array:
    value, present = variable.read(), rows != _absent(rows)
    check_indices(rows[present], value.shape[0])
    result = np.zeros((rows.size, *value.shape[1:]), value.dtype)
    result[present] = value[rows[present]]
    return result


@register_kernel("_ScatterRows")
def _scatter_rows(op: OpContext, variable: VariableStorage, rows: Array, updates: Array) -> None:
    present = rows != _absent(rows)
    places, changes = rows[present], updates[present]

    def apply(target: Array) -> None:
        check_indices(places, target.shape[0])
        if op.attr("how") == "copy":
            target[places] = changes
        else:
            (np.add if op.attr("how") == "add" else np.subtract).at(target, places, changes)

    variable.update(apply)


def _divide_at(target: Array, indices: Array, rows: Array) -> None:
    if target.dtype.kind not in "iu":
        np.divide.at(target, indices, rows)
        return
    if not np.all(rows):
        raise InvalidArgumentError(
            "integers are divided by zero",
            expected="updates other than 0",
            got="0",
            hint="replace the zeros with hr.where, or make the variable of a floating dtype",
        )
    for index, row in zip(indices.reshape(-1), rows.reshape(-1, *target.shape[1:]), strict=True):
        quotient = np.abs(target[index].astype(object)) // np.abs(row.astype(object))
        target[index] = np.where(np.less(target[index], 0) != np.less(row, 0), -quotient, quotient)


_register_rows("ResourceScatterMul", np.multiply.at)
_register_rows("ResourceScatterDiv", _divide_at)
_register_rows("ResourceScatterMin", np.minimum.at)
_register_rows("ResourceScatterMax", np.maximum.at)


def _register_nd(op_type: str, change: Change) -> None:
    def kernel(op: OpContext, variable: VariableStorage, indices: Array, updates: Array) -> None:
        def apply(target: Array) -> None:
            check_updates(Shape(np.shape(indices)), Shape(np.shape(updates)), Shape(target.shape))
            depth = np.shape(indices)[-1]
            count = int(np.prod(np.shape(indices)[:-1], dtype=np.int64))
            columns = list(np.reshape(indices, (count, depth)).T)
            sizes = target.shape[:depth]
            valid = np.ones(count, bool)
            for column, size in zip(columns, sizes, strict=True):
                if op.attr("bad_indices_policy") == "IGNORE":
                    valid &= (column >= 0) & (column < size)
                else:
                    check_indices(column, size)
            rows = np.reshape(updates, (count, *target.shape[depth:]))[valid]
            places = [np.zeros(len(rows), np.int64), *(column[valid] for column in columns)]
            change(target[None], tuple(places), rows)  # one more axis, so that there are places where depth is 0

        variable.update(apply)

    register_kernel(op_type)(kernel)


def _replace_at(target: Array, places: tuple[Array, ...], rows: Array) -> None:
    """NumPy promises no order for repeated indices, so only the last of each is written."""
    flat = np.ravel_multi_index(places, target.shape[: len(places)])
    _, positions = np.unique(flat[::-1], return_index=True)
    last = len(flat) - 1 - positions
    target[tuple(place[last] for place in places)] = rows[last]


_register_nd("ResourceScatterNdUpdate", _replace_at)
_register_nd("ResourceScatterNdAdd", np.add.at)
_register_nd("ResourceScatterNdSub", np.subtract.at)


@register_kernel("ResourceCountUpTo")
def _count_up_to(op: OpContext, variable: VariableStorage) -> Array:
    found: list[Array] = []

    def count(target: Array) -> None:
        if target.ndim:
            raise ShapeError(
                "only a scalar can count",
                expected="[]",
                got=str(list(target.shape)),
                hint="make it a scalar: hr.Variable(0)",
            )
        if int(target) >= op.attr("limit"):
            raise EndOfDataError(  # it counts the epochs of the input producers of TensorFlow 1
                "the counter has reached its limit",
                expected=f"< {op.attr('limit')}",
                got=str(target),
                hint="raise the limit, or start again with variable.assign(0)",
            )
        found.append(target.copy())
        target += 1

    variable.update(count)
    return found[0]
