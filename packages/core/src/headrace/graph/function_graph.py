"""FunctionGraph: the graph of a traced function, in which effects keep the order of the program."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.graph.attr import AttrValue
from headrace.graph.graph import Graph
from headrace.graph.op_def import OpDef
from headrace.graph.operation import Operation, Tensor
from headrace.graph.source import SourceLine
from headrace.types import resource

__all__ = ["FunctionGraph"]


@dataclass(slots=True)
class _History:
    """What has happened to one resource so far. Mutable."""

    last_write: Operation | None = None
    reads: list[Operation] = field(default_factory=list)


class FunctionGraph(Graph):
    """A graph that adds control edges between operations on one resource.

    A read sees every earlier write and no later one.

    Attributes:
      is_function: marks it for code that behaves differently inside a traced function.
    """

    is_function = True

    def __init__(self) -> None:
        super().__init__(extend=True)
        self._histories: dict[Hashable, _History] = {}

    @property
    def effects(self) -> list[Operation]:
        """The operations that change something outside, in the order of the program."""
        return [op for op in self.operations if op.op_def.has_effect]

    def create_op(
        self,
        type_name: str,
        inputs: Sequence[Tensor] = (),
        attrs: Mapping[str, AttrValue] | None = None,
        *,
        name: str | None = None,
        control_inputs: Sequence[Operation] = (),
        device: str | None = None,
        colocation: Sequence[str] = (),
        source: SourceLine | None = None,
        op_def: OpDef | None = None,
        like: Operation | None = None,
    ) -> Operation:
        """Add one operation (see `Graph.create_op`), after the operations whose effect it must see."""
        keys = {_resource_key(tensor) for tensor in inputs if tensor.dtype is resource}
        histories = [self._histories.setdefault(key, _History()) for key in keys]
        earlier = [history.last_write for history in histories if history.last_write is not None]
        operation = super().create_op(
            type_name,
            inputs,
            attrs,
            name=name,
            control_inputs=(*control_inputs, *earlier),
            device=device,
            colocation=colocation,
            source=source,
            op_def=op_def,
            like=like,
        )
        if operation.op_def.has_effect and histories:
            operation.control_inputs = _with_reads(operation, histories)
        for history in histories:
            if operation.op_def.has_effect:
                history.last_write, history.reads = operation, []
            else:
                history.reads.append(operation)
        return operation


def _with_reads(operation: Operation, histories: Sequence[_History]) -> tuple[Operation, ...]:
    """A write waits for the reads since the last write as well; they must not see it."""
    reads = [op for history in histories for op in history.reads]
    return tuple(dict.fromkeys((*operation.control_inputs, *reads)))


def _resource_key(tensor: Tensor) -> Hashable:
    source = tensor.op
    while source.type == "Identity":
        source = source.inputs[0].op
    if source.type == "VarHandleOp":
        return (source.attrs["container"], source.attrs["shared_name"] or source.name)
    return tensor
