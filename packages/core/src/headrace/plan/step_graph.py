"""StepGraph: what the executor runs where a step cannot be one segment - segments, operations that wait, and tokens.

Data only: `plan.segments` cuts a bounded graph into one, `runtime.step_state` runs through it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.graph.graph import Graph
from headrace.graph.operation import Operation

__all__ = ["Kind", "StepFrame", "StepGraph", "StepNode"]


class Kind(enum.IntEnum):
    """What happens when all inputs of a node are there."""

    SEGMENT = 0
    """Compiled code runs and does not wait."""
    WAIT = 1
    """An operation runs that may wait for others."""
    SWITCH = 2
    MERGE = 3
    LOOP_HEAD = 4
    """A Merge with a back edge: it takes one value in each iteration."""
    ENTER = 5
    EXIT = 6
    NEXT_ITERATION = 7
    PASS = 8
    """A LoopCond: the value is passed on."""
    TRIGGER = 9
    """A ControlTrigger: alive even if what it waits for is dead."""
    RESULT = 10
    """A result of the step."""


@dataclass(slots=True, eq=False)
class StepNode:
    """A vertex of a step graph. Built by `plan.segments`, constant from then on.

    Attributes:
      index: its position in the step graph.
      kind: what happens when its inputs are there.
      operations: the operations it stands for; one, unless it is a segment.
      frame: the frame in which it runs.
      local: its position among the nodes of its frame.
      first_slot: the first of the places for its inputs among those of its frame; a Merge has three, for the value that
        came, which input it was, and how many dead tokens came.
      width: the number of its inputs.
      edges: how many edges have to bring something before it runs.
      constants: inputs that are the same in every step, by position.
      consumers: for each output who reads it, as pairs of node and position.
      followers: the nodes that only wait for it.
      target: for ENTER the frame that it leads to.
      is_constant: for ENTER, the value is there in every iteration.
      passes_dead: it runs even if inputs are dead.
      number: for RESULT which one it is.
      graph: what to compile for a SEGMENT or WAIT: a bounded graph; None where there is nothing to compute.
    """

    index: int
    kind: Kind
    operations: tuple[Operation, ...]
    frame: StepFrame
    width: int = 0
    local: int = 0
    first_slot: int = 0
    edges: int = 0
    constants: dict[int, Any] = field(default_factory=dict)
    consumers: list[list[tuple[StepNode, int]]] = field(default_factory=list)
    followers: list[StepNode] = field(default_factory=list)
    target: StepFrame | None = None
    is_constant: bool = False
    passes_dead: bool = False
    number: int = 0
    graph: Graph | None = None

    @property
    def name(self) -> str:
        """What errors and traces call it."""
        more = f" and {len(self.operations) - 1} more" if len(self.operations) > 1 else ""
        return f"{self.operations[0].type} '{self.operations[0].name}'{more}" if self.operations else "nothing"

    def __repr__(self) -> str:
        return f"<{self.kind.name} {self.index}: {self.name}>"


@dataclass(slots=True, eq=False)
class StepFrame:
    """A loop of a step graph, or what is outside all loops.

    Attributes:
      name: its name; empty outside all loops.
      parent: the frame around it, or None.
      parallel_iterations: how many iterations may be under way at once.
      nodes: the nodes that run in it.
      slots: how many places for inputs they have.
      enters: how many nodes bring values in.
      exits: the nodes that bring values out.
      edges: for each node, how many edges have to bring something.
      values: the places for inputs, with constants in theirs.
      starters: the nodes that wait for nothing.
    """

    name: str
    parent: StepFrame | None
    parallel_iterations: int
    nodes: list[StepNode] = field(default_factory=list)
    slots: int = 0
    enters: int = 0
    exits: list[StepNode] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    starters: list[StepNode] = field(default_factory=list)

    def add(self, node: StepNode) -> None:
        """Give a node its places in this frame."""
        node.local, node.first_slot = len(self.nodes), self.slots
        self.nodes.append(node)
        self.slots += max(node.width, 3) if node.kind in (Kind.MERGE, Kind.LOOP_HEAD) else node.width
        if node.kind is Kind.EXIT:
            self.exits.append(node)

    def seal(self) -> None:
        """Fill in what follows from the nodes, when all are there."""
        self.edges = [node.edges for node in self.nodes]
        self.values = [None] * self.slots
        for node in self.nodes:
            for position, value in node.constants.items():
                self.values[node.first_slot + position] = value
        self.starters = [node for node in self.nodes if not node.edges and self.parent is None]


@dataclass(frozen=True, slots=True)
class StepGraph:
    """What the executor runs.

    Attributes:
      nodes: the vertices.
      frames: the frames, each after the one around it; the first is the outside of all loops.
      arguments: for each argument of the step who reads it.
      result_count: how many results the step has.
      results: for each result the name of the tensor, for errors.
    """

    nodes: Sequence[StepNode]
    frames: Sequence[StepFrame]
    arguments: Mapping[int, Sequence[tuple[StepNode, int]]]
    result_count: int
    results: Mapping[int, str]

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations of all segments and of all nodes that wait, node by node."""
        return tuple(op for node in self.nodes if node.kind <= Kind.WAIT for op in node.operations)

    def __str__(self) -> str:
        """One line for each node, for goldens and for reading."""
        lines = []
        for node in self.nodes:
            readers = [
                f"{position}>{target.index}.{slot}"
                for position, consumers in enumerate(node.consumers)
                for target, slot in consumers
            ]
            readers += [f"^{target.index}" for target in node.followers]
            place = f" in {node.frame.name}" if node.frame.name else ""
            lines.append(f"{node.index}: {node.kind.name} {node.name}{place} -> {' '.join(readers) or '-'}")
        return "\n".join(lines)
