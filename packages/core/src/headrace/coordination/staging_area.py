"""Staging areas as users hold them: tensors that are kept ready for a later step."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import current_graph
from headrace.types import DTypeLike, ShapeLike, TensorSpec, as_dtype, as_shape

__all__ = ["StagingArea"]


class StagingArea:
    """A buffer between steps, as a queue without an end: one step puts an element in, a later one gets it out.

    Args:
      dtypes: the dtype of each component.
      shapes: what is known of the shape of each.
      capacity: how many elements it holds at most; 0 for no bound.
      memory_limit: how many bytes it holds at most; 0 for no bound.
      shared_name: its name in the session; one of its own by default.
    Attributes:
      specs: dtype and shape of each component.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     area = hr.StagingArea([hr.float32], [[2]])
      ...     put, (got,) = area.put([[1.0, 2.0]]), area.get()
      >>> with hr.Session(graph) as session:
      ...     session.run(put)
      ...     print(session.run(got))
      [1. 2.]
    """

    def __init__(
        self,
        dtypes: Sequence[DTypeLike],
        shapes: Sequence[ShapeLike] | None = None,
        *,
        capacity: int = 0,
        memory_limit: int = 0,
        shared_name: str = "",
    ) -> None:
        given = [None] * len(dtypes) if shapes is None else shapes
        self.specs = tuple(
            TensorSpec(as_dtype(dtype), as_shape(shape)) for dtype, shape in zip(dtypes, given, strict=True)
        )
        self.shared_name = shared_name or _free_name(current_graph())
        self._attrs = {
            "dtypes": [spec.dtype for spec in self.specs],
            "capacity": capacity,
            "memory_limit": memory_limit,
            "shared_name": self.shared_name,
        }

    def put(self, element: Sequence[TensorLike], *, name: str | None = None) -> Operation:
        """Put an element in, waiting for room.

        Args:
          element: the components.
          name: the operation's name.
        Returns:
          The operation to run.
        Raises:
          ResourceExhaustedError: in the step: the element alone is larger than the limit.
        """
        values = [convert_to_tensor(value, spec.dtype) for value, spec in zip(element, self.specs, strict=True)]
        for value, spec in zip(values, self.specs, strict=True):
            value.shape.merge(spec.shape)
        put: Operation = apply_op("Stage", values, name=name or "put", **self._attrs)
        return put

    def get(self, *, name: str | None = None) -> tuple[Tensor, ...]:
        """Take the first element, waiting for one.

        Args:
          name: the operation's name.
        Returns:
          The components.
        """
        return self._shaped(apply_op("Unstage", name=name or "get", **self._attrs))

    def peek(self, index: TensorLike, *, name: str | None = None) -> tuple[Tensor, ...]:
        """The element at a place, which stays there, waiting until there is one.

        Args:
          index: int32 scalar, the place, from 0.
          name: the operation's name.
        Returns:
          The components.
        """
        return self._shaped(apply_op("StagePeek", index, name=name or "peek", **self._attrs))

    def size(self, *, name: str | None = None) -> Tensor:
        """How many elements there are, int32 scalar."""
        size: Tensor = apply_op("StageSize", name=name or "size", **self._attrs)
        return size

    def clear(self, *, name: str | None = None) -> Operation:
        """Drop all elements.

        Args:
          name: the operation's name.
        Returns:
          The operation to run.
        """
        cleared: Operation = apply_op("StageClear", name=name or "clear", **self._attrs)
        return cleared

    def _shaped(self, components: Any) -> tuple[Tensor, ...]:
        for component, spec in zip(components, self.specs, strict=True):
            component.set_shape(spec.shape)
        return tuple(components)

    def __repr__(self) -> str:
        return f"<hr.StagingArea '{self.shared_name}' of {', '.join(map(str, self.specs))}>"


_counts: weakref.WeakKeyDictionary[Graph, int] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _free_name(graph: Graph) -> str:
    """A name of its own for each staging area of a graph, the same in each run of a program."""
    with _lock:
        number = _counts.get(graph, 0)
        _counts[graph] = number + 1
    return f"staging_area_{number}"
