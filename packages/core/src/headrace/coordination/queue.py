"""Queues as users hold them: what one step adds, another takes, each waiting until that is possible.

More than half of the length is the users' documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.errors import InvalidArgumentError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrValue
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import current_graph
from headrace.ops.queues import component_specs
from headrace.ops.random import operation_seeds
from headrace.ops.sparse import SparseTensor
from headrace.types import DType, Shape, TensorSpec, as_dtype, as_shape

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "Queue", "RandomShuffleQueue"]


class Queue:
    """What all queues have in common; made by its subclasses. The elements live in the session that runs the graph.

    An element has one or more components. Methods take and give one tensor where there is one component, otherwise a
    tuple of them, or a dict where the queue has names. A component that is an `hr.SparseTensor` counts as one.

    Attributes:
      handle: the handle of the queue, for `hr.apply_op`.
      specs: dtype and shape of each dense component.
      names: the names of the components, or None.
    """

    def __init__(
        self,
        op_type: str,
        dtypes: Any,
        shapes: Any,
        names: Sequence[str] | None,
        name: str | None,
        *,
        with_priority: bool = False,
        **attrs: AttrValue,
    ) -> None:
        if attrs.get("capacity") == 0:
            raise InvalidArgumentError(
                "a queue of capacity 0 takes no element",
                expected="capacity >= 1, or -1 for no bound",
                got="0",
                hint="capacity=1 hands over one element at a time",
            )
        self._sparse, flat_dtypes, flat_shapes = _flat_types(dtypes, shapes)
        if with_priority:
            self._sparse = (False, *self._sparse)
        self.handle: Tensor = apply_op(
            op_type, component_types=flat_dtypes, shapes=flat_shapes, name=name or _DEFAULT_NAMES[op_type], **attrs
        )
        self.specs: tuple[TensorSpec, ...] = component_specs(self.handle.op)
        self.names = None if names is None else tuple(names)
        if self.names is not None and len(self.names) != len(self._sparse):
            raise InvalidArgumentError(
                f"queue '{self.name}' has another number of names than components",
                expected=f"{len(self._sparse)} names",
                got=str(list(self.names)),
                hint="name each component; the first one of a PriorityQueue is the priority",
            )

    @property
    def name(self) -> str:
        """The name of the operation that makes it."""
        return self.handle.op.name

    def enqueue(self, element: Any, *, name: str | None = None) -> Operation:
        """Add one element, waiting for room.

        Args:
          element: the components.
          name: the operation's name.
        Returns:
          The operation to run.
        Raises:
          ShapeError, DTypeError: the components do not fit the queue; here, or in the step.
          CancelledError: in the step: the queue is closed.
        """
        added: Operation = apply_op("QueueEnqueueV2", self.handle, self._flat(element), name=name or "enqueue")
        return added

    def enqueue_many(self, batch: Any, *, name: str | None = None) -> Operation:
        """Add the slices of a batch along its first axis, in order and without others between them, waiting for room.

        Args:
          batch: the components, each `[n, ...]`.
          name: the operation's name.
        Returns:
          The operation to run. If the queue is closed before all have room, those that had stay in it.
        Raises:
          ShapeError, DTypeError: the components do not fit the queue; here, or in the step.
          CancelledError: in the step: the queue is closed.
        """
        added: Operation = apply_op("QueueEnqueueManyV2", self.handle, self._flat(batch), name=name or "enqueue_many")
        return added

    def dequeue(self, *, name: str | None = None) -> Any:
        """Take one element, waiting for one.

        Args:
          name: the operation's name.
        Returns:
          The components.
        Raises:
          EndOfDataError: in the step: the queue is closed and empty.
          AbortedError: in the step: the same, because its producer failed; the cause is the producer's error.
        """
        return self._taken("QueueDequeueV2", (), (), name or "dequeue")

    def dequeue_many(self, n: TensorLike, *, name: str | None = None) -> Any:
        """Take n elements at once, waiting until there are so many; all or none.

        Args:
          n: int32 scalar, at least 0; may be more than the capacity.
          name: the operation's name.
        Returns:
          The components, each `[n, ...]`; a `PaddingFIFOQueue` pads them to equal sizes.
        Raises:
          InvalidArgumentError: n is negative, or the queue was made without shapes; here, or in the step.
          EndOfDataError: in the step: the queue is closed and has fewer; they stay.
          AbortedError: in the step: the same, because its producer failed; the cause is the producer's error.
        """
        return self._taken("QueueDequeueManyV2", (n,), (n if isinstance(n, int) else None,), name or "dequeue_many")

    def dequeue_up_to(self, n: TensorLike, *, name: str | None = None) -> Any:
        """As `dequeue_many`, but give the rest, of at least one element, when the queue is closed with fewer than n.

        Args:
          n: int32 scalar, at least 0.
          name: the operation's name.
        Returns:
          The components, each `[m, ...]` with m <= n.
        Raises:
          InvalidArgumentError, EndOfDataError, AbortedError: see `dequeue_many`.
        """
        return self._taken("QueueDequeueUpToV2", (n,), (None,), name or "dequeue_up_to")

    def close(self, *, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Let it take no further elements; those that are in it can still be taken.

        Args:
          cancel_pending_enqueues: end the steps that wait for room with CancelledError; otherwise they are served
            first, and the step that closes waits for them.
          name: the operation's name.
        Returns:
          The operation to run; running it again raises CancelledError unless `cancel_pending_enqueues`.
        """
        closed: Operation = apply_op(
            "QueueCloseV2", self.handle, cancel_pending_enqueues=cancel_pending_enqueues, name=name or "close"
        )
        return closed

    def size(self, *, name: str | None = None) -> Tensor:
        """How many elements there are, int32 scalar."""
        size: Tensor = apply_op("QueueSizeV2", self.handle, name=name or "size")
        return size

    def is_closed(self, *, name: str | None = None) -> Tensor:
        """Whether it takes no further elements, bool scalar."""
        closed: Tensor = apply_op("QueueIsClosedV2", self.handle, name=name or "is_closed")
        return closed

    def _flat(self, element: Any) -> list[Tensor]:
        components = self._ordered(element)
        flat: list[TensorLike] = []
        for component, is_sparse in zip(components, self._sparse, strict=True):
            if isinstance(component, SparseTensor) is not is_sparse:
                raise InvalidArgumentError(
                    f"a component of queue '{self.name}' is of the wrong kind",
                    expected="an hr.SparseTensor" if is_sparse else "a dense tensor",
                    got=repr(component),
                    hint="dtypes=[hr.SparseTensor(hr.int64, hr.float32, hr.int64)] makes a queue of sparse tensors",
                )
            flat.extend(component if is_sparse else [component])
        return [convert_to_tensor(value, spec.dtype) for value, spec in zip(flat, self.specs, strict=True)]

    def _ordered(self, element: Any) -> Sequence[Any]:
        if self.names is not None:
            if not isinstance(element, Mapping) or set(element) != set(self.names):
                raise InvalidArgumentError(
                    f"an element of queue '{self.name}' is a dict",
                    expected=f"the keys {', '.join(self.names)}",
                    got=", ".join(map(str, element)) if isinstance(element, Mapping) else repr(element),
                    hint="give each component under its name",
                )
            return [element[name] for name in self.names]
        if len(self._sparse) == 1:
            listed = isinstance(element, (list, tuple)) and not isinstance(element, SparseTensor)
            single = listed and len(element) == 1 and isinstance(element[0], (Tensor, SparseTensor))
            return element if single else [element]
        if not isinstance(element, (list, tuple)) or len(element) != len(self._sparse):
            raise InvalidArgumentError(
                f"an element of queue '{self.name}' has another number of components",
                expected=f"a list of {len(self._sparse)}: {', '.join(map(str, self.specs))}",
                got=repr(element),
                hint="queue.enqueue([image, label])",
            )
        return element

    def _taken(self, op_type: str, inputs: Sequence[TensorLike], lead: Sequence[int | None], name: str) -> Any:
        dtypes = tuple(spec.dtype for spec in self.specs)
        components: tuple[Tensor, ...] = apply_op(op_type, self.handle, *inputs, component_types=dtypes, name=name)
        for component, spec in zip(components, self.specs, strict=True):  # a branch or loop sees only a handle
            if spec.shape.dims is not None:
                component.set_shape(Shape([*lead, *spec.shape.dims]))
        flat: Iterator[Tensor] = iter(components)
        parts = [SparseTensor(next(flat), next(flat), next(flat)) if sparse else next(flat) for sparse in self._sparse]
        if self.names is not None:
            return dict(zip(self.names, parts, strict=True))
        return parts[0] if len(parts) == 1 else tuple(parts)

    def __repr__(self) -> str:
        components = ", ".join(map(str, self.specs))
        return (
            f"<hr.{type(self).__name__} '{self.name}' of {components}; session.run(queue.dequeue()) takes an element>"
        )


