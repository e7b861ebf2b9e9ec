"""Cutting a bounded graph into what the executor runs: segments, operations that wait, and tokens.

A segment runs as a whole, when all its inputs are there. So it holds only operations that would have to wait for the
same anyway: those that

- run in the same frame and live and die together (`graph.deadness`),
- depend on the same operations that wait, since otherwise one that could go on would wait with another - for ever, if
  what that one waits for depends on it,
- have the same number of tokens and of operations that wait on the longest way to them, which keeps segments from
  depending on each other in turn,
- in a loop of which several iterations may be under way, depend on the same loop variables and lead to the same ones:
  what the next iteration needs early must not wait for what it needs late.

Constants and handles belong to no segment; each has its own copy. An operation without effect goes to the segment that
is the only one to read it, unless iterations may overlap.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from headrace.graph.deadness import deadness
from headrace.graph.frames import (
    PASSES_DEAD,
    TOKEN_TYPES,
    Frame,
    Frames,
    back_edge,
    forward_inputs,
    has_tokens,
    is_anywhere,
)
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import copy_op
from headrace.plan.step_graph import Kind, StepFrame, StepGraph, StepNode

__all__ = ["cut", "in_order_of_waits"]

_KINDS = {
    "Switch": Kind.SWITCH,
    "Enter": Kind.ENTER,
    "Exit": Kind.EXIT,
    "NextIteration": Kind.NEXT_ITERATION,
    "LoopCond": Kind.PASS,
    "ControlTrigger": Kind.TRIGGER,
    "_Retval": Kind.RESULT,
}


def in_order_of_waits(graph: Graph) -> Graph | None:
    """The same graph in an order in which one thread can run it without keeping anything waiting that need not wait.

    Returns:
      None where there is no such order: two operations that wait do not depend on each other, or values may be dead.
    """
    waits = [op for op in graph.operations if op.blocks]
    if has_tokens(graph):
        return None
    waited_for = _waited_for(graph, waits)
    if any(not waited_for[later] >> number & 1 for number, later in enumerate(waits[1:])):
        return None
    turns = {op: 2 * waited_for[op].bit_count() + op.blocks for op in graph.operations}
    readers = _readers(graph)
    for op in reversed(graph.operations):
        if readers[op] and _can_run_late(op):
            turns[op] = max(turns[op], min(turns[reader] for reader in readers[op]))
    return _copied(sorted(graph.operations, key=turns.__getitem__), graph)


def _copied(operations: Sequence[Operation], graph: Graph) -> Graph:
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    copies: dict[Operation, Operation] = {}
    for op in operations:
        inputs = [copies[tensor.op].outputs[tensor.index] for tensor in op.inputs]
        copies[op] = copy_op(op, inputs, result, [copies[item] for item in op.control_inputs])
    return result


def _can_run_late(op: Operation) -> bool:
    """True if nobody can tell when the operation runs, as long as it is before the first one that reads it."""
    changes = op.is_stateful and not op.op_def.reads_only
    return not (changes or op.blocks or "_target" in op.attrs or op.type in TOKEN_TYPES or op.type in _EDGES)


_EDGES = frozenset({"_Arg", "_Retval"})


def _readers(graph: Graph) -> dict[Operation, list[Operation]]:
    """For each operation those that read it or wait for it; the edges that close loops are left out."""
    readers: dict[Operation, list[Operation]] = {op: [] for op in graph.operations}
    for op in graph.operations:
        for source in (*(tensor.op for tensor in forward_inputs(op)), *op.control_inputs):
            readers[source].append(op)
    return readers


def _waited_for(graph: Graph, waits: Sequence[Operation], frames: Frames | None = None) -> dict[Operation, int]:
    """For each operation the ones among `waits` that must have ended before, as a set of bits.

    Args:
      graph: their graph.
      waits: operations that wait.
      frames: the loops of the graph, if it has any: an Exit may have to wait for every Enter of its loop.
    """
    bits = {op: 1 << number for number, op in enumerate(waits)}
    found = dict.fromkeys(graph.operations, 0)
    entered = dict.fromkeys(frames or (), 0)
    while True:
        changed = False
        for op in graph.operations:
            before = found[op]
            for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
                before |= found[source] | bits.get(source, 0)
            if frames is not None and op.type == "Exit":
                before |= entered[frames[op]]
            elif frames is not None and op.type == "Enter":
                entered[frames.after(op)] |= before
            if before != found[op]:
                found[op], changed = before, True
        if not changed or not has_tokens(graph):  # without loops, once in order is enough
            return found


def cut(graph: Graph) -> StepGraph:
    """Cut a bounded graph; see the module.

    Raises:
      GraphError: a loop is not well formed.
    """
    return _Cutting(graph).result()


class _Cutting:
    """One cutting in progress. Mutable, used once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._frames = Frames(graph)
        self._step_frames: dict[Frame, StepFrame] = {}
        for frame in self._frames:
            parent = None if frame.parent is None else self._step_frames[frame.parent]
            self._step_frames[frame] = StepFrame(frame.name, parent, frame.parallel_iterations)
        self._readers = _readers(graph)
        self._nodes: list[StepNode] = []
        self._node_of: dict[Operation, StepNode] = {}
        self._arguments: dict[int, list[tuple[StepNode, int]]] = {}
        self._outputs: dict[StepNode, dict[Tensor, int]] = {}

    def result(self) -> StepGraph:
        """The step graph."""
        for operations in self._groups():
            self._add_node(operations)
        inputs = {node: self._inputs(node) for node in self._nodes}
        for node in self._nodes:
            self._outputs[node] = {} if node.kind is Kind.SEGMENT else {t: t.index for t in node.operations[0].outputs}
            node.width = len(inputs[node])
        for node in self._nodes:
            for tensor in inputs[node]:
                source = self._node_of.get(tensor.op)
                if source is not None and source.kind is Kind.SEGMENT:
                    self._outputs[source].setdefault(tensor, len(self._outputs[source]))
        for node in self._nodes:
            node.consumers = [[] for _ in self._outputs[node]]
        for node in self._nodes:
            self._connect(node, inputs[node])
        for node in self._nodes:
            if node.kind <= Kind.WAIT:
                node.graph = self._graph_of(node, inputs[node])
            node.frame.add(node)
        for frame in self._step_frames.values():
            frame.seal()
        results = {op.attrs["index"]: op.inputs[0].name for op in self._graph.operations if op.type == "_Retval"}
        return StepGraph(self._nodes, list(self._step_frames.values()), self._arguments, len(results), results)

    def _groups(self) -> list[list[Operation]]:
        """The operations of each node, in the order of their first ones."""
        keys = self._keys()
        for op in reversed(self._graph.operations):
            homes = {keys.get(reader) for reader in self._readers[op]}
            mine, home = keys.get(op), next(iter(homes), None)
            if len(homes) == 1 and isinstance(mine, tuple) and isinstance(home, tuple) and _can_run_late(op):
                keys[op] = home if home[:3] == mine[:3] else mine
        groups: dict[Hashable, list[Operation]] = {}
        for op in self._graph.operations:
            if op in keys:
                groups.setdefault(keys[op], []).append(op)
        return list(groups.values())

    def _keys(self) -> dict[Operation, Hashable]:
        """What operations of one node have in common: a tuple for those in segments, else the operation itself."""
        operations = [op for op in self._graph.operations if op.type != "_Arg" and self._needs_node(op)]
        conditions = deadness(self._graph, self._frames)
        waited_for = _waited_for(self._graph, [op for op in operations if op.blocks], self._frames)
        levels = self._levels()
        depends_on, leads_to = self._depends_on(), self._leads_to()
        keys: dict[Operation, Hashable] = {}
        for op in operations:
            if _stands_alone(op):
                keys[op] = op
                continue
            frame = self._frames[op]
            variables = (depends_on[op], leads_to[op]) if _overlaps(frame) else None
            keys[op] = (frame, conditions[op], variables, waited_for[op], levels[op])
        return keys

    def _needs_node(self, op: Operation) -> bool:
        """False if whoever reads the operation has its own copy."""
        if not is_anywhere(op):
            return True
        kinds = [_kind(reader) for reader in self._readers[op]]
        return any(kind > Kind.WAIT and not _is_known(op, kind) for kind in kinds)

    def _levels(self) -> dict[Operation, int]:
        """For each operation the most tokens and operations that wait on a way to it, in its iteration.

        An Exit comes after every Enter of its loop: the dead token that it gives where the loop passes nothing on waits
        for all of them.
        """
        levels = dict.fromkeys(self._graph.operations, 0)
        entered = dict.fromkeys(self._frames, 0)
        for _ in range(len(entered) + 1):  # an Enter may stand behind an Exit of its loop
            before = entered.copy()
            for op in self._graph.operations:
                sources = [*(tensor.op for tensor in forward_inputs(op)), *op.control_inputs]
                levels[op] = max((levels[item] + _stands_alone(item) for item in sources), default=0)
                if op.type == "Exit":
                    levels[op] = max(levels[op], entered[self._frames[op]])
                elif op.type == "Enter":
                    after = self._frames.after(op)
                    entered[after] = max(entered[after], levels[op] + 1)
            if entered == before:
                break
        return levels

    def _depends_on(self) -> dict[Operation, int]:
        """For each operation the loop variables that it depends on in its iteration, as a set of bits."""
        bits: dict[Operation, int] = {}
        opened = dict.fromkeys(self._frames, 0)
        for op in self._graph.operations:
            bits[op] = 0
            for source in (*(tensor.op for tensor in forward_inputs(op)), *op.control_inputs):
                bits[op] |= bits[source]
            if op.type == "Enter":
                opened[self._frames.after(op)] |= bits[op]
            elif op.type == "Exit":
                bits[op] = opened[self._frames[op]]
            elif back_edge(op) is not None:
                bits[op] = 1 << op.index
        return bits

    def _leads_to(self) -> dict[Operation, int]:
        """For each operation the loop variables of its frame that it leads to in its iteration, as a set of bits."""
        bits: dict[Operation, int] = {}
        for op in reversed(self._graph.operations):
            if op.type == "NextIteration":
                bits[op] = 1 << op.index
            elif op.type == "Exit":
                bits[op] = 0
            else:
                bits[op] = 0
                for reader in self._readers[op]:
                    bits[op] |= bits[reader]
        return bits

    def _add_node(self, operations: Sequence[Operation]) -> None:
        first = operations[0]
        kind = _kind(first)
        frame = self._frames[first]
        node = StepNode(len(self._nodes), kind, tuple(operations), self._step_frames[frame])
        if kind is Kind.ENTER:
            node.target = self._step_frames[self._frames.after(first)]
            node.target.enters += 1
            node.is_constant = first.attrs["is_constant"]
        if kind is Kind.RESULT:
            node.number = first.attrs["index"]
        node.passes_dead = _passes_dead(first)
        self._nodes.append(node)
        self._node_of.update((op, node) for op in operations)

    def _inputs(self, node: StepNode) -> list[Tensor]:
        """What a node reads from others: each tensor once for a segment, as the operation has them for others."""
        if node.kind > Kind.WAIT:
            return list(node.operations[0].inputs)
        inside = set(node.operations)
        read = dict.fromkeys(tensor for op in node.operations for tensor in op.inputs)
        return [tensor for tensor in read if tensor.op not in inside and not is_anywhere(tensor.op)]

    def _connect(self, node: StepNode, inputs: Sequence[Tensor]) -> None:
        """Add the edges into a node."""
        for position, tensor in enumerate(inputs):
            if tensor.op.type == "_Arg":
                self._arguments.setdefault(tensor.op.attrs["index"], []).append((node, position))
            elif _is_known(tensor.op, node.kind):
                node.constants[position] = tensor.op.attrs["value"]
                continue
            else:
                source = self._node_of[tensor.op]
                source.consumers[self._outputs[source][tensor]].append((node, position))
            node.edges += 1
        if node.kind is Kind.LOOP_HEAD:
            node.edges = 1
        before = dict.fromkeys(self._node_of.get(item) for op in node.operations for item in op.control_inputs)
        for waited_for in before:
            if waited_for is not None and waited_for is not node:
                waited_for.followers.append(node)
                node.edges += 1

    def _graph_of(self, node: StepNode, inputs: Sequence[Tensor]) -> Graph | None:
        """What to compile for a segment, or for an operation that waits: a bounded graph."""
        if all(op.type == "NoOp" for op in node.operations):
            return None
        graph = Graph(seed=self._graph.seed, extend=True, functions=self._graph.functions)
        tensors: dict[Tensor, Tensor] = {}
        for index, tensor in enumerate(inputs):
            attrs = {"T": tensor.dtype, "index": index, "shape": tensor.shape}
            source = tensor.op.source
            argument = graph.create_op("_Arg", (), attrs, name=f"argument_{index}", source=source)
            tensors[tensor] = argument.outputs[0]
        copies: dict[Operation, Operation] = {}
        for op in node.operations:
            for tensor in op.inputs:
                if tensor not in tensors and is_anywhere(tensor.op):
                    tensors.update(zip(tensor.op.outputs, copy_op(tensor.op, (), graph).outputs, strict=True))
            controls = [copies[item] for item in op.control_inputs if item in copies]
            copies[op] = copy_op(op, [tensors[tensor] for tensor in op.inputs], graph, controls)
            for old, new in zip(op.outputs, copies[op].outputs, strict=True):
                new.shape = old.shape
                tensors[old] = new
        fetched = {op.inputs[0] for op in self._graph.operations if op.type == "_Retval"}
        for tensor, index in self._outputs[node].items():
            attrs = {"T": tensor.dtype, "index": index} | ({} if tensor in fetched else {"_may_alias": True})
            graph.create_op("_Retval", [tensors[tensor]], attrs, name=f"result_{index}", source=tensor.op.source)
        return graph


def _overlaps(frame: Frame) -> bool:
    return frame.parent is not None and frame.parallel_iterations > 1


def _is_known(op: Operation, kind: Kind) -> bool:
    """True if what the operation gives to a token or result of that kind is known before the step.

    A Merge takes what comes first, and a constant comes like everything else.
    """
    return op.type == "Const" and is_anywhere(op) and kind is not Kind.MERGE


def _stands_alone(op: Operation) -> bool:
    return op.type in TOKEN_TYPES or op.type == "_Retval" or op.blocks or _passes_dead(op)


def _passes_dead(op: Operation) -> bool:
    return op.op_def.passes_dead or PASSES_DEAD in op.attrs


def _kind(op: Operation) -> Kind:
    if op.type == "Merge":
        return Kind.MERGE if forward_inputs(op) == op.inputs else Kind.LOOP_HEAD
    if op.type in _KINDS:
        return _KINDS[op.type]
    return Kind.WAIT if op.blocks or _passes_dead(op) else Kind.SEGMENT
