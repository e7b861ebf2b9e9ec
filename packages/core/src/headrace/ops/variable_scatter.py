"""Changes of parts of a variable beside those of the state family, and its use as a counter."""

from __future__ import annotations

from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.gather import check_updates
from headrace.types import Shape

__all__: list[str] = []

_INDEX = attr.type("int32", "int64")
_POLICY = attr.string("", allowed=["", "DEFAULT", "ERROR", "IGNORE"])


def _variable_shape(op: InferenceContext, dtype_attr: str) -> Shape:
    known = op.variable_spec(0)
    if known is None:
        return Shape()
    if known.dtype is not op.attr(dtype_attr):
        raise DTypeError(
            "the variable has another dtype",
            expected=str(known.dtype),
            got=str(op.attr(dtype_attr)),
            hint="hr.astype(updates, variable.dtype)",
        )
    return known.shape


def _register_rows(name: str, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        variable, indices, updates = _variable_shape(op, "dtype"), op.inputs[1].shape, op.inputs[2].shape
        if variable.rank == 0:
            raise ShapeError(
                "a scalar variable has no rows",
                expected="rank >= 1",
                got=str(variable),
                hint="compute the new value from Variable.read and give it to Variable.assign",
            )
        if variable.dims is not None and indices.dims is not None and updates.rank != 0:
            wanted = Shape((*indices.dims, *variable.dims[1:]))
            if not wanted.is_compatible_with(updates):
                raise ShapeError(
                    "the updates do not fit the variable",
                    expected=str(wanted),
                    got=str(updates),
                    hint="the updates are [indices..., row...]; a scalar serves every row",
                )
        return []

    shape.__doc__ = f"{doc}; repeated rows each time, and nothing changes if an index is wrong."
    register_op(
        name,
        inputs={"resource": "resource", "indices": "Tindices", "updates": "dtype"},
        attrs={"dtype": attr.numeric, "Tindices": _INDEX},
        stateful=True,
    )(shape)


_register_rows("ResourceScatterMul", "Multiplies rows of a variable by the updates")
_register_rows("ResourceScatterDiv", "Divides rows of a variable by the updates, integers towards zero")
_register_rows("ResourceScatterMin", "The smaller of rows of a variable and the updates")
_register_rows("ResourceScatterMax", "The larger of rows of a variable and the updates")


@register_op(
    "_FirstRows",
    inputs={"indices": "T"},
    outputs={"rows": "T", "first": "out_idx"},
    attrs={"T": _INDEX, "out_idx": attr.index_type, "bound": attr.int()},
)
def _first_rows_shape(op: InferenceContext) -> list[Shape]:
    """Each index where it stands for the first time, else the lowest integer; and where that is. All in [0, bound)."""
    shape = op.inputs[0].shape.with_rank(1)
    return [shape, shape]


@register_op(
    "_GatherRows",
    inputs={"resource": "resource", "rows": "Tindices"},
    outputs={"output": "dtype"},
    attrs={"dtype": attr.numeric, "Tindices": _INDEX},
    stateful=True,
    reads_only=True,
)
def _gather_rows_shape(op: InferenceContext) -> list[Shape]:
    """Rows of a variable by their numbers; zeros where the lowest integer stands for none."""
    variable, rows = _variable_shape(op, "dtype"), op.inputs[1].shape
    return [Shape() if variable.dims is None or rows.dims is None else Shape((*rows.dims, *variable.dims[1:]))]


@register_op(
    "_ScatterRows",
    inputs={"resource": "resource", "rows": "Tindices", "updates": "dtype"},
    attrs={"dtype": attr.numeric, "Tindices": _INDEX, "how": attr.string(allowed=["add", "sub", "copy"])},
    stateful=True,
)
def _scatter_rows_shape(op: InferenceContext) -> list[Shape]:
    """Adds to, subtracts from or replaces rows of a variable; the lowest integer stands for none."""
    return []


def _register_nd(name: str, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        check_updates(op.inputs[1].shape, op.inputs[2].shape, _variable_shape(op, "T"))
        return []

    shape.__doc__ = doc
    register_op(
        name,
        inputs={"ref": "resource", "indices": "Tindices", "updates": "T"},
        attrs={"T": attr.any_type, "Tindices": _INDEX, "use_locking": attr.bool(True), "bad_indices_policy": _POLICY},
        stateful=True,
    )(shape)


_register_nd("ResourceScatterNdUpdate", "Replaces slices of a variable; of repeated indices the last one counts.")
_register_nd("ResourceScatterNdAdd", "Adds to slices of a variable; repeated indices add each time.")
_register_nd("ResourceScatterNdSub", "Subtracts from slices of a variable; repeated indices subtract each time.")


@register_op(
    "ResourceCountUpTo",
    inputs={"resource": "resource"},
    outputs={"output": "T"},
    attrs={"limit": attr.int(), "T": _INDEX},
    stateful=True,
)
def _count_up_to_shape(op: InferenceContext) -> list[Shape]:
    """The value of a scalar variable, which then grows by one; at `limit` the end of data is reached instead."""
    _variable_shape(op, "T").with_rank(0)
    return [Shape([])]
