"""EffectOrder: what keeps effects in program order, in traced functions and where they are called in graphs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from headrace.graph.op_def import OpDef
from headrace.graph.operation import Operation, Tensor, origin
from headrace.types import resource

__all__ = ["EffectOrder"]


@dataclass(slots=True)
class _History:
    """What has happened to one resource so far. Mutable."""

    last_write: Operation | None = None
    reads: list[Operation] = field(default_factory=list)


class EffectOrder:
    """The operations on each resource so far. A read sees every earlier write and no later one. Mutable.

    Attributes:
      effects: the operations that change something outside, in the order of the program.
      new_variables: the names of the variables that were made meanwhile.
    """

    def __init__(self) -> None:
        self.effects: list[Operation] = []
        self.new_variables: list[str] = []
        self._histories: dict[Hashable, _History] = {}

    def before(self, op_def: OpDef, inputs: Sequence[Tensor]) -> list[Operation]:
        """The operations that one of this type on these inputs must wait for.

        A write waits for the reads since the last write as well; they must not see it.
        """
        histories = [self._histories.setdefault(key, _History()) for key in _resources(inputs)]
        earlier = [history.last_write for history in histories if history.last_write is not None]
        return earlier + [read for history in histories if op_def.has_effect for read in history.reads]

    def record(self, operation: Operation) -> None:
        """Take note that an operation was added."""
        has_effect = operation.op_def.has_effect
        if has_effect:
            self.effects.append(operation)
        for key in _resources(operation.inputs):
            history = self._histories[key]
            if has_effect:
                history.last_write, history.reads = operation, []
            else:
                history.reads.append(operation)


def _resources(inputs: Sequence[Tensor]) -> set[Hashable]:
    return {_resource_key(tensor) for tensor in inputs if tensor.dtype is resource}


def _resource_key(tensor: Tensor) -> Hashable:
    source = origin(tensor)
    if source.type == "VarHandleOp":
        return (source.attrs["container"], source.attrs["shared_name"] or source.name)
    return tensor
