"""EffectOrder: what keeps effects in program order, in traced functions and where they are called in graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.graph.attr import AttrValue
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.op_def import OpDef
from headrace.graph.operation import Effects, Operation, Tensor, bodies_of, origin
from headrace.types import resource

__all__ = ["EffectOrder", "effects_of_body"]


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

    def before(
        self, op_def: OpDef, attrs: Mapping[str, AttrValue], inputs: Sequence[Tensor], functions: FunctionLibrary
    ) -> list[Operation]:
        """The operations that one of this type on these inputs must wait for.

        A write waits for the reads since the last write as well; they must not see it. What calls functions writes what
        one of them may write.
        """
        earlier: list[Operation] = []
        for key, writes in _uses(op_def, attrs, inputs, functions).items():
            history = self._histories.setdefault(key, _History())
            earlier += [] if history.last_write is None else [history.last_write]
            earlier += history.reads if writes else []
        return earlier

    def record(self, operation: Operation) -> None:
        """Take note that an operation was added."""
        if operation.has_effect:
            self.effects.append(operation)
        uses = _uses(operation.op_def, operation.attrs, operation.inputs, operation.graph.functions)
        for key, writes in uses.items():
            history = self._histories.setdefault(key, _History())
            if writes:
                history.last_write, history.reads = operation, []
            else:
                history.reads.append(operation)


def effects_of_body(operations: Iterable[Operation]) -> Effects:
    """What the operations of a function do, and to which of its arguments."""
    reads: set[int] = set()
    writes: set[int] = set()
    stateful = has_effect = blocks = False
    for op in operations:
        stateful |= op.is_stateful
        has_effect |= op.has_effect
        blocks |= op.blocks
        for tensor, changed in _touched(op.op_def, op.attrs, op.inputs, op.graph.functions):
            source = origin(tensor)
            if source.type == "_Arg":
                (writes if changed else reads).add(source.attrs["index"])
    return Effects(frozenset(reads), frozenset(writes), stateful, has_effect, blocks)


def _touched(
    op_def: OpDef, attrs: Mapping[str, AttrValue], inputs: Sequence[Tensor], functions: FunctionLibrary
) -> list[tuple[Tensor, bool]]:
    """The resources that an operation reads (False) or may change (True)."""
    handles = [(index, tensor) for index, tensor in enumerate(inputs) if tensor.dtype is resource]
    if not handles:
        return []
    bodies = bodies_of(op_def, attrs, functions)
    if not bodies:
        return [(tensor, op_def.has_effect) for _, tensor in handles]
    touched: list[tuple[Tensor, bool]] = []
    for body in bodies:
        before = len(inputs) - len(body.arguments)  # a predicate or branch index that the functions do not see
        for index, tensor in handles:
            if index - before in body.effects.writes:
                touched.append((tensor, True))
            elif index - before in body.effects.reads:
                touched.append((tensor, False))
    return touched


def _uses(
    op_def: OpDef, attrs: Mapping[str, AttrValue], inputs: Sequence[Tensor], functions: FunctionLibrary
) -> dict[Hashable, bool]:
    uses: dict[Hashable, bool] = {}
    for tensor, writes in _touched(op_def, attrs, inputs, functions):
        key = _resource_key(tensor)
        uses[key] = uses.get(key, False) or writes
    return uses


def _resource_key(tensor: Tensor) -> Hashable:
    source = origin(tensor)
    if source.type == "VarHandleOp":
        return (source.attrs["container"], source.attrs["shared_name"] or source.name)
    return tensor
