"""Kernels of the queues family."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.graph.operation import Operation
from headrace.interfaces import OpContext, Resources
from headrace.kernels.element_queue import ElementQueue
from headrace.kernels.element_stores import Element, ElementStore, FifoStore, PriorityStore, RandomStore
from headrace.kernels.element_type import ElementType
from headrace.kernels.philox import PhiloxState, philox_words
from headrace.kernels.registry import register_kernel
from headrace.ops.queues import QUEUE_TYPES, checked_count
from headrace.types import Array, Shape, int64

__all__ = ["Queue", "queue_behind"]


class Queue(ElementQueue):
    """The queue behind a handle: elements of one type. Mutable and thread-safe.

    Args:
      kind: the kind of queue, for errors.
      name: its name.
      store: where the elements lie.
      element: what they are made of.
      capacity: how many it holds at most; negative for no bound.
      min_after_dequeue: how many stay while it is open.
    """

    def __init__(
        self, kind: str, name: str, store: ElementStore, element: ElementType, capacity: int, min_after_dequeue: int = 0
    ) -> None:
        super().__init__(kind, name, store, capacity=capacity, min_after_take=min_after_dequeue)
        self.element = element

    @property
    def properties(self) -> str:
        """What two operations that share the queue must agree on."""
        return f"{self.kind} of {self.element}, capacity {self.capacity}, min_after_dequeue {self.min_after_take}"


def queue_behind(op: OpContext | Operation, resources: Resources) -> Queue:
    """The queue of a session, made at the first request.

    Args:
      op: the operation that makes its handle.
      resources: the session's container.
    Raises:
      InvalidArgumentError: it exists with other properties.
    """
    name = op.attr("shared_name") or op.name
    least = op.attr("min_after_dequeue") if op.type == "RandomShuffleQueueV2" else 0
    made = Queue(op.type.removesuffix("V2"), name, _store_of(op), _element_of(op), op.attr("capacity"), least)
    found: Queue = resources.lookup_or_create((Queue, op.attr("container"), name), lambda: made)
    if found.properties != made.properties:
        raise InvalidArgumentError(
            f"queue '{name}' exists with other properties",
            expected=found.properties,
            got=made.properties,
            hint="make both the same, or give one of them another shared_name",
        )
    return found


def _element_of(op: OpContext | Operation) -> ElementType:
    dtypes, shapes = op.attr("component_types"), op.attr("shapes")
    if op.type == "PriorityQueueV2":
        dtypes, shapes = (int64, *dtypes), (Shape([]), *(shapes or (Shape(),) * len(dtypes)))
    return ElementType(dtypes, shapes, padded=op.type == "PaddingFIFOQueueV2")


def _store_of(op: OpContext | Operation) -> ElementStore:
    if op.type == "PriorityQueueV2":
        return PriorityStore()
    return RandomStore(_words(op).__next__) if op.type == "RandomShuffleQueueV2" else FifoStore()


def _words(op: OpContext | Operation) -> Iterator[int]:
    """The stream of random words of a queue, which is TensorFlow's for equal seeds; (0, 0) asks for any."""
    seeds = op.attr("seed"), op.attr("seed2")
    state = PhiloxState.from_seeds(*(seeds if any(seeds) else (secrets.randbits(64), secrets.randbits(64))))
    while True:
        yield from philox_words(state, 64).reshape(-1).tolist()
        state = state.skip(64)


for _queue_type in QUEUE_TYPES:

    @register_kernel(_queue_type, binds_once=True)
    def _queue(op: OpContext) -> Queue:
        return queue_behind(op, op.resources)


@register_kernel("QueueEnqueueV2")
def _enqueue(op: OpContext, queue: Queue, components: Sequence[Any]) -> None:
    queue.element.check_dtypes(op.attr("Tcomponents"), f"queue '{queue.name}'")
    queue.add([queue.element.element(components)], op.step)


@register_kernel("QueueEnqueueManyV2")
def _enqueue_many(op: OpContext, queue: Queue, components: Sequence[Any]) -> None:
    queue.element.check_dtypes(op.attr("Tcomponents"), f"queue '{queue.name}'")
    queue.add(queue.element.elements(components), op.step)


@register_kernel("QueueDequeueV2")
def _dequeue(op: OpContext, queue: Queue) -> Element:
    queue.element.check_dtypes(op.attr("component_types"), f"queue '{queue.name}'")
    return queue.take(1, op.step)[0]


def _register_dequeue(op_type: str, *, fewer_at_end: bool) -> None:
    @register_kernel(op_type)
    def kernel(op: OpContext, queue: Queue, n: Array) -> tuple[Array, ...]:
        queue.element.check_dtypes(op.attr("component_types"), f"queue '{queue.name}'")
        queue.element.check_batches(f"queue '{queue.name}'")
        count = checked_count(n)
        return queue.element.batch(queue.take(count, op.step, fewer_at_end=fewer_at_end))


_register_dequeue("QueueDequeueManyV2", fewer_at_end=False)
_register_dequeue("QueueDequeueUpToV2", fewer_at_end=True)


@register_kernel("QueueCloseV2")
def _close(op: OpContext, queue: Queue) -> None:
    if op.attr("cancel_pending_enqueues"):
        queue.close_now()
    else:
        queue.close(op.step)


@register_kernel("QueueSizeV2")
def _size(op: OpContext, queue: Queue) -> Array:
    return np.array(queue.size, np.int32)


@register_kernel("QueueIsClosedV2")
def _is_closed(op: OpContext, queue: Queue) -> Array:
    return np.array(queue.is_closed)
