"""Frames: which loop of primitive operations each operation belongs to, and the edges that lead backward.

A frame is what `Enter` operations of one name open; nested frames have one around them. An operation runs once in each
iteration of its frame, so every input must come from the same frame: values come in by `Enter` and leave by `Exit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.errors import DTypeError, GraphError, ShapeError
from headrace.graph.operation import Operation, Tensor
from headrace.types import resource

if TYPE_CHECKING:
    from headrace.graph.graph import Graph

__all__ = [
    "LOWERED",
    "MAY_BE_DEAD",
    "MAY_NOT_RUN",
    "PASSES_DEAD",
    "TOKEN_TYPES",
    "Frame",
    "Frames",
    "back_edge",
    "check_back_edge",
    "forward_inputs",
    "has_tokens",
    "is_anywhere",
]

TOKEN_TYPES = frozenset({"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ControlTrigger"})
"""The types that live on tokens: the executor runs them, not a backend."""


MAY_BE_DEAD = "_may_be_dead"
"""The annotation of a `_Recv` whose value may be dead."""

PASSES_DEAD = "_passes_dead"
"""The annotation of a `_Send` whose value may be dead: it runs all the same."""

MAY_NOT_RUN = "_may_not_run"
"""The annotation of a copy whose shapes do not fit each other: an error only if the step at hand comes to it."""

LOWERED = "_lowered"
"""The annotation of an operation that lowering adds to say where others run; in structured form there is none of it."""


def has_tokens(graph: Graph) -> bool:
    """True if values of the graph may be dead: there is a branch or loop, here or on a device that sends something."""
    return any(op.type in ("Switch", "Enter") or MAY_BE_DEAD in op.attrs for op in graph.operations)


def back_edge(op: Operation) -> Tensor | None:
    """The input that closes a loop, where `op` is the head of one; every other edge leads forward."""
    is_head = op.type == "Merge" and len(op.inputs) > 1 and op.inputs[-1].op.type == "NextIteration"
    return op.inputs[-1] if is_head else None


def forward_inputs(op: Operation) -> tuple[Tensor, ...]:
    """The inputs without the one that closes a loop."""
    return op.inputs if back_edge(op) is None else op.inputs[:-1]


def is_anywhere(op: Operation) -> bool:
    """True if the operation belongs to no frame, since its value is the same everywhere: constants and handles."""
    if op.inputs or op.control_inputs or not op.outputs:
        return False
    return op.type == "Const" or all(output.dtype is resource for output in op.outputs)


@dataclass(frozen=True, eq=False)
class Frame:
    """A loop, or what is outside all loops.

    Attributes:
      name: the name that its `Enter` operations give; empty outside all loops.
      parent: the frame around it, or None.
      parallel_iterations: how many iterations may be under way at once.
      enters: the operations that open it.
    """

    name: str = ""
    parent: Frame | None = None
    parallel_iterations: int = 1
    enters: list[Operation] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"loop '{self.name}'" if self.parent is not None else "the outside of all loops"

    def is_around(self, other: Frame) -> bool:
        """True if `other` lies in this frame, at any depth."""
        inner = other.parent
        while inner is not None and inner is not self:
            inner = inner.parent
        return inner is self


class Frames:
    """The frame of each operation of a graph.

    Args:
      graph: any graph; forward edges lead to later operations.
      operations: the part of it to look at; what that reads from elsewhere is outside all loops.
    Attributes:
      root: the outside of all loops.
    Raises:
      GraphError: a loop is not well formed; the text names the edge.
    """

    def __init__(self, graph: Graph, operations: Sequence[Operation] | None = None) -> None:
        operations = graph.operations if operations is None else operations
        self.root = Frame()
        self._frames: dict[Operation, Frame] = {}
        self._children: dict[tuple[Frame, str], Frame] = {}
        for op in operations:
            self._frames[op] = self._frame_of(op)
            if op.type == "Enter":
                self._open(op)
        for op in operations:
            self._check_loop(op)

    def __getitem__(self, op: Operation) -> Frame:
        """The frame in which `op` runs: for an `Enter` the one outside, for an `Exit` the one inside."""
        return self._frames[op]

    def __iter__(self) -> Iterator[Frame]:
        """All frames, each after the one around it."""
        return iter((self.root, *self._children.values()))

    def after(self, op: Operation) -> Frame:
        """The frame of what reads `op`."""
        frame = self._frames.get(op, self.root)
        if op.type == "Enter" and op in self._frames:
            return self._children[frame, op.attrs["frame_name"]]
        return frame.parent if op.type == "Exit" and frame.parent is not None else frame

    def _frame_of(self, op: Operation) -> Frame:
        sources = [(tensor.name, tensor.op) for tensor in forward_inputs(op)]
        sources += [(f"^{item.name}", item) for item in op.control_inputs]
        framed = [
            (name, self.after(source)) for name, source in sources if op.type == "Merge" or not is_anywhere(source)
        ]
        frame = framed[0][1] if framed else self.root
        for name, other in framed:
            if other is not frame:
                raise _crossing(op, framed[0][0] if frame.is_around(other) else name, frame, other)
        return frame

    def _open(self, op: Operation) -> None:
        outer, name = self._frames[op], op.attrs["frame_name"]
        frame = self._children.get((outer, name))
        if frame is None:
            frame = self._children[outer, name] = Frame(name, outer, op.attrs["parallel_iterations"])
        frame.enters.append(op)

    def _check_loop(self, op: Operation) -> None:
        frame = self._frames[op]
        if op.type in ("Exit", "NextIteration") and frame is self.root:
            raise _malformed(op, f"{op.type} inside a loop", "one outside all loops")
        back = back_edge(op)
        if back is not None and self._frames[back.op] is not frame:
            raise _crossing(op, back.name, frame, self._frames[back.op])
        for tensor in forward_inputs(op):
            if tensor.op.type == "NextIteration":
                raise _malformed(op, "a NextIteration read by the Merge at the head of its loop alone", tensor.name)
        entered = [tensor for tensor in op.inputs if tensor.op.type == "Enter" and not tensor.op.attrs["is_constant"]]
        if op.type == "Merge" and back is None and entered and len(entered) == len(op.inputs):
            raise _malformed(op, "a Merge at the head of a loop with a back edge", "none: graph.close_loop adds it")
        if back is not None and len(entered) != 1:
            raise _malformed(
                op,
                "one Enter and one NextIteration at the head of a loop",
                ", ".join(f"'{tensor.name}' of {tensor.op.type}" for tensor in op.inputs),
            )


def _crossing(op: Operation, edge: str, frame: Frame, other: Frame) -> GraphError:
    if frame.name == other.name and frame.parent is not None and other.parent is not None:
        return GraphError(
            f"'{op.name}' reads '{edge}' from another loop of the same name",
            where=op.location,
            expected="inputs of one frame, whose Enter operations all lie in the same loop",
            got=f"loop '{frame.name}' opened from {frame.parent.label} and from {other.parent.label}",
            hint="inside a loop, let Enter read a value of that loop (x * 0 for 0): a constant belongs to none",
        )
    inner, outer = (frame, other) if other.is_around(frame) else (other, frame)
    return GraphError(
        f"the edge from '{edge}' to '{op.name}' crosses the border of a loop",
        where=op.location,
        expected="inputs of one frame: values come in by Enter and leave by Exit",
        got=f"one from {inner.label} and one from {outer.label}",
        hint="bring the value in with Enter(is_constant=True), or read what Exit gives after the loop",
    )


def _malformed(op: Operation, expected: str, got: str) -> GraphError:
    return GraphError(
        f"the loop around '{op.name}' is not well formed",
        where=op.location,
        expected=expected,
        got=got,
        hint="hr.while_loop builds well-formed loops",
    )


def check_back_edge(graph: Graph, merge: Operation, back: Tensor) -> None:
    """Raise unless `back` may close the loop at `merge` (see `Graph.close_loop`)."""
    if merge.graph is not graph or back.op.graph is not graph:
        raise _not_closable(merge, back, "operations of this graph", "one of another graph")
    if merge.type != "Merge" or any(tensor.op.type != "Enter" for tensor in merge.inputs):
        found = _described(merge.inputs) if merge.type == "Merge" else merge.type
        raise _not_closable(merge, back, "a Merge that reads an Enter and has no back edge yet", found)
    if back.op.type != "NextIteration":
        raise _not_closable(merge, back, "the output of a NextIteration", f"one of {back.op.type}")
    variable = merge.outputs[0]
    if back.dtype is not variable.dtype:
        raise DTypeError(
            f"the loop variable '{variable.name}' changes its dtype",
            where=merge.location,
            expected=str(variable.dtype),
            got=f"'{back.name}' {back.spec}",
            hint=f"hr.astype(value, hr.{variable.dtype}) before NextIteration",
        )
    if variable.shape.relax(back.shape) != variable.shape:
        raise ShapeError(
            f"the loop variable '{variable.name}' changes its static shape",
            where=merge.location,
            expected=str(variable.shape),
            got=f"'{back.name}' {back.spec}",
            hint="let Enter read hr.placeholder_with_default(value, shape) with the sizes that change left open",
        )


def _described(inputs: Sequence[Tensor]) -> str:
    return "a Merge of " + ", ".join(f"{tensor.op.type} '{tensor.op.name}'" for tensor in inputs)


def _not_closable(merge: Operation, back: Tensor, expected: str, got: str) -> GraphError:
    return GraphError(
        f"'{back.name}' cannot close a loop at '{merge.name}'",
        where=merge.location,
        expected=expected,
        got=got,
        hint="merge, _ = hr.apply_op('Merge', [enter]); graph.close_loop(merge.op, hr.apply_op('NextIteration', x))",
    )
