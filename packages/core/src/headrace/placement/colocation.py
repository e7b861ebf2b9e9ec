"""Colocation groups: operations that must share a device, and why.

Whoever takes a handle lives with the operation that makes it (implicit), and whoever was made inside `colocate_with`
lives with what was named there (explicit). The head of a loop lives with what brings its variable in and back, since
one of these brings something in the first iteration only and the other in later ones only.

Groups are found by union-find over names, since an operation may be named that this step does not need; the edges are
kept as well, so that an error can tell how two operations came together.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from headrace.graph.frames import back_edge
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, origin
from headrace.passes.fold import user_name
from headrace.types import resource

__all__ = ["ColocationGroup", "Link", "colocation_groups", "makes_handle", "path_between", "takes_handle"]


@dataclass(frozen=True, slots=True)
class Link:
    """Why one operation shares the device of another.

    Attributes:
      name: the other operation's name.
      reason: how the first one came to it, to be read after the first one's name.
    """

    name: str
    reason: str


@dataclass(slots=True)
class ColocationGroup:
    """Operations that share a device. Mutable while it is being built.

    Attributes:
      members: the operations, in the order of the graph.
      absent: names of operations that belong to the group but not to the graph.
      links: for each name the names it was bound to, and why.
    """

    members: list[Operation] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    links: dict[str, list[Link]] = field(default_factory=dict)


def makes_handle(op: Operation) -> bool:
    """True if state comes with the operation: it gives a handle that it did not take."""
    gives = any(output.dtype is resource for output in op.outputs)
    return gives and not any(tensor.dtype is resource for tensor in op.inputs)


def takes_handle(op: Operation) -> bool:
    """True if the operation works on state that another one made."""
    return any(tensor.dtype is resource for tensor in op.inputs)


def colocation_groups(graph: Graph) -> list[ColocationGroup]:
    """The groups of a graph, in the order of their first members; every operation is in exactly one."""
    union = _Union()
    for op in graph.operations:
        union.root(op.name)
        for tensor in op.inputs:
            if tensor.dtype is resource:
                maker = user_name(origin(tensor))
                union.bind(op.name, tensor.op.name, f"takes the handle of '{maker}'", f"gives '{op.name}' the handle")
        if back_edge(op) is not None:
            for tensor in op.inputs:
                union.bind(
                    op.name, tensor.op.name, f"is the head of the loop of '{tensor.op.name}'", "goes to its head"
                )
        for name in op.colocation:
            union.bind(op.name, name, f"is colocated with '{name}'", f"is what '{op.name}' is colocated with")
    present = {op.name: op for op in graph.operations}
    groups: dict[str, ColocationGroup] = {}
    for op in graph.operations:
        groups.setdefault(union.root(op.name), ColocationGroup()).members.append(op)
    for name, links in union.links.items():
        group = groups[union.root(name)]
        group.links[name] = links
        if name not in present:
            group.absent.append(name)
    return list(groups.values())


class _Union:
    """Union-find over names. Mutable, used once."""

    def __init__(self) -> None:
        self.links: dict[str, list[Link]] = {}
        self._parents: dict[str, str] = {}

    def root(self, name: str) -> str:
        """The name that stands for the group of `name`."""
        parents = self._parents
        parents.setdefault(name, name)
        while parents[name] != name:
            parents[name] = parents[parents[name]]  # halves the path, so that long chains stay cheap
            name = parents[name]
        return name

    def bind(self, name: str, other: str, reason: str, back: str) -> None:
        """Put two names into one group."""
        self.links.setdefault(name, []).append(Link(other, reason))
        self.links.setdefault(other, []).append(Link(name, back))
        self._parents[self.root(name)] = self.root(other)


def path_between(group: ColocationGroup, start: str, end: str) -> list[tuple[str, Link]]:
    """The shortest chain of reasons by which two names of a group share a device: each name with its link onwards."""
    came_by: dict[str, tuple[str, Link]] = {}
    queue = deque([start])
    while queue and end not in came_by:
        name = queue.popleft()
        for link in group.links.get(name, ()):
            if link.name not in came_by and link.name != start:
                came_by[link.name] = (name, link)
                queue.append(link.name)
    path: list[tuple[str, Link]] = []
    while end != start:
        path.append(came_by[end])
        end = came_by[end][0]
    return path[::-1]
