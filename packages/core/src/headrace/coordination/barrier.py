"""Barriers as users hold them: elements are put together by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Operation, Tensor
from headrace.ops.barriers import barrier_specs
from headrace.types import DTypeLike, Shape, ShapeLike, TensorSpec, as_dtype, as_shape, string

__all__ = ["Barrier", "TakenElements"]


class TakenElements(NamedTuple):
    """Elements taken from a barrier.

    Attributes:
      indices: int64 `[n]`; elements that began with one insertion have the same number, later ones a greater.
      keys: string `[n]`.
      values: for each component `[n, ...]`.
    """

    indices: Tensor
    keys: Tensor
    values: tuple[Tensor, ...]


class Barrier:
    """Puts together elements whose components come from different steps; one that has all of them is ready.

    Args:
      dtypes: the dtype of each component.
      shapes: the shape of each, without unknown sizes; scalars by default.
      shared_name: the name under which operations of several graphs reach the same barrier of a session.
      name: the operation's name.
    Attributes:
      handle: the handle of the barrier, for `hr.apply_op`.
      specs: dtype and shape of each component.
    Raises:
      InvalidArgumentError: the shapes are wrong.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     barrier = hr.Barrier([hr.float32, hr.string])
      ...     numbers = barrier.insert_many(0, ["a", "b"], [1.0, 2.0])
      ...     words = barrier.insert_many(1, ["b"], ["two"])
      ...     taken = barrier.take_many(1)
      >>> with hr.Session(graph) as session:
      ...     session.run(numbers)
      ...     session.run(words)
      ...     print(session.run([taken.keys, *taken.values]))
      [array([b'b'], dtype=object), array([2.], dtype=float32), array([b'two'], dtype=object)]
    """

    def __init__(
        self,
        dtypes: Sequence[DTypeLike],
        shapes: Sequence[ShapeLike] | None = None,
        *,
        shared_name: str = "",
        name: str | None = None,
    ) -> None:
        self.handle: Tensor = apply_op(
            "Barrier",
            component_types=[as_dtype(dtype) for dtype in dtypes],
            shapes=[Shape([])] * len(dtypes) if shapes is None else [as_shape(shape) for shape in shapes],
            shared_name=shared_name,
            name=name or "barrier",
        )
        self.specs: tuple[TensorSpec, ...] = barrier_specs(self.handle.op)

    @property
    def name(self) -> str:
        """The name of the operation that makes it."""
        return self.handle.op.name

    def insert_many(
        self, component_index: int, keys: TensorLike, values: TensorLike, *, name: str | None = None
    ) -> Operation:
        """Give elements one of their components.

        Args:
          component_index: which one.
          keys: string `[n]`, the keys of the elements.
          values: `[n, ...]`, the component of each.
          name: the operation's name.
        Returns:
          The operation to run.
        Raises:
          InvalidArgumentError: in the step: there is no such component, or an element has it already.
          CancelledError: in the step: the barrier is closed and a key is new.
        """
        known = 0 <= component_index < len(self.specs)
        inserted: Operation = apply_op(
            "BarrierInsertMany",
            self.handle,
            convert_to_tensor(keys, string),
            convert_to_tensor(values, self.specs[component_index].dtype if known else None),
            component_index=component_index,
            name=name or "insert_many",
        )
        return inserted

    def take_many(
        self, num_elements: TensorLike, *, allow_small_batch: bool = False, name: str | None = None
    ) -> TakenElements:
        """Take elements that are ready, waiting until there are enough; those that began first come first.

        Args:
          num_elements: int32 scalar.
          allow_small_batch: take the rest, of at least one element, once the barrier is closed.
          name: the operation's name.
        Returns:
          The elements.
        Raises:
          EndOfDataError: in the step: the barrier is closed and will not have enough.
        """
        indices, keys, values = apply_op(
            "BarrierTakeMany",
            self.handle,
            num_elements,
            component_types=[spec.dtype for spec in self.specs],
            allow_small_batch=allow_small_batch,
            name=name or "take_many",
        )
        return TakenElements(indices, keys, values)

    def close(self, *, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Let it take no new keys.

        Args:
          cancel_pending_enqueues: drop elements that lack components, which may otherwise still get them.
          name: the operation's name.
        Returns:
          The operation to run.
        """
        closed: Operation = apply_op(
            "BarrierClose", self.handle, cancel_pending_enqueues=cancel_pending_enqueues, name=name or "close"
        )
        return closed

    def ready_size(self, *, name: str | None = None) -> Tensor:
        """How many elements are ready, int32 scalar."""
        size: Tensor = apply_op("BarrierReadySize", self.handle, name=name or "ready_size")
        return size

    def incomplete_size(self, *, name: str | None = None) -> Tensor:
        """How many elements lack components, int32 scalar."""
        size: Tensor = apply_op("BarrierIncompleteSize", self.handle, name=name or "incomplete_size")
        return size

    def __repr__(self) -> str:
        return f"<hr.Barrier '{self.name}' of {', '.join(map(str, self.specs))}>"
