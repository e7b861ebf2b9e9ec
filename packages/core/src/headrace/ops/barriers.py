"""Operations on barriers, which put together elements whose components come from different places, by key.

TensorFlow has them on references only; here they take handles. The user's view of them is `hr.Barrier`.
"""

from __future__ import annotations

from headrace.errors import InvalidArgumentError, ShapeError, UnimplementedError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation
from headrace.ops.queues import checked_count
from headrace.ops.shapes import check_scalar
from headrace.types import Shape, TensorSpec

__all__ = ["barrier_specs"]

_HANDLE = {"handle": "resource"}
_TYPES = attr.list_of(attr.type(), minimum=1)


@register_op(
    "Barrier",
    outputs=_HANDLE,
    attrs={
        "component_types": _TYPES,
        "shapes": attr.list_of(attr.shape(), ()),
        "capacity": attr.int(-1),
        "container": attr.string(""),
        "shared_name": attr.string(""),
    },
    stateful=True,
    reads_only=True,
)
def _barrier_shape(op: InferenceContext) -> list[Shape]:
    """The handle of a barrier, whose elements are ready when all their components are there."""
    shapes, count = op.attr("shapes"), len(op.attr("component_types"))
    if len(shapes) != count or not all(shape.is_fully_defined for shape in shapes):
        raise InvalidArgumentError(
            "the shapes of a barrier's components are wrong",
            expected=f"{count} shapes without unknown sizes",
            got=str([str(shape) for shape in shapes]),
            hint="hr.Barrier([hr.float32, hr.string], shapes=[[2], []])",
        )
    if op.attr("capacity") != -1:
        raise UnimplementedError(
            "a barrier has no bound",
            expected="capacity=-1, as TensorFlow wants it too",
            got=str(op.attr("capacity")),
            hint="let what goes into the barrier come through a queue that has one",
        )
    return [Shape([])]


def barrier_specs(barrier: Operation) -> tuple[TensorSpec, ...]:
    """The dtype and shape of each component of the elements of a barrier.

    Args:
      barrier: the operation that makes the handle.
    """
    return tuple(map(TensorSpec, barrier.attrs["component_types"], barrier.attrs["shapes"]))


@register_op(
    "BarrierInsertMany",
    inputs={**_HANDLE, "keys": "string", "values": "T"},
    attrs={"T": attr.any_type, "component_index": attr.int()},
    stateful=True,
)
def _insert_shape(op: InferenceContext) -> list[Shape]:
    """Gives the elements of a barrier that have these keys one of their components, `values` `[n, ...]`."""
    keys, values = op.inputs[1].shape.with_rank(1), op.inputs[2].shape
    barrier, position = op.handle_origin(0), op.attr("component_index")
    rest = Shape()
    if barrier is not None and barrier.type == "Barrier" and 0 <= position < len(barrier.attrs["component_types"]):
        rest = barrier_specs(barrier)[position].shape
    wanted = Shape([keys[0], *rest.dims]) if rest.dims is not None else Shape()
    if not wanted.is_compatible_with(values) or (
        values.dims is not None and not keys.is_compatible_with(Shape(values.dims[:1]))
    ):
        raise ShapeError(
            "the values do not fit the barrier",
            expected=str(wanted) if wanted.dims is not None else f"one row for each of {keys} keys",
            got=str(values),
            hint="give each key one row of values",
        )
    return []


@register_op(
    "BarrierTakeMany",
    inputs={**_HANDLE, "num_elements": "int32"},
    outputs={"indices": "int64", "keys": "string", "values": "component_types"},
    attrs={
        "component_types": _TYPES,
        "allow_small_batch": attr.bool(False),
        "wait_for_incomplete": attr.bool(False),
        "timeout_ms": attr.int(-1),
    },
    stateful=True,
    blocks=True,
)
def _take_shape(op: InferenceContext) -> list[Shape]:
    """Takes elements that are ready, waiting until there are so many: when they came, their keys, their components."""
    check_scalar(op.inputs[1].shape, "num_elements")
    if op.attr("timeout_ms") != -1:
        raise UnimplementedError(
            "timeout_ms is not supported",
            expected="-1, as TensorFlow wants it too",
            got=str(op.attr("timeout_ms")),
            hint="session.run(..., timeout=seconds) limits the whole step",
        )
    known = op.constant(1)
    count = None if known is None else checked_count(known)
    count = None if op.attr("allow_small_batch") else count
    barrier = op.handle_origin(0)
    if barrier is None or barrier.type != "Barrier":
        return [Shape([count]), Shape([count]), *[Shape()] * len(op.attr("component_types"))]
    rows = [Shape([count, *spec.shape.as_tuple()]) for spec in barrier_specs(barrier)]
    return [Shape([count]), Shape([count]), *rows]


@register_op("BarrierClose", inputs=_HANDLE, attrs={"cancel_pending_enqueues": attr.bool(False)}, stateful=True)
def _close_shape(op: InferenceContext) -> list[Shape]:
    """Lets a barrier take no new keys; elements that lack components may still get them, or are dropped."""
    return []


@register_op("BarrierReadySize", inputs=_HANDLE, outputs={"size": "int32"}, stateful=True, reads_only=True)
def _ready_size_shape(op: InferenceContext) -> list[Shape]:
    """How many elements of a barrier are ready."""
    return [Shape([])]


@register_op("BarrierIncompleteSize", inputs=_HANDLE, outputs={"size": "int32"}, stateful=True, reads_only=True)
def _incomplete_size_shape(op: InferenceContext) -> list[Shape]:
    """How many elements of a barrier lack components."""
    return [Shape([])]
