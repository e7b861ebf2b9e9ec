"""Ragged tensors as graphs of TensorFlow 2 hold them: values without gaps, and vectors that say where their rows end.

`splits` of n rows are `[n + 1]`: row i holds the values `splits[i]` to `splits[i + 1] - 1`. Several of them nest, the
outermost first.
"""

from __future__ import annotations

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Shape, bfloat16, float32, float64, int32, int64

__all__ = ["check_default", "check_wanted"]

_SPLITS = attr.type(int32, int64, default=int64)
_SPLIT, _NUMBERED = ("ROW_SPLITS", "ROW_SPLITS"), ("FIRST_DIM_SIZE", "VALUE_ROWIDS")
"""The forms of the first and of the other row partitions of a ragged tensor."""


def _check_rank(op: InferenceContext, index: int, name: str, *ranks: int) -> Shape:
    shape = op.inputs[index].shape
    if shape.rank not in (None, *ranks):
        raise ShapeError(
            f"'{name}' of {op.type} has a wrong rank",
            expected=" or ".join(f"rank {rank}" for rank in ranks),
            got=str(shape),
            hint="a scalar and the vectors of a ragged tensor have no further axes",
        )
    return shape


@register_op(
    "RaggedRange",
    inputs={"starts": "T", "limits": "T", "deltas": "T"},
    outputs={"rt_nested_splits": "Tsplits", "rt_dense_values": "T"},
    attrs={"T": attr.type(bfloat16, float32, float64, int32, int64, default=int32), "Tsplits": _SPLITS},
)
def _range_shape(op: InferenceContext) -> list[Shape]:
    """One ascending or descending row of numbers for each start, limit and step; scalars count for every row."""
    given = [_check_rank(op, index, name, 0, 1) for index, name in enumerate(("starts", "limits", "deltas"))]
    sizes = {shape[0] for shape in given if shape.rank == 1}
    known = sizes - {None}
    if len(known) > 1:
        raise ShapeError(
            "starts, limits and deltas are of different lengths",
            expected="vectors of one length, or scalars",
            got=", ".join(map(str, given)),
            hint="give one of each for every row",
        )
    unknown = any(shape.rank is None for shape in given) or None in sizes
    rows = known.pop() if known else None if unknown else 1
    return [Shape([None if rows is None else rows + 1]), Shape([None])]


@register_op(
    "RaggedTensorToTensor",
    inputs={
        "shape": "Tshape",
        "values": "T",
        "default_value": "T",
        "row_partition_tensors": "num_row_partition_tensors*Tindex",
    },
    outputs={"result": "T"},
    attrs={
        "T": attr.any_type,
        "Tindex": attr.type(int64, int32),
        "Tshape": attr.type(int64, int32),
        "num_row_partition_tensors": attr.int(minimum=1),
        "row_partition_types": attr.list_of(attr.string()),
    },
)
def _to_tensor_shape(op: InferenceContext) -> list[Shape]:
    """A ragged tensor as an array: rows are cut or filled with a default value; -1 in `shape` is the longest row."""
    types, parts = tuple(op.attr("row_partition_types")), len(op.inputs) - 3
    head, rest = _SPLIT if types[:1] == _SPLIT[:1] else _NUMBERED
    if len(types) != parts or types != (head, *[rest] * (parts - 1)) or types == ("FIRST_DIM_SIZE",):
        raise InvalidArgumentError(
            f"{op.type} '{op.name}' does not say how its rows are divided",
            expected=f"for its {parts} tensors ROW_SPLITS for all, or FIRST_DIM_SIZE and then VALUE_ROWIDS",
            got=", ".join(types) or "nothing",
            hint="row_partition_types names the form of each of row_partition_tensors",
        )
    for index, form in enumerate(types, 3):
        _check_rank(op, index, "row_partition_tensors", int(form != "FIRST_DIM_SIZE"))
    wanted, values = _check_rank(op, 0, "shape", 0, 1), op.inputs[1].shape
    wanted = op.constant_shape(0) if wanted.rank == 1 else Shape()
    if values.dims is None:
        return [wanted]
    check_default(values, op.inputs[2].shape)
    depth = sum(form != "FIRST_DIM_SIZE" for form in types)
    ragged = Shape([*[None] * (depth + 1), *values.dims[1:]])
    check_wanted(wanted, ragged)
    if wanted.dims is None or ragged.dims is None:
        return [ragged]
    return [Shape(own if size is None else size for size, own in zip(wanted.dims, ragged.dims, strict=True))]


