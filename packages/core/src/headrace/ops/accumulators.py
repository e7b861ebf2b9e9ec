"""Operations on gradient accumulators: many workers' gradients become one step (paper, section 4.4).

TensorFlow has them twice, on resources and on references (the plain names); both are handles here. The user's view of
them is `hr.ConditionalAccumulator` and `hr.SparseConditionalAccumulator`.
"""

from __future__ import annotations

from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.shapes import check_scalar
from headrace.types import Shape

__all__ = ["ACCUMULATOR_TYPES"]

ACCUMULATOR_TYPES = ("ResourceConditionalAccumulator", "ConditionalAccumulator", "SparseConditionalAccumulator")

_HANDLE = {"handle": "resource"}
_DTYPE = {"dtype": attr.numeric}
_ACCUMULATOR: dict[str, AttrSpec] = {
    "dtype": attr.numeric,
    "shape": attr.shape(),
    "container": attr.string(""),
    "shared_name": attr.string(""),
    "reduction_type": attr.string("MEAN", allowed=["MEAN", "SUM"]),
}


def _shape_of(op: InferenceContext) -> Shape:
    """The shape of the gradients of the accumulator behind input 0; an operation that states a dtype states its own."""
    origin = op.handle_origin(0)
    if origin is None or origin.type not in ACCUMULATOR_TYPES:
        return Shape()
    if origin.attrs["dtype"] is not op.attr("dtype"):
        raise DTypeError(
            f"accumulator '{origin.name}' has another dtype",
            expected=str(origin.attrs["dtype"]),
            got=str(op.attr("dtype")),
            hint="hr.astype the gradient",
        )
    shape: Shape = origin.attrs["shape"]
    return shape


def _accumulator_shape(op: InferenceContext) -> list[Shape]:
    """The handle of an accumulator of dense gradients of one shape."""
    return [Shape([])]


def _apply_shape(op: InferenceContext) -> list[Shape]:
    """Adds a gradient to an accumulator, or drops it if it was computed from values of an earlier step."""
    check_scalar(op.inputs[1].shape, "local_step")
    shape = _shape_of(op)
    if not shape.is_compatible_with(op.inputs[2].shape):
        raise ShapeError(
            "the gradient does not fit the accumulator",
            expected=str(shape),
            got=str(op.inputs[2].shape),
            hint="one accumulator takes the gradients of one variable",
        )
    return []


def _take_shape(op: InferenceContext) -> list[Shape]:
    """Waits until an accumulator has enough gradients and takes their mean or sum."""
    check_scalar(op.inputs[1].shape, "num_required")
    return [_shape_of(op)]


def _set_step_shape(op: InferenceContext) -> list[Shape]:
    """Lets an accumulator stand at another step."""
    check_scalar(op.inputs[1].shape, "new_global_step")
    return []


def _num_accumulated_shape(op: InferenceContext) -> list[Shape]:
    """How many gradients were added to an accumulator since its value was taken."""
    return [Shape([])]


for _prefix in ("", "Resource"):
    register_op(
        f"{_prefix}ConditionalAccumulator", outputs=_HANDLE, attrs=_ACCUMULATOR, stateful=True, reads_only=True
    )(_accumulator_shape)
    register_op(
        f"{_prefix}AccumulatorApplyGradient",
        inputs={**_HANDLE, "local_step": "int64", "gradient": "dtype"},
        attrs=_DTYPE,
        stateful=True,
    )(_apply_shape)
    register_op(
        f"{_prefix}AccumulatorTakeGradient",
        inputs={**_HANDLE, "num_required": "int32"},
        outputs={"average": "dtype"},
        attrs=_DTYPE,
        stateful=True,
        blocks=True,
    )(_take_shape)
    register_op(f"{_prefix}AccumulatorSetGlobalStep", inputs={**_HANDLE, "new_global_step": "int64"}, stateful=True)(
        _set_step_shape
    )
    register_op(
        f"{_prefix}AccumulatorNumAccumulated",
        inputs=_HANDLE,
        outputs={"num_accumulated": "int32"},
        stateful=True,
        reads_only=True,
    )(_num_accumulated_shape)


@register_op("SparseConditionalAccumulator", outputs=_HANDLE, attrs=_ACCUMULATOR, stateful=True, reads_only=True)
def _sparse_accumulator_shape(op: InferenceContext) -> list[Shape]:
    """The handle of an accumulator of gradients of which only some rows are there."""
    if op.attr("shape").rank == 0:
        raise ShapeError(
            "a sparse gradient has rows", expected="at least one axis", got="[]", hint="hr.ConditionalAccumulator"
        )
    return [Shape([])]


@register_op(
    "SparseAccumulatorApplyGradient",
    inputs={
        **_HANDLE,
        "local_step": "int64",
        "gradient_indices": "int64",
        "gradient_values": "dtype",
        "gradient_shape": "int64",
    },
    attrs={**_DTYPE, "has_known_shape": attr.bool()},
    stateful=True,
)
def _sparse_apply_shape(op: InferenceContext) -> list[Shape]:
    """Adds a gradient of some rows to an accumulator, or drops it if it was computed from values of an earlier step."""
    check_scalar(op.inputs[1].shape, "local_step")
    indices = op.inputs[2].shape.with_rank(1)
    values, whole = op.inputs[3].shape, _shape_of(op)
    rows = Shape([indices[0], *(whole.dims[1:] if whole.dims else ())]) if whole.dims else None
    if values.rank == 0 or (values.dims and not Shape([indices[0]]).is_compatible_with(Shape(values.dims[:1]))):
        raise _misfit(f"[{indices[0] if indices[0] is not None else 'n'}, ...]", values)
    if rows is not None and not rows.is_compatible_with(values):
        raise _misfit(str(rows), values)
    return []


def _misfit(expected: str, got: Shape) -> ShapeError:
    return ShapeError(
        "the rows of the gradient do not fit", expected=expected, got=str(got), hint="give each index one row of values"
    )


@register_op(
    "SparseAccumulatorTakeGradient",
    inputs={**_HANDLE, "num_required": "int32"},
    outputs={"indices": "int64", "values": "dtype", "shape": "int64"},
    attrs=_DTYPE,
    stateful=True,
    blocks=True,
)
def _sparse_take_shape(op: InferenceContext) -> list[Shape]:
    """Waits until an accumulator has enough gradients and takes the mean or sum of each row that is there."""
    check_scalar(op.inputs[1].shape, "num_required")
    whole = _shape_of(op)
    rows = Shape([None, *whole.dims[1:]]) if whole.dims else Shape()
    return [Shape([None]), rows, Shape([whole.rank])]
