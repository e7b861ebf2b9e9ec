"""Operations on queues, which couple concurrent steps (paper, section 3.1).

A queue operation such as `FIFOQueueV2` yields the handle of a queue; adding, taking and closing take it. Adding waits
for room and taking for elements. The user's view of them is `hr.FIFOQueue` and its kin.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError, UnimplementedError
from headrace.graph import attr
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Operation
from headrace.ops.shapes import check_scalar, scalar_of
from headrace.types import Array, Shape, TensorSpec, int64

__all__ = ["QUEUE_TYPES", "checked_count", "component_specs"]

QUEUE_TYPES = ("FIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2", "PaddingFIFOQueueV2")

_TYPES = attr.list_of(attr.type(), minimum=1)
_QUEUE: dict[str, AttrSpec] = {
    "component_types": _TYPES,
    "shapes": attr.list_of(attr.shape(), ()),
    "capacity": attr.int(-1),
    "container": attr.string(""),
    "shared_name": attr.string(""),
}
_HANDLE = {"handle": "resource"}
_TIMEOUT = {"timeout_ms": attr.int(-1)}


@register_op("FIFOQueueV2", outputs=_HANDLE, attrs=_QUEUE, stateful=True, reads_only=True)
def _fifo_queue_shape(op: InferenceContext) -> list[Shape]:
    """The handle of a queue from which elements come in the order in which they were added."""
    _check_shapes(op)
    return [Shape([])]


@register_op(
    "RandomShuffleQueueV2",
    outputs=_HANDLE,
    attrs={**_QUEUE, "min_after_dequeue": attr.int(0), "seed": attr.int(0), "seed2": attr.int(0)},
    stateful=True,
    reads_only=True,
)
def _random_shuffle_queue_shape(op: InferenceContext) -> list[Shape]:
    """The handle of a queue from which any of the elements comes, while it is open only if enough of them stay."""
    _check_shapes(op)
    capacity, least = op.attr("capacity"), op.attr("min_after_dequeue")
    if least < 0 or 0 <= capacity <= least:
        raise InvalidArgumentError(
            "min_after_dequeue is wrong",
            expected="0 <= min_after_dequeue < capacity",
            got=f"min_after_dequeue={least}, capacity={capacity}",
            hint="a capacity of min_after_dequeue plus a few batches keeps producers busy",
        )
    return [Shape([])]


@register_op(
    "PriorityQueueV2",
    outputs=_HANDLE,
    attrs={**_QUEUE, "component_types": attr.list_of(attr.type(), ()), "shapes": attr.list_of(attr.shape())},
    stateful=True,
    reads_only=True,
)
def _priority_queue_shape(op: InferenceContext) -> list[Shape]:
    """The handle of a queue whose elements start with an int64 scalar, of which the least comes out first."""
    _check_shapes(op)
    return [Shape([])]


@register_op("PaddingFIFOQueueV2", outputs=_HANDLE, attrs=_QUEUE, stateful=True, reads_only=True)
def _padding_fifo_queue_shape(op: InferenceContext) -> list[Shape]:
    """The handle of a first-in first-out queue of elements that differ in size; taken together, they are padded."""
    shapes = op.attr("shapes")
    if len(shapes) != len(op.attr("component_types")) or any(shape.dims is None for shape in shapes):
        raise InvalidArgumentError(
            "a queue that pads must know the number of axes of each component",
            expected=f"{len(op.attr('component_types'))} shapes, with None for a size that differs",
            got=str([str(shape) for shape in shapes]),
            hint="shapes=[[None, 3], []]",
        )
    return [Shape([])]


def _check_shapes(op: HasAttrs) -> None:
    shapes, count = op.attr("shapes"), len(op.attr("component_types"))
    if len(shapes) not in (0, count) or not all(shape.is_fully_defined for shape in shapes):
        raise InvalidArgumentError(
            "the shapes of a queue's components are wrong",
            expected=f"no shapes, or {count} without unknown sizes",
            got=str([str(shape) for shape in shapes]),
            hint="hr.PaddingFIFOQueue takes sizes that differ; without shapes elements can only be taken one by one",
        )


def component_specs(queue: Operation) -> tuple[TensorSpec, ...]:
    """The dtype and shape of each component of the elements of a queue.

    Args:
      queue: the operation that makes the handle.
    """
    dtypes = queue.attrs["component_types"]
    shapes = queue.attrs["shapes"] or (Shape(),) * len(dtypes)
    first = (TensorSpec(int64, Shape([])),) if queue.type == "PriorityQueueV2" else ()
    return (*first, *map(TensorSpec, dtypes, shapes))


def _elements(op: InferenceContext, stated: Sequence[object]) -> tuple[TensorSpec, ...] | None:
    """The components of the queue behind input 0, if it is known here; an operation must state their dtypes."""
    if op.attr("timeout_ms") != -1:
        raise UnimplementedError(
            "timeout_ms is not supported",
            expected="-1, as TensorFlow wants it too",
            got=str(op.attr("timeout_ms")),
            hint="session.run(..., timeout=seconds) limits the whole step",
        )
    queue = op.handle_origin(0)
    if queue is None or queue.type not in QUEUE_TYPES:
        return None
    specs = component_specs(queue)
    if tuple(spec.dtype for spec in specs) != tuple(stated):
        raise DTypeError(
            f"the components of queue '{queue.name}' have other dtypes",
            expected=", ".join(str(spec) for spec in specs),
            got=", ".join(map(str, stated)),
            hint="hr.astype the components, or state as many and of those dtypes",
        )
    return specs


def _check_components(op: InferenceContext, *, batched: bool) -> None:
    specs = _elements(op, op.attr("Tcomponents"))
    count: int | None = None
    for position, given in enumerate(op.inputs[1:]):
        shape = given.shape
        wanted = specs[position].shape if specs else Shape()
        if batched and shape.dims is not None:
            if not shape.dims or (None not in (count, shape.dims[0]) and shape.dims[0] != count):
                raise _misfit(position, f"[{'n' if count is None else count}, ...]", shape)
            count = shape.dims[0] if count is None else count
            shape = Shape(shape.dims[1:])
        if not wanted.is_compatible_with(shape):
            raise _misfit(position, f"[n, ...] of {wanted}" if batched else str(wanted), given.shape)


def _misfit(position: int, expected: str, got: Shape) -> ShapeError:
    return ShapeError(
        f"component {position} does not fit the elements of the queue",
        expected=expected,
        got=str(got),
        hint="hr.reshape it, or make the queue with other shapes",
    )


@register_op(
    "QueueEnqueueV2",
    inputs={**_HANDLE, "components": "Tcomponents"},
    attrs={"Tcomponents": _TYPES, **_TIMEOUT},
    stateful=True,
    blocks=True,
)
def _enqueue_shape(op: InferenceContext) -> list[Shape]:
    """Adds one element to a queue, waiting for room."""
    _check_components(op, batched=False)
    return []


@register_op(
    "QueueEnqueueManyV2",
    inputs={**_HANDLE, "components": "Tcomponents"},
    attrs={"Tcomponents": _TYPES, **_TIMEOUT},
    stateful=True,
    blocks=True,
)
def _enqueue_many_shape(op: InferenceContext) -> list[Shape]:
    """Adds the slices of its components along their first axis to a queue, in order, waiting for room."""
    _check_components(op, batched=True)
    return []


_TAKES = {"component_types": _TYPES, **_TIMEOUT}


@register_op(
    "QueueDequeueV2",
    inputs=_HANDLE,
    outputs={"components": "component_types"},
    attrs=_TAKES,
    stateful=True,
    blocks=True,
)
def _dequeue_shape(op: InferenceContext) -> list[Shape]:
    """Takes one element from a queue, waiting for one."""
    dtypes = op.attr("component_types")
    specs = _elements(op, dtypes)
    return [spec.shape for spec in specs] if specs else [Shape()] * len(dtypes)


@register_op(
    "QueueDequeueManyV2",
    inputs={**_HANDLE, "n": "int32"},
    outputs={"components": "component_types"},
    attrs=_TAKES,
    stateful=True,
    blocks=True,
)
def _dequeue_many_shape(op: InferenceContext) -> list[Shape]:
    """Takes n elements from a queue, stacked along a new first axis, waiting until there are so many."""
    return _batches(op, _taken_count(op))


@register_op(
    "QueueDequeueUpToV2",
    inputs={**_HANDLE, "n": "int32"},
    outputs={"components": "component_types"},
    attrs=_TAKES,
    stateful=True,
    blocks=True,
)
def _dequeue_up_to_shape(op: InferenceContext) -> list[Shape]:
    """As QueueDequeueManyV2, but gives the rest, though not nothing, when the queue is closed."""
    _taken_count(op)
    return _batches(op, None)


def _taken_count(op: InferenceContext) -> int | None:
    check_scalar(op.inputs[1].shape, "n")
    count = op.constant(1)
    return None if count is None else checked_count(count)


def _batches(op: InferenceContext, count: int | None) -> list[Shape]:
    dtypes = op.attr("component_types")
    specs = _elements(op, dtypes)
    if specs is None or any(spec.shape.dims is None for spec in specs):
        return [Shape()] * len(dtypes)
    return [Shape((count, *(spec.shape.dims or ()))) for spec in specs]


def checked_count(n: Array) -> int:
    """The number of elements to take, given as an integer scalar.

    Raises:
      ShapeError: it is no scalar.
      InvalidArgumentError: it is negative.
    """
    number = scalar_of(n, "n")
    if number < 0:
        raise InvalidArgumentError(
            "the number of elements is negative", expected="at least 0", got=str(number), hint="dequeue_many(64)"
        )
    return number


@register_op(
    "QueueCloseV2",
    inputs=_HANDLE,
    attrs={"cancel_pending_enqueues": attr.bool(False)},
    stateful=True,
    blocks=True,
)
def _close_shape(op: InferenceContext) -> list[Shape]:
    """Lets a queue take no further elements: after those that wait for room now, or instead of them."""
    return []


@register_op("QueueSizeV2", inputs=_HANDLE, outputs={"size": "int32"}, stateful=True, reads_only=True)
def _size_shape(op: InferenceContext) -> list[Shape]:
    """How many elements a queue holds."""
    return [Shape([])]


@register_op("QueueIsClosedV2", inputs=_HANDLE, outputs={"is_closed": "bool"}, stateful=True, reads_only=True)
def _is_closed_shape(op: InferenceContext) -> list[Shape]:
    """Whether a queue takes no further elements."""
    return [Shape([])]
