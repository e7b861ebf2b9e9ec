"""Mutual exclusion between steps (`hr.CriticalSection`): a lock behind a handle, held until its holder lets it go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.graph import attr
from headrace.graph.apply import apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import control_dependencies
from headrace.ops.branching import check_callable
from headrace.ops.structure import flatten
from headrace.types import Shape

__all__ = ["CriticalSection"]


@register_op(
    "MutexV2",
    outputs={"resource": "resource"},
    attrs={"container": attr.string(""), "shared_name": attr.string("")},
    stateful=True,
    reads_only=True,
)
def _mutex_shape(op: InferenceContext) -> list[Shape]:
    """The handle of a lock that one step at a time holds."""
    return [Shape([])]


@register_op("MutexLock", inputs={"mutex": "resource"}, outputs={"mutex_lock": "variant"}, stateful=True, blocks=True)
def _mutex_lock_shape(op: InferenceContext) -> list[Shape]:
    """Waits for a lock and holds it, until what it gives is consumed or the step is over."""
    return [Shape([])]


@register_op("ConsumeMutexLock", inputs={"mutex_lock": "variant"}, stateful=True)
def _consume_mutex_lock_shape(op: InferenceContext) -> list[Shape]:
    """Lets a lock go."""
    op.inputs[0].shape.with_rank(0)
    return []


class CriticalSection:
    """A part of a graph that one step at a time runs: others that reach it wait.

    Args:
      name: the name of the lock; sections of one session that share a name exclude each other.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     v = hr.Variable(0)
      ...     section = hr.CriticalSection()
      ...     def doubled():
      ...         with hr.control_dependencies([v.assign(v.read() * 2 + 1)]):
      ...             return hr.identity(v.read())
      ...     x = section.execute(doubled)
      >>> with hr.Session(graph) as session:
      ...     print(session.run(x), session.run(x))
      1 3
    """

    def __init__(self, *, name: str | None = None) -> None:
        self.handle: Tensor = apply_op("MutexV2", shared_name=name or "", name=name or "critical_section")

    def execute(self, function: Callable[[], Any], *, name: str | None = None) -> Any:
        """Add a part that runs while no other step is in this section.

        Args:
          function: adds the part; it returns tensors, or a structure of them.
          name: names the operation that waits.
        Returns:
          What `function` returned, as tensors that are there when the section is free again.
        """
        check_callable(function, "what CriticalSection.execute was given")
        lock: Tensor = apply_op("MutexLock", self.handle, name=name)
        with control_dependencies([lock.op]):
            leaves, rebuild = flatten(function())
        operations = [leaf.op if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        with control_dependencies([lock.op, *operations]):
            freed: Operation = apply_op("ConsumeMutexLock", lock)
        with control_dependencies([freed]):
            return rebuild([apply_op("Identity", leaf) if isinstance(leaf, Tensor) else freed for leaf in leaves])