class FIFOQueue(Queue):
    """A queue from which elements come in the order in which they were added.

    Args:
      capacity: how many elements it holds at most; -1 for no bound.
      dtypes: the dtype of each component, or one dtype; an `hr.SparseTensor` of dtypes for a sparse component.
      shapes: the shape of each component, without unknown sizes; without shapes elements may differ, but only be taken
        one by one.
      names: names for the components, whose elements are then dicts.
      shared_name: the name under which operations of several graphs reach the same queue of a session.
      name: the operation's name.
    Raises:
      InvalidArgumentError: shapes or names are wrong.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     queue = hr.FIFOQueue(10, hr.float32, shapes=[[]])
      ...     fill, close = queue.enqueue_many([1.0, 2.0, 3.0]), queue.close()
      ...     pair, rest = queue.dequeue_many(2), queue.dequeue_up_to(2)
      >>> with hr.Session(graph) as session:
      ...     _ = session.run(fill), session.run(close)
      ...     print(session.run(pair), session.run(rest))
      [1. 2.] [3.]
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        *,
        names: Sequence[str] | None = None,
        shared_name: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__("FIFOQueueV2", dtypes, shapes, names, name, capacity=capacity, shared_name=shared_name)


class PaddingFIFOQueue(Queue):
    """A first-in first-out queue of elements that differ in size; taken together, they are padded to the largest.

    Args:
      capacity: how many elements it holds at most; -1 for no bound.
      dtypes: the dtype of each component, or one dtype.
      shapes: the shape of each component, with None for sizes that differ; padding is zeros or empty strings.
      names: names for the components, whose elements are then dicts.
      shared_name: the name under which operations of several graphs reach the same queue of a session.
      name: the operation's name.
    Raises:
      InvalidArgumentError: shapes or names are wrong.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     queue = hr.PaddingFIFOQueue(10, hr.int32, shapes=[[None]])
      ...     short, long, both = queue.enqueue([1]), queue.enqueue([2, 3]), queue.dequeue_many(2)
      >>> with hr.Session(graph) as session:
      ...     _ = session.run(short), session.run(long)
      ...     print(session.run(both).tolist())
      [[1, 0], [2, 3]]
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        *,
        names: Sequence[str] | None = None,
        shared_name: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__("PaddingFIFOQueueV2", dtypes, shapes, names, name, capacity=capacity, shared_name=shared_name)