def check_default(values: Shape, default: Shape) -> None:
    """Raise ShapeError unless a default value can fill what is an element of a row of ragged `values`."""
    inner = Shape() if values.dims is None else Shape(values.dims[1:])
    if values.rank == 0 or (None not in (inner.rank, default.rank) and len(default) > len(inner)):
        raise ShapeError(
            "the default value does not fit the values",
            expected=f"fewer axes than values {values}",
            got=str(default),
            hint="a scalar is the default of every element",
        )


def check_wanted(wanted: Shape, ragged: Shape) -> None:
    """Raise ShapeError unless a ragged tensor of the shape `ragged` can be cut or filled to `wanted`."""
    if not ragged.is_compatible_with(wanted):
        raise ShapeError(
            "the shape that is asked for does not fit the ragged tensor",
            expected=str(ragged),
            got=str(wanted),
            hint="-1 stands for the longest row; only axes that are ragged can be cut or filled",
        )


def _check_nested(op: InferenceContext, count: int, name: str) -> None:
    for index in range(count):
        _check_rank(op, index, name, 1)
    if op.inputs[count].shape.rank == 0:
        raise ShapeError(
            f"the values of {op.type} have no rows",
            expected="rank 1 or more",
            got="[]",
            hint="hr.expand_dims(values, 0) makes one row",
        )


@register_op(
    "RaggedTensorToSparse",
    inputs={"rt_nested_splits": "RAGGED_RANK*Tsplits", "rt_dense_values": "T"},
    outputs={"sparse_indices": "int64", "sparse_values": "T", "sparse_dense_shape": "int64"},
    attrs={"RAGGED_RANK": attr.int(minimum=1), "T": attr.any_type, "Tsplits": _SPLITS},
)
def _to_sparse_shape(op: InferenceContext) -> list[Shape]:
    """A ragged tensor as a sparse one: positions `[n, rank]`, values `[n]` and shape `[rank]`."""
    depth = len(op.inputs) - 1
    _check_nested(op, depth, "rt_nested_splits")
    values = op.inputs[depth].shape
    rank = None if values.rank is None else depth + values.rank
    return [Shape([values.num_elements, rank]), Shape([values.num_elements]), Shape([rank])]


@register_op(
    "RaggedGather",
    inputs={
        "params_nested_splits": "PARAMS_RAGGED_RANK*Tsplits",
        "params_dense_values": "Tvalues",
        "indices": "Tindices",
    },
    outputs={"output_nested_splits": "OUTPUT_RAGGED_RANK*Tsplits", "output_dense_values": "Tvalues"},
    attrs={
        "Tvalues": attr.any_type,
        "Tindices": attr.type(int32, int64),
        "Tsplits": _SPLITS,
        "PARAMS_RAGGED_RANK": attr.int(minimum=1),
        "OUTPUT_RAGGED_RANK": attr.int(minimum=0),
    },
)
def _gather_shape(op: InferenceContext) -> list[Shape]:
    """Rows of a ragged tensor by number; the result nests as deep as the tensor and the numbers together."""
    depth = len(op.inputs) - 2
    _check_nested(op, depth, "params_nested_splits")
    values, indices = op.inputs[depth].shape, op.inputs[depth + 1].shape
    wanted = op.attr("OUTPUT_RAGGED_RANK")
    if indices.rank is not None and wanted != depth + indices.rank - 1:
        raise ShapeError(
            f"{op.type} '{op.name}' gives rows of another depth",
            expected=f"OUTPUT_RAGGED_RANK={depth + indices.rank - 1}, that of the tensor and of indices less one",
            got=str(wanted),
            hint="each axis of indices but the last adds a division",
        )
    return [*[Shape([None])] * wanted, Shape() if values.dims is None else Shape([None, *values.dims[1:]])]