class PriorityQueue(Queue):
    """A queue from which the element of the least priority comes first, and of equal ones the one that was added first.

    Each element starts with its priority, an int64 scalar, which `dtypes` and `shapes` leave out.

    Args:
      capacity: how many elements it holds at most; -1 for no bound.
      dtypes: the dtype of each component after the priority, or one dtype.
      shapes: the shape of each of them, without unknown sizes.
      names: names for the components, the priority's first; elements are then dicts.
      shared_name: the name under which operations of several graphs reach the same queue of a session.
      name: the operation's name.
    Raises:
      InvalidArgumentError: shapes or names are wrong.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     queue = hr.PriorityQueue(10, hr.string, shapes=[[]])
      ...     fill = queue.enqueue_many([[3, 1, 2], ["c", "a", "b"]])
      ...     priority, word = queue.dequeue()
      >>> with hr.Session(graph) as session:
      ...     session.run(fill)
      ...     print(session.run(word))
      b'a'
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any = (),
        shapes: Any = None,
        *,
        names: Sequence[str] | None = None,
        shared_name: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__(
            "PriorityQueueV2", dtypes, shapes, names, name, with_priority=True, capacity=capacity,
            shared_name=shared_name,
        )  # fmt: skip


class RandomShuffleQueue(Queue):
    """A queue from which each of its elements comes next with equal probability.

    Args:
      capacity: how many elements it holds at most; -1 for no bound.
      min_after_dequeue: how many elements stay in it while it is open, so that there is something to choose from.
      dtypes: the dtype of each component, or one dtype.
      shapes: the shape of each component, without unknown sizes; without shapes elements may differ, but only be taken
        one by one.
      names: names for the components, whose elements are then dicts.
      seed: makes the order repeatable, given the order of adding and taking; TensorFlow's order for the same seeds.
      shared_name: the name under which operations of several graphs reach the same queue of a session.
      name: the operation's name.
    Raises:
      InvalidArgumentError: min_after_dequeue, shapes or names are wrong.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     queue = hr.RandomShuffleQueue(10, 0, hr.int32, shapes=[[]], seed=7)
      ...     fill, drawn = queue.enqueue_many([0, 1, 2, 3]), queue.dequeue_many(4)
      >>> with hr.Session(graph) as session:
      ...     session.run(fill)
      ...     print(sorted(session.run(drawn).tolist()))
      [0, 1, 2, 3]
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        *,
        names: Sequence[str] | None = None,
        seed: int | None = None,
        shared_name: str = "",
        name: str | None = None,
    ) -> None:
        first, second = operation_seeds(seed, current_graph())
        super().__init__(
            "RandomShuffleQueueV2", dtypes, shapes, names, name, capacity=capacity, shared_name=shared_name,
            min_after_dequeue=min_after_dequeue, seed=first, seed2=second,
        )  # fmt: skip


_DEFAULT_NAMES = {
    "FIFOQueueV2": "fifo_queue",
    "PaddingFIFOQueueV2": "padding_fifo_queue",
    "PriorityQueueV2": "priority_queue",
    "RandomShuffleQueueV2": "random_shuffle_queue",
}


def _flat_types(dtypes: Any, shapes: Any) -> tuple[tuple[bool, ...], list[DType], list[Shape]]:
    """Which components are sparse, and the dtypes and shapes of all dense ones; no shapes if none are given."""
    listed = [dtypes] if isinstance(dtypes, SparseTensor) or not isinstance(dtypes, (list, tuple)) else list(dtypes)
    sparse = tuple(isinstance(item, SparseTensor) for item in listed)
    flat_dtypes = [as_dtype(part) for item in listed for part in _parts(item)]
    if shapes is None:
        return sparse, flat_dtypes, []
    given = list(shapes) if isinstance(shapes, (list, tuple)) else [shapes]
    if len(given) != len(listed) or [isinstance(item, SparseTensor) for item in given] != list(sparse):
        raise InvalidArgumentError(
            "the shapes of a queue do not go with its dtypes",
            expected=f"a list of {len(listed)} shapes, an hr.SparseTensor of shapes for a sparse component",
            got=repr(shapes),
            hint="shapes=[[]] for one component that is a scalar",
        )
    return sparse, flat_dtypes, [as_shape(part) for item in given for part in _parts(item)]


def _parts(item: Any) -> tuple[Any, ...]:
    return tuple(item) if isinstance(item, SparseTensor) else (item,)
